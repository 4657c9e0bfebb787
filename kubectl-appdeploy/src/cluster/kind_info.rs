//! Names of each kind in texts, and its API resource.

use crd::{AppDeploy, AppQueue, Kind, Names, PodSet};
use kube::api::{ApiResource, DynamicObject};
use kube::core::TypeMeta;
use kube::{Api, Client};
use model::{NextCommand, command};

/// The names of a kind in texts.
#[derive(Debug)]
pub struct KindInfo {
    /// One of them.
    pub one: &'static str,
    /// One of them, with its article.
    pub an: &'static str,
    /// Several of them.
    pub many: &'static str,
    /// The parent command of their verbs.
    pub command: &'static str,
    /// The name in examples.
    pub name: &'static str,
    /// Another name in examples.
    pub other: &'static str,
    /// Its children, in words.
    pub family: &'static str,
    /// What happens to its pods in a restart.
    pub restart: &'static str,
    /// What can be set.
    pub fields: &'static str,
    /// The short name, as in kubectl.
    pub short: &'static str,
    /// The kind, and its names in manifests and URLs.
    pub names: Names,
    /// The kind, if its objects have pods.
    pub workload: Option<Kind>,
    resource: fn() -> ApiResource,
}

impl PartialEq for KindInfo {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}

impl Eq for KindInfo {}

impl From<Kind> for &'static KindInfo {
    fn from(kind: Kind) -> Self {
        of(kind)
    }
}

/// The names of all kinds.
pub const ALL: [&KindInfo; 3] = [&APP, &PODSET, &QUEUE];

const APP: KindInfo = KindInfo {
    one: "app",
    an: "an app",
    many: "apps",
    command: "kubectl appdeploy",
    name: "shop",
    other: "blog",
    family: "its Deployment, Service, Ingress and pods",
    restart: "the old pods serve until the new ones are ready",
    fields: "image, environment, volumes, resources, ServiceAccount, host, port, placement or rollout",
    short: "ad",
    names: Kind::AppDeploy.names(),
    workload: Some(Kind::AppDeploy),
    resource: || ApiResource::erase::<AppDeploy>(&()),
};

const PODSET: KindInfo = KindInfo {
    one: "pod set",
    an: "a pod set",
    many: "pod sets",
    command: "kubectl appdeploy podset",
    name: "workers",
    other: "batch",
    family: "its pods",
    restart: "at most maxUnavailable are unavailable at a time",
    fields: "image, environment, volumes, resources, ServiceAccount, port or placement",
    short: "pset",
    names: Kind::PodSet.names(),
    workload: Some(Kind::PodSet),
    resource: || ApiResource::erase::<PodSet>(&()),
};

/// The names of AppQueues.
pub const QUEUE: KindInfo = KindInfo {
    one: "queue",
    an: "a queue",
    many: "queues",
    command: "kubectl appdeploy queue",
    name: "orders",
    other: "invoices",
    family: "its depth and URL",
    restart: "",
    fields: "",
    short: "aq",
    names: Names::APP_QUEUE,
    workload: None,
    resource: || ApiResource::erase::<AppQueue>(&()),
};

/// Returns the words for a kind.
pub const fn of(kind: Kind) -> &'static KindInfo {
    match kind {
        Kind::AppDeploy => &APP,
        Kind::PodSet => &PODSET,
    }
}

/// Returns a name as kubectl prints it.
pub fn title(kind: impl Into<&'static KindInfo>, name: &str) -> String {
    format!("{}.{}/{name}", kind.into().names.singular, crd::GROUP)
}

/// Returns where the API server keeps a kind.
pub fn resource(kind: impl Into<&'static KindInfo>) -> ApiResource {
    (kind.into().resource)()
}

/// Returns the objects of a kind in a namespace, or in all. They are read as plain objects, so that `-o yaml`
/// keeps fields this plugin is too old to know.
pub fn api(client: &Client, kind: impl Into<&'static KindInfo>, namespace: Option<&str>) -> Api<DynamicObject> {
    let kind = kind.into();
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource(kind)),
        None => Api::all_with(client.clone(), &resource(kind)),
    }
}

/// Adds kind and version, which the items of a list do not have.
pub fn complete(kind: impl Into<&'static KindInfo>, mut object: DynamicObject) -> DynamicObject {
    object.types.get_or_insert_with(|| {
        let resource = resource(kind);
        TypeMeta {
            api_version: resource.api_version,
            kind: resource.kind,
        }
    });
    object
}

impl KindInfo {
    /// Returns the command of a verb for one of them.
    pub fn verb(&self, verb: &'static str, name: &str) -> NextCommand {
        NextCommand::from(self.command).and(verb).and(command!("{}", name))
    }

    /// Returns a number of them.
    pub fn count(&self, count: usize) -> String {
        format!("{count} {}", if count == 1 { self.one } else { self.many })
    }

    /// Returns the command that edits one of them.
    pub fn edit(&self, name: &str) -> NextCommand {
        if self.workload.is_some() {
            self.verb("edit", name)
        } else {
            command!("kubectl edit {} {}", self.names.singular, name)
        }
    }

    /// Returns a command of this kind from words that can be `{name}`.
    pub fn example(&self, words: &'static str) -> NextCommand {
        let words = words.split(' ').map(|word| match word.strip_prefix("{name}=") {
            Some(value) => command!("{}={}", self.name, value),
            None if word == "{name}" => self.name.into(),
            None => word.into(),
        });
        words.fold(NextCommand::from(self.command), NextCommand::and)
    }

    /// Puts the words into a text that names them in braces, like `{many}`.
    pub fn fill(&self, text: &str) -> String {
        [
            ("{one}", self.one),
            ("{an}", self.an),
            ("{many}", self.many),
            ("{command}", self.command),
            ("{name}", self.name),
            ("{other}", self.other),
            ("{family}", self.family),
            ("{restart}", self.restart),
            ("{fields}", self.fields),
            ("{kind}", self.names.kind),
        ]
        .iter()
        .fold(text.to_owned(), |text, (place, word)| text.replace(place, word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shared_by_both_kinds() {
        let said = Kind::ALL.map(|kind| of(kind).fill("{command} delete {name} deletes {an} with {family}"));
        assert_eq!(
            said,
            [
                "kubectl appdeploy delete shop deletes an app with its Deployment, Service, Ingress and pods",
                "kubectl appdeploy podset delete workers deletes a pod set with its pods"
            ]
        );
    }
}

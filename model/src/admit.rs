//! What is said of an object before it is stored: what is refused, what is only warned of, what is put into its usual
//! form, and which rights of its author are asked for. Most rules stand in the schema and hold without this.

use std::collections::BTreeSet;

use crd::{AppDeploy, ContainerFields, Kind, PodFields, PodSet, label};
use serde::Serialize;
use serde_json::{Value, json};

use crate::children::DEPLOYMENT;
use crate::inverse::Additions;
use crate::{command, quantity};

/// A right that the author of a spec must have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The verb.
    pub verb: &'static str,
    /// The API group of the object.
    pub group: &'static str,
    /// The plural name of its kind: `secrets`, `configmaps` or `deployments`.
    pub resource: &'static str,
    /// Its name.
    pub name: String,
    /// Why the right is needed.
    pub reason: Reason,
}

/// Why the author of a spec needs a right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// This field refers to the object, so a program of the author's choice could read it. If several do, the first.
    Field(String),
    /// The object, a Deployment, has these fields that the spec does not stand for, and the change starts another program
    /// in its pods.
    Added(Box<str>),
    /// What the Deployment has beyond the spec is not known; the text is the reason.
    Unknown(Box<str>),
}

impl Reference {
    fn get(resource: &'static str, name: &str, field: String) -> Self {
        Self {
            verb: "get",
            group: "",
            resource,
            name: name.to_owned(),
            reason: Reason::Field(field),
        }
    }

    /// Returns the message for an author who lacks the right.
    #[must_use]
    pub fn refusal(&self, author: &str, namespace: &str) -> String {
        let Self { resource, name, .. } = self;
        let why = match &self.reason {
            Reason::Field(field) => {
                return format!(
                    "{field} refers to {} {name}, which {author} may not get in namespace {namespace}: let somebody apply \
                     this who may, or ask for the right to get {resource}/{name}",
                    resource.trim_end_matches('s')
                );
            }
            Reason::Added(fields) => format!(
                "deployment {name} has fields that were added by another manager ({fields}), and a new image, command, \
                 argument or variable could read them"
            ),
            Reason::Unknown(why) => {
                format!("the operator cannot see whether other managers added fields to deployment {name}: {why}")
            }
        };
        let grant = command!(
            "kubectl create role {}-deployer -n {} --verb=patch --resource=deployments.apps --resource-name={}",
            name,
            namespace,
            name
        )
        .and(command!(
            "&& kubectl create rolebinding {}-deployer -n {} --role={}-deployer --user={}",
            name,
            namespace,
            name,
            author
        ));
        format!(
            "{why}; this change needs the right to patch deployments/{name} in namespace {namespace}, which {author} does \
             not have: ask an administrator to apply the change, or to grant the right: {}",
            grant.as_str()
        )
    }
}

/// A kind whose objects are admitted.
pub trait Admitted: Serialize {
    /// What runs in the pods.
    fn pod(&self) -> &PodFields;
    /// Where that stands.
    const POD: &'static str;
    /// Whether that is what runs where nobody says what.
    fn is_default(&self) -> bool {
        false
    }
    /// How many pods.
    fn replicas(&self) -> i32;
    /// Secrets beside those of the pods, with the field.
    fn secrets(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

impl Admitted for AppDeploy {
    const POD: &'static str = "spec";

    fn pod(&self) -> &PodFields {
        &self.spec.pod
    }

    fn replicas(&self) -> i32 {
        self.spec.replicas
    }

    fn secrets(&self) -> Vec<(String, String)> {
        let tls = self.spec.tls.iter();
        tls.filter_map(|tls| Some((tls.secret_name.clone()?, "spec.tls.secretName".to_owned())))
            .collect()
    }
}

impl Admitted for PodSet {
    const POD: &'static str = "spec.template";

    fn pod(&self) -> &PodFields {
        self.spec.pod()
    }

    fn is_default(&self) -> bool {
        self.spec.template.is_none()
    }

    fn replicas(&self) -> i32 {
        self.spec.replicas
    }
}

/// Returns what of the author's rights has to be asked for, each object once.
///
/// On creation that is all that the spec refers to. On an update it is the same, unless nothing but the number of
/// replicas has changed: who scales need not see what is scaled.
#[must_use]
pub fn questions<K: Admitted>(new: &K, old: Option<&K>) -> Vec<Reference> {
    if old.is_some_and(|old| but_replicas(old) == but_replicas(new)) {
        return Vec::new();
    }
    let at = K::POD;
    let mut found = Vec::new();
    let mut add = |resource: &'static str, name: &str, field: String| found.push(Reference::get(resource, name, field));
    for var in &new.pod().container.env {
        let Some(source) = &var.value_from else { continue };
        let field = format!("{at}.env {}", var.name);
        if let Some(key) = &source.secret_key_ref {
            add("secrets", &key.name, field.clone());
        }
        if let Some(key) = &source.config_map_key_ref {
            add("configmaps", &key.name, field);
        }
    }
    for secret in &new.pod().image_pull_secrets {
        add("secrets", &secret.name, format!("{at}.imagePullSecrets"));
    }
    for (name, field) in new.secrets() {
        add("secrets", &name, field);
    }
    let mut known = BTreeSet::new();
    found.retain(|reference| known.insert((reference.resource, reference.name.clone())));
    found
}

/// Returns the right that the author of an update needs because of what other managers added to the Deployment: with the
/// right to patch it, the author could add the same. `None` if the update does not change which program runs there.
///
/// `old` is `None` if the stored object cannot be read. That counts as a change of the program.
#[must_use]
pub fn question_of_additions(new: &AppDeploy, old: Option<&AppDeploy>, additions: &Additions) -> Option<Reference> {
    if old.is_some_and(|old| program(&old.spec.pod) == program(&new.spec.pod)) {
        return None;
    }
    let reason = match additions {
        Additions::None => return None,
        Additions::Fields(fields) => Reason::Added(fields.clone()),
        Additions::Unknown(why) => Reason::Unknown(why.clone()),
    };
    Some(Reference {
        verb: "patch",
        group: "apps",
        resource: DEPLOYMENT.plural,
        name: new.metadata.name.clone()?,
        reason,
    })
}

/// Returns a spec with only the fields that decide which program runs and what it does. Variables count: `LD_PRELOAD` and
/// `PATH` choose a program as well.
fn program(pod: &PodFields) -> PodFields {
    PodFields {
        container: ContainerFields {
            image: pod.container.image.clone(),
            image_pull_policy: pod.container.image_pull_policy,
            command: pod.container.command.clone(),
            args: pod.container.args.clone(),
            env: pod.container.env.clone(),
            ..ContainerFields::default()
        },
        image_pull_secrets: pod.image_pull_secrets.clone(),
        ..PodFields::default()
    }
}

/// Whether two versions of an object ask for the same: an update of labels, say, is nobody's business here.
#[must_use]
pub fn is_same<K: Admitted>(old: &K, new: &K) -> bool {
    spec(old) == spec(new)
}

fn spec(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()["spec"].take()
}

fn but_replicas(object: &impl Serialize) -> Value {
    let mut spec = spec(object);
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("replicas");
    }
    spec
}

/// Returns what a person might not have meant. Nothing of it keeps an object from being stored. What only matters in
/// production is one warning, so that the first command of a newcomer has one line to read.
#[must_use]
pub fn warnings<K: Admitted>(object: &K) -> Vec<String> {
    let (pod, at) = (object.pod(), K::POD);
    // Each with its short form.
    let mut later: Vec<(&str, String)> = Vec::new();
    if !object.is_default() && !is_pinned(&pod.container.image) {
        let name = pod.container.image.trim_end_matches(":latest");
        let why = if name == pod.container.image {
            "has no tag"
        } else {
            "can change"
        };
        let sentence = format!(
            "{at}.image: {} {why}, so each start may run another version; write it like {name}:1.4",
            pod.container.image,
        );
        later.push(("pin the image version", sentence));
    }
    if pod
        .container
        .resources
        .as_ref()
        .is_none_or(|resources| resources.requests.is_empty())
    {
        let sentence = format!(
            "{at}.resources: without requests the scheduler reserves nothing, and the pods are the first to be evicted"
        );
        later.push(("set requests", sentence));
    }
    if object.replicas() == 1 && pod.container.port.is_some() {
        let sentence = "spec.replicas: with one pod nothing answers while it is replaced or its node is drained";
        later.push(("run 2 replicas", sentence.to_owned()));
    }
    let mut warnings = match later.as_slice() {
        [(_, sentence)] => vec![sentence.clone()],
        [] => Vec::new(),
        several => {
            let short: Vec<&str> = several.iter().map(|(short, _)| *short).collect();
            vec![format!("before production: {}", short.join(", "))]
        }
    };
    warnings.extend(tiny_amounts(pod, at));
    warnings
}

/// Returns the path of the fields about pods in a kind.
#[must_use]
pub const fn pod_path(kind: Kind) -> &'static str {
    match kind {
        Kind::AppDeploy => AppDeploy::POD,
        Kind::PodSet => PodSet::POD,
    }
}

/// Warns of amounts of memory in which no container starts, as when a unit was forgotten. `at` is the path of the fields.
#[must_use]
pub fn tiny_amounts(pod: &PodFields, at: &str) -> Vec<String> {
    let Some(resources) = &pod.container.resources else {
        return Vec::new();
    };
    let parts = [("requests", &resources.requests), ("limits", &resources.limits)];
    let memory = parts
        .into_iter()
        .filter_map(|(part, amounts)| Some((part, &*amounts.get("memory")?.0)));
    memory
        .filter(|(_, amount)| quantity::is_tiny_memory(amount))
        .map(|(part, amount)| {
            format!(
                "{at}.resources.{part}.memory: no container starts with {}; write a unit, like {}",
                quantity::with_unit(amount),
                quantity::meant_memory(amount)
            )
        })
        .collect()
}

/// Whether an image names a version: a digest, or a tag other than `latest`.
fn is_pinned(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or(image);
    image.contains('@') || name.split_once(':').is_some_and(|(_, tag)| tag != "latest")
}

/// Returns the JSON patch (RFC 6902) that adds the label with the object's name, by which tools group related objects. A
/// spec is never changed: what is stored would differ from what is in Git. Applied twice it changes nothing more.
#[must_use]
pub fn usual_form(object: &Value) -> Value {
    let mut patch = Vec::new();
    let meta = &object["metadata"];
    // A generated name is not known yet.
    if let Some(name) = meta["name"].as_str()
        && meta["labels"].get(label::NAME).is_none()
    {
        if meta["labels"].is_null() {
            patch.push(json!({"op": "add", "path": "/metadata/labels", "value": {label::NAME: name}}));
        } else {
            let pointer = format!("/metadata/labels/{}", label::NAME.replace('/', "~1"));
            patch.push(json!({"op": "add", "path": pointer, "value": name}));
        }
    }
    Value::Array(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(spec: Value) -> AppDeploy {
        serde_json::from_value(json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "shop", "namespace": "a"}, "spec": spec}))
        .unwrap()
    }

    fn referring(replicas: i32) -> AppDeploy {
        app(json!({
            "image": "nginx:1", "port": 80, "replicas": replicas,
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "db", "key": "a"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "db", "key": "b"}}},
                {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "db", "key": "c"}}},
            ],
            "imagePullSecrets": [{"name": "registry"}],
            "tls": {"secretName": "tls"},
        }))
    }

    #[test]
    fn every_object_that_a_spec_reaches_is_asked_for_once() {
        let asked: Vec<_> = questions(&referring(1), None)
            .into_iter()
            .map(|r| (r.verb, r.resource, r.name, r.reason))
            .collect();
        let expected = [
            ("secrets", "db", "spec.env A"),
            ("configmaps", "db", "spec.env C"),
            ("secrets", "registry", "spec.imagePullSecrets"),
            ("secrets", "tls", "spec.tls.secretName"),
        ];
        let expected = expected.map(|(r, n, f)| ("get", r, n.to_owned(), Reason::Field(f.to_owned())));
        assert_eq!(asked, expected);
    }

    #[test]
    fn another_program_next_to_added_fields_needs_the_right_to_patch_the_deployment() {
        let added = Additions::Fields("spec.template.spec.volumes[keys]".into());
        let old = app(json!({"image": "nginx:1", "replicas": 1}));
        for change in [
            json!({"image": "nginx:2"}),
            json!({"image": "nginx:1", "command": ["cat", "/keys/key"]}),
            json!({"image": "nginx:1", "args": ["/keys/key"]}),
            json!({"image": "nginx:1", "env": [{"name": "LD_PRELOAD", "value": "/x.so"}]}),
            json!({"image": "nginx:1", "imagePullPolicy": "Always"}),
            json!({"image": "nginx:1", "imagePullSecrets": [{"name": "mine"}]}),
        ] {
            let new = app(change.clone());
            let asked = question_of_additions(&new, Some(&old), &added).unwrap();
            let right = (asked.verb, asked.group, asked.resource, &*asked.name);
            assert_eq!(right, ("patch", "apps", "deployments", "shop"), "{change}");
            assert_eq!(question_of_additions(&new, Some(&old), &Additions::None), None);
            let unknown = Additions::Unknown("not listed yet".into());
            assert!(question_of_additions(&new, Some(&old), &unknown).is_some());
        }
        let other = json!({"image": "nginx:1", "replicas": 9, "port": 80, "resources": {"limits": {"cpu": "1"}},
            "healthCheck": {"path": "/"}, "securityProfile": "Restricted", "host": "shop.example.com"});
        assert_eq!(question_of_additions(&app(other), Some(&old), &added), None);
        assert!(question_of_additions(&old, None, &added).is_some());
    }

    #[test]
    fn the_refusal_names_the_fields_the_right_and_the_next_command() {
        let (old, new) = (app(json!({"image": "nginx:1"})), app(json!({"image": "nginx:2"})));
        let refusal = |additions| {
            let asked = question_of_additions(&new, Some(&old), &additions).unwrap();
            asked.refusal("system:serviceaccount:ci:o'brien", "blue")
        };
        insta::assert_snapshot!(refusal(Additions::Fields("spec.template.spec.volumes[keys]".into())), @r"deployment shop has fields that were added by another manager (spec.template.spec.volumes[keys]), and a new image, command, argument or variable could read them; this change needs the right to patch deployments/shop in namespace blue, which system:serviceaccount:ci:o'brien does not have: ask an administrator to apply the change, or to grant the right: kubectl create role shop-deployer -n blue --verb=patch --resource=deployments.apps --resource-name=shop && kubectl create rolebinding shop-deployer -n blue --role=shop-deployer --user='system:serviceaccount:ci:o'\''brien'");
        let unknown = refusal(Additions::Unknown("not listed yet".into()));
        let sentence = "the operator cannot see whether other managers added fields to deployment shop: not listed yet; this \
                        change needs the right to patch deployments/shop in namespace blue";
        assert!(unknown.starts_with(sentence), "{unknown}");
    }

    #[test]
    fn who_scales_need_not_see_what_is_scaled() {
        assert_eq!(questions(&referring(2), Some(&referring(1))), []);
        let mut other = referring(1);
        other.spec.pod.container.command = vec!["env".into()];
        assert_eq!(questions(&other, Some(&referring(1))).len(), 4);
    }

    #[test]
    fn several_hints_for_production_are_one_line_of_80_columns() {
        let hasty = app(json!({"image": "localhost:5000/nginx", "port": 80}));
        let said = warnings(&hasty);
        assert_eq!(
            said,
            ["before production: pin the image version, set requests, run 2 replicas"]
        );
        assert!("Warning: ".len() + said[0].len() <= 80);
        let resources = json!({"requests": {"cpu": "10m"}});
        let fine = app(json!({"image": "localhost:5000/nginx:1", "port": 80, "replicas": 2, "resources": resources}));
        assert_eq!(warnings(&fine), [""; 0]);
        let resources = json!({"requests": {"memory": "64Mi"}, "limits": {"memory": "128"}});
        let small = app(json!({"image": "nginx", "port": 80, "resources": resources}));
        assert_eq!(warnings(&small).len(), 2);
        for (image, pinned) in [
            ("nginx:latest", false),
            ("nginx@sha256:00", true),
            ("a/b:1", true),
            ("a:5/b", false),
        ] {
            assert_eq!(is_pinned(image), pinned, "{image}");
        }
    }

    #[test]
    fn one_hint_says_why_and_a_tag_that_can_change_is_not_called_missing() {
        let resources = json!({"requests": {"cpu": "10m"}});
        let said = |image: &str| warnings(&app(json!({"image": image, "resources": resources}))).remove(0);
        assert_eq!(
            said("nginx"),
            "spec.image: nginx has no tag, so each start may run another version; write it like nginx:1.4"
        );
        assert_eq!(
            said("nginx:latest"),
            "spec.image: nginx:latest can change, so each start may run another version; write it like nginx:1.4"
        );
        let one = app(json!({"image": "nginx:1", "port": 80, "resources": resources}));
        assert_eq!(
            warnings(&one),
            ["spec.replicas: with one pod nothing answers while it is replaced or its node is drained"]
        );
    }

    #[test]
    fn memory_without_its_unit_is_warned_of() {
        let resources = json!({"requests": {"memory": "64Mi"}, "limits": {"memory": "128", "cpu": "1"}});
        let small = app(json!({"image": "nginx:1", "replicas": 2, "resources": resources}));
        assert_eq!(
            warnings(&small),
            ["spec.resources.limits.memory: no container starts with 128 bytes; write a unit, like 128Mi"]
        );
    }

    #[test]
    fn the_usual_form_is_reached_in_one_go() {
        let mut object = json!({"metadata": {"name": "shop"}, "spec": {"host": " Shop.Example.COM. "}});
        let patch = usual_form(&object);
        let labels = json!({"app.kubernetes.io/name": "shop"});
        assert_eq!(
            patch,
            json!([{"op": "add", "path": "/metadata/labels", "value": labels}]),
            "the host stays as written"
        );
        object["metadata"]["labels"] = labels;
        assert_eq!(usual_form(&object), json!([]));
        let theirs = json!({"metadata": {"name": "shop", "labels": {"app.kubernetes.io/name": "mine"}}, "spec": {}});
        assert_eq!(usual_form(&theirs), json!([]));
    }
}

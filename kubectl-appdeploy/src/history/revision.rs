//! One revision, as a ReplicaSet remembers it.

use crd::PodFields;
use crd::annotation::{RESTARTED_AT, REVISION_SPEC};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use model::inverse;

use crate::children::is_of;

/// The annotation in which Kubernetes numbers the revisions of a Deployment.
const NUMBER: &str = "deployment.kubernetes.io/revision";

/// One revision of an app.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// Its number. One that is gone back to gets a new one.
    pub number: u64,
    /// When it was first made.
    pub created: Option<Time>,
    /// What ran in each pod.
    pub pod: PodFields,
    /// Where it says what no app can say.
    pub left: Vec<String>,
    /// The restart that it was made for.
    pub restarted: Option<String>,
    /// The pods of it that are ready.
    pub ready: i32,
    /// The pods of it that there shall be.
    pub wanted: i32,
}

impl Revision {
    /// Whether requests reach pods of it.
    pub const fn serves(&self) -> bool {
        self.ready > 0
    }

    /// Returns its image.
    pub fn image(&self) -> &str {
        &self.pod.image
    }
}

/// Reads the revisions of a Deployment, the oldest first.
pub fn read(deployment: &Deployment, sets: &[ReplicaSet]) -> Vec<Revision> {
    let owner = deployment.metadata.uid.as_deref();
    let mut revisions: Vec<Revision> = sets.iter().filter(|set| is_of(*set, owner)).filter_map(of).collect();
    revisions.sort_by_key(|revision| revision.number);
    revisions
}

fn of(set: &ReplicaSet) -> Option<Revision> {
    let number = set.annotations().get(NUMBER)?.parse().ok()?;
    let spec = set.spec.as_ref()?;
    let template = spec.template.as_ref()?;
    let annotations = template.metadata.as_ref().and_then(|meta| meta.annotations.as_ref());
    // What the app said, word for word; else what its pods say.
    let said = set.annotations().get(REVISION_SPEC);
    let (pod, left) = if let Some(pod) = said.and_then(|text| serde_json::from_str(text).ok()) {
        (pod, Vec::new())
    } else {
        let read = inverse::of_template(template);
        let left = read.left.into_iter().filter(inverse::Left::matters);
        (read.said, left.map(|left| left.path).collect())
    };
    Some(Revision {
        number,
        created: set.metadata.creation_timestamp.clone(),
        pod,
        left,
        restarted: annotations.and_then(|all| all.get(RESTARTED_AT)).cloned(),
        ready: set
            .status
            .as_ref()
            .and_then(|status| status.ready_replicas)
            .unwrap_or(0),
        wanted: spec.replicas.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_app_said_comes_before_what_its_pods_say() {
        let deployment: Deployment = serde_json::from_value(json!({"metadata": {"name": "shop", "uid": "d"}})).unwrap();
        let set = |number: &str, owner: &str, said: Option<&str>| -> ReplicaSet {
            let mut set = json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": number},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "uid": owner, "controller": true}]},
                "spec": {"selector": {}, "replicas": 1, "template": {"spec": {"serviceAccountName": "root",
                    "containers": [{"name": "app", "image": "nginx:2"}]}}}});
            if let Some(said) = said {
                set["metadata"]["annotations"]["appdeploy.dev/revision-spec"] = said.into();
            }
            serde_json::from_value(set).unwrap()
        };
        let sets = [
            set("10", "d", None),
            set("9", "d", Some(r#"{"image": "nginx:1"}"#)),
            set("1", "other", None),
        ];
        let read = read(&deployment, &sets);
        let said: Vec<_> = read.iter().map(|one| (one.number, one.image())).collect();
        assert_eq!(said, [(9, "nginx:1"), (10, "nginx:2")]);
        assert!(
            read[0].left.is_empty() && read[1].left.iter().any(|path| path.contains("serviceAccountName")),
            "{read:?}"
        );
    }
}

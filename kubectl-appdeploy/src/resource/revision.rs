//! Revisions of an app, from its ReplicaSets.

use crd::annotation::{RESTARTED_AT, REVISION_SPEC};
use crd::{Kind, PodFields, RevisionStatus};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use model::spec_reader;

use crate::cluster::connection::Cluster;
use crate::cluster::kind_info;
use crate::error::{Error, Result};
use crate::resource::children::is_of;
use crate::resource::selection;
use crate::resource::workload::Workload;

/// The annotation in which Kubernetes numbers the revisions of a Deployment.
const NUMBER: &str = "deployment.kubernetes.io/revision";

/// The annotation with the numbers that the revision of a ReplicaSet had before it was rolled out again.
const FORMER: &str = "deployment.kubernetes.io/revision-history";

/// One revision of an app.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// Its number. A rollback gets a new one.
    pub number: u64,
    /// When its rollout began, if this is known: a ReplicaSet is older than a revision that uses it again.
    pub created: Option<Time>,
    /// What ran in each pod.
    pub pod: PodFields,
    /// The fields that a spec can't express.
    pub left: Vec<String>,
    /// The restart that it was made for.
    pub restarted: Option<String>,
    /// Whether all its pods were ready at some time, if this was recorded.
    pub became_ready: Option<bool>,
    /// The pods of it that are ready.
    pub ready: i32,
    /// The number of its pods that are wanted.
    pub wanted: i32,
}

impl Revision {
    /// Whether requests reach pods of it.
    pub const fn serves(&self) -> bool {
        self.ready > 0
    }

    /// Returns its image.
    pub fn image(&self) -> &str {
        &self.pod.container.image
    }
}

/// Reads the revisions of a Deployment, the oldest first. `recorded` are those in the status of the app.
pub fn read(deployment: &Deployment, sets: &[ReplicaSet], recorded: &[RevisionStatus]) -> Vec<Revision> {
    let owner = deployment.metadata.uid.as_deref();
    let own = sets.iter().filter(|set| is_of(*set, owner)).filter_map(of);
    let mut revisions: Vec<Revision> = own.flatten().collect();
    revisions.sort_by_key(|revision| revision.number);
    for revision in &mut revisions {
        let Some(record) = recorded
            .iter()
            .find(|one| u64::try_from(one.number) == Ok(revision.number))
        else {
            continue;
        };
        revision.became_ready = Some(record.became_ready);
        if revision.created.is_none() {
            revision.created.clone_from(&record.start_time);
        }
    }
    revisions
}

/// Returns the revision of a ReplicaSet under each number that it had.
fn of(set: &ReplicaSet) -> Option<Vec<Revision>> {
    let number: u64 = set.annotations().get(NUMBER)?.parse().ok()?;
    let spec = set.spec.as_ref()?;
    let template = spec.template.as_ref()?;
    let annotations = template.metadata.as_ref().and_then(|meta| meta.annotations.as_ref());
    // The recorded spec; otherwise the spec that is read from the pod template.
    let said = set.annotations().get(REVISION_SPEC);
    let (pod, left) = if let Some(pod) = said.and_then(|text| serde_json::from_str(text).ok()) {
        (pod, Vec::new())
    } else {
        let read = spec_reader::read_template(template);
        let left = read.unmapped.into_iter().filter(spec_reader::UnmappedField::matters);
        (read.value, left.map(|left| left.path).collect())
    };
    let former = set.annotations().get(FORMER).map_or("", String::as_str);
    let mut numbers: Vec<u64> = former.split(',').filter_map(|number| number.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.retain(|former| *former < number);
    let now = Revision {
        number,
        // The ReplicaSet was created for the first of them.
        created: None,
        pod,
        left,
        became_ready: None,
        restarted: annotations.and_then(|all| all.get(RESTARTED_AT)).cloned(),
        ready: set
            .status
            .as_ref()
            .and_then(|status| status.ready_replicas)
            .unwrap_or(0),
        wanted: spec.replicas.unwrap_or(0),
    };
    let mut all: Vec<Revision> = numbers
        .into_iter()
        .map(|number| Revision {
            number,
            ready: 0,
            wanted: 0,
            ..now.clone()
        })
        .collect();
    all.push(now);
    all[0].created.clone_from(&set.metadata.creation_timestamp);
    Some(all)
}

/// Returns the app of a name, if its kind has a history at all.
pub async fn find(cluster: &Cluster, name: &str) -> Result<Workload> {
    let name = selection::name(cluster.kind, name)?;
    if cluster.kind == Kind::PodSet {
        let words = kind_info::of(Kind::PodSet);
        return Err(
            Error::usage("a pod set has no history: old revisions of its pods are not kept")
                .next(words.verb("status", name).and(cluster.flag())),
        );
    }
    let object = cluster.get(name).await?;
    Ok(Workload::read(cluster.kind, &object))
}

/// Reads the revisions of an app from its ReplicaSets, the oldest first.
pub async fn fetch(cluster: &Cluster, app: &Workload) -> Result<Vec<Revision>> {
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let sets: Api<ReplicaSet> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let params = ListParams::default().labels(&cluster.kind.pod_selector(app.name()));
    let (deployment, sets) = futures::join!(
        cluster.call(deployments.get_opt(app.name())),
        cluster.call(sets.list(&params))
    );
    let Some(deployment) = deployment? else {
        return Ok(Vec::new());
    };
    let recorded = match app {
        Workload::App(app) => app.status.as_ref().map_or(&[][..], |status| &status.revisions),
        Workload::PodSet(_) => &[],
    };
    Ok(read(&deployment, &sets?.items, recorded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn stored_spec_of_a_revision_comes_before_its_pod_template() {
        let deployment: Deployment = serde_json::from_value(json!({"metadata": {"name": "shop", "uid": "d"}})).unwrap();
        let set = |number: &str, owner: &str, said: Option<&str>| -> ReplicaSet {
            let mut set = json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": number},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "uid": owner, "controller": true}]},
                "spec": {"selector": {}, "replicas": 1, "template": {"spec": {"hostNetwork": true,
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
        let read = read(&deployment, &sets, &[]);
        let said: Vec<_> = read.iter().map(|one| (one.number, one.image())).collect();
        assert_eq!(said, [(9, "nginx:1"), (10, "nginx:2")]);
        assert!(
            read[0].left.is_empty() && read[1].left.iter().any(|path| path.contains("hostNetwork")),
            "{read:?}"
        );
    }

    /// Kubernetes keeps one ReplicaSet for equal templates and gives it the newest number.
    #[test]
    fn revisions_are_shown_as_they_were_after_one_was_rolled_out_again() {
        let deployment: Deployment = serde_json::from_value(json!({"metadata": {"name": "shop", "uid": "d"}})).unwrap();
        let set = |number: &str, former: &str, image: &str, created: &str| -> ReplicaSet {
            serde_json::from_value(json!({"metadata": {"creationTimestamp": created,
                "annotations": {"deployment.kubernetes.io/revision": number, "deployment.kubernetes.io/revision-history": former},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "uid": "d", "controller": true}]},
                "spec": {"selector": {}, "replicas": 1, "template": {"spec": {"containers": [{"name": "app", "image": image}]}}},
                "status": {"replicas": 1, "readyReplicas": 1}}))
            .unwrap()
        };
        let sets = [
            set("5", "1,3", "nginx:1", "2026-01-01T00:00:00Z"),
            set("4", "2", "nginx:2", "2026-01-02T00:00:00Z"),
        ];
        let recorded: Vec<RevisionStatus> = serde_json::from_value(json!([
            {"number": 4, "startTime": "2026-01-04T00:00:00Z", "becameReady": false},
            {"number": 5, "startTime": "2026-01-05T00:00:00Z", "becameReady": true},
        ]))
        .unwrap();
        let read = read(&deployment, &sets, &recorded);
        let seen: Vec<_> = read
            .iter()
            .map(|one| {
                let day = one.created.as_ref().map(|time| time.0.to_string()[8..10].to_owned());
                (
                    one.number,
                    one.image(),
                    day.unwrap_or_default(),
                    one.ready,
                    one.became_ready,
                )
            })
            .collect();
        let seen: Vec<_> = seen
            .iter()
            .map(|(a, b, c, d, e)| (*a, *b, c.as_str(), *d, *e))
            .collect();
        assert_eq!(
            seen,
            [
                (1, "nginx:1", "01", 0, None),
                (2, "nginx:2", "02", 0, None),
                (3, "nginx:1", "", 0, None),
                (4, "nginx:2", "04", 1, Some(false)),
                (5, "nginx:1", "05", 1, Some(true)),
            ]
        );
    }
}

//! Waits until pods are replaced: the pod set has the state, its pods show what it waits for.

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};

use crate::cluster::connection::Cluster;
use crate::cluster::known::ObjectCache;
use crate::cluster::wait::{self, Deadline};
use crate::cluster::watch::{self, Connection, Watched};
use crate::diagnosis::readiness::{self, Readiness};
use crate::error::Result;
use crate::resource::pod;
use crate::resource::workload::Workload;
use crate::terminal::ui::Ui;

/// The state of the objects that are being watched.
struct Progress {
    set: Workload,
    pods: ObjectCache<Pod>,
    /// The names and UIDs of the pods that are to go.
    named: Vec<(String, String)>,
}

/// An event of either watch.
enum Update {
    Set(Option<Box<DynamicObject>>),
    Pod(Box<Event<Pod>>),
}

/// Waits until the named pods are deleted and the pod set is ready, and prints progress.
pub async fn wait(
    cluster: &Cluster,
    object: &DynamicObject,
    named: &[String],
    pods: Vec<Pod>,
    deadline: Deadline,
    ui: &mut Ui,
) -> Result<()> {
    let mut seen = Progress::new(Workload::read(cluster.kind, object), named, pods);
    let name = object.name_any();
    let sets = watch::follow_one(cluster, cluster.objects(Some(&cluster.namespace)), &name)
        .map(|next| next.map(|change| change.map(|object| Update::Set(object.map(Box::new)))));
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mine = watcher::Config::default().labels(&cluster.kind.pod_selector(&name));
    let pods = watch::follow_all(cluster, api, mine)
        .map(|next| next.map(|change| change.map(|event| Update::Pod(Box::new(event)))));
    let mut news = Watched::new(stream::select(sets, pods).boxed(), Connection::after_a_change());
    if seen.report(cluster, ui)? {
        return Ok(());
    }
    let replaced = wait::until(&mut news, deadline, ui, async |update, ui| {
        match update {
            Update::Set(Some(object)) => seen.set = Workload::read(cluster.kind, &*object),
            Update::Set(None) => return Err(readiness::deleted(cluster, &name)),
            Update::Pod(event) => {
                seen.pods.take(*event);
            }
        }
        Ok(seen.report(cluster, ui)?.then_some(()))
    });
    if replaced.await?.is_some() {
        return Ok(());
    }
    let what = format!("has not replaced {}", named.join(", "));
    let why = seen.busy().or_else(|| seen.set.explanation().map(|(why, _)| why));
    Err(readiness::timed_out(
        cluster,
        &name,
        Some(seen.set.summary()),
        (&what, "do so"),
        deadline,
        why,
    )
    .await)
}

impl Progress {
    fn new(set: Workload, named: &[String], pods: Vec<Pod>) -> Self {
        let uid = |name: &String| {
            let pod = pods.iter().find(|pod| pod.name_any() == *name)?;
            Some((name.clone(), pod.metadata.uid.clone()?))
        };
        let named = named.iter().filter_map(uid).collect();
        let mut known = ObjectCache::default();
        for pod in pods {
            known.take(Event::InitApply(pod));
        }
        known.take(Event::InitDone);
        Self {
            set,
            pods: known,
            named,
        }
    }

    /// Prints the state. Returns whether the wait is over.
    fn report(&self, cluster: &Cluster, ui: &mut Ui) -> Result<bool> {
        let name = self.set.name();
        match self.verdict() {
            Readiness::Ready => {
                ui.eprintln(&format!("{name} is ready ({})", self.set.ready()));
                Ok(true)
            }
            Readiness::Stalled => Err(readiness::stalled(self.set.summary(), cluster.flag())),
            Readiness::Waiting(busy) => {
                ui.progress(&format!("{name}: {busy}"));
                Ok(false)
            }
        }
    }

    fn verdict(&self) -> Readiness {
        match readiness::of(self.set.summary()) {
            Readiness::Stalled => Readiness::Stalled,
            other if !self.set.is_observed() => other,
            other => self.busy().map_or(other, Readiness::Waiting),
        }
    }

    /// Returns the named pods that are still there.
    fn left(&self) -> Vec<&Pod> {
        let pod = |uid: &String| self.pods.all().find(|pod| pod.metadata.uid.as_ref() == Some(uid));
        self.named.iter().filter_map(|(_, uid)| pod(uid)).collect()
    }

    /// Returns when the pod with a ready successor will be deleted.
    fn when(&self) -> String {
        match &self.set {
            Workload::PodSet(set) if set.spec.min_ready_seconds > 0 => {
                format!("when it has been so for {}s", set.spec.min_ready_seconds)
            }
            _ => "next".to_owned(),
        }
    }

    /// Returns the progress, until the named pods are deleted.
    fn busy(&self) -> Option<String> {
        let left = self.left();
        let successor = |pod: &Pod| {
            self.pods
                .all()
                .find(|next| pod::replaces(next) == pod.metadata.uid.as_deref())
        };
        let is_ending = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        // The pods are replaced one after the other: the one with a message is in progress.
        let active = left.iter().find(|pod| is_ending(pod) || successor(pod).is_some());
        let pod = *active.or(left.first())?;
        let name = pod.name_any();
        let step = match successor(pod) {
            _ if is_ending(pod) => ending(pod),
            None => format!("no pod was started in place of {name} yet"),
            Some(next) if pod::is_ready(next) => format!("{} is ready, {name} goes {}", next.name_any(), self.when()),
            Some(next) => match pod::pod_problem(next, Some(self.set.pod())) {
                Some(trouble) => format!("{} is not starting: {}", next.name_any(), trouble.message),
                None => format!(
                    "{} is starting in place of {name} ({})",
                    next.name_any(),
                    pod::word(next)
                ),
            },
        };
        let (all, done) = (self.named.len(), self.named.len() - left.len());
        Some(if all > 1 {
            format!("{done} of {all} replaced, {step}")
        } else {
            step
        })
    }
}

fn ending(pod: &Pod) -> String {
    let (name, guards) = (pod.name_any(), pod.finalizers());
    if guards.is_empty() {
        format!("{name} is ending")
    } else {
        format!("{name} is ending, held by the finalizer {}", guards.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn set(ready: &str, observed: i64) -> Workload {
        let set = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet",
            "metadata": {"name": "web", "namespace": "default", "generation": 2}, "spec": {"replicas": 2},
            "status": {"observedGeneration": observed, "readyReplicas": 2, "conditions": [
                {"type": "Ready", "status": ready, "reason": "X", "message": "1 of 2 pods are ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        Workload::PodSet(serde_json::from_value(set).unwrap())
    }

    fn pod(name: &str, replaces: Option<&str>, ready: bool) -> Value {
        let annotations = replaces.map(|uid| json!({"appdeploy.dev/replaces": uid}));
        json!({"metadata": {"name": name, "uid": name, "annotations": annotations}, "spec": {"containers": [{"name": "app"}]},
            "status": {"phase": if ready { "Running" } else { "Pending" }, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}})
    }

    fn seen(named: &[&str], pods: &[Value]) -> Progress {
        let named: Vec<String> = named.iter().map(ToString::to_string).collect();
        let pods = pods.iter().map(|pod| serde_json::from_value(pod.clone()).unwrap());
        Progress::new(set("False", 2), &named, pods.collect())
    }

    #[test]
    fn each_step_of_a_replacement_is_printed() {
        let (old, other) = (pod("web-0", None, true), pod("web-1", None, true));
        let new = |ready| pod("web-2", Some("web-0"), ready);
        let mut going = old.clone();
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let mut held = going.clone();
        held["metadata"]["finalizers"] = json!(["example.com/guard"]);
        let steps = [
            vec![old.clone(), other.clone()],
            vec![old.clone(), other.clone(), new(false)],
            vec![old, other.clone(), new(true)],
            vec![going, other.clone(), new(true)],
            vec![held, other, new(true)],
        ];
        let said: Vec<String> = steps
            .iter()
            .map(|pods| seen(&["web-0"], pods).busy().unwrap())
            .collect();
        insta::assert_snapshot!(said.join("\n"), @r"
        no pod was started in place of web-0 yet
        web-2 is starting in place of web-0 (Pending)
        web-2 is ready, web-0 goes next
        web-0 is ending
        web-0 is ending, held by the finalizer example.com/guard
        ");
    }

    #[test]
    fn active_pod_of_several_is_printed() {
        let pods = [
            pod("web-0", None, true),
            pod("web-1", None, true),
            pod("web-2", Some("web-1"), false),
        ];
        assert_eq!(
            seen(&["web-0", "web-1"], &pods).busy().unwrap(),
            "0 of 2 replaced, web-2 is starting in place of web-1 (Pending)"
        );
    }

    #[test]
    fn pod_is_replaced_by_uid_and_then_the_set_must_be_ready() {
        let mut seen = seen(&["web-0"], &[pod("web-0", None, true)]);
        let gone = seen.pods.all().next().unwrap().clone();
        seen.pods.take(Event::Delete(gone));
        let mut again = pod("web-0", None, true);
        again["metadata"]["uid"] = "another".into();
        seen.pods.take(Event::Apply(serde_json::from_value(again).unwrap()));
        assert_eq!(seen.verdict(), Readiness::Waiting("1 of 2 pods are ready".to_owned()));
        seen.set = set("True", 1);
        assert_eq!(
            seen.verdict(),
            Readiness::Waiting("waiting for the operator".to_owned())
        );
        seen.set = set("True", 2);
        assert_eq!(seen.verdict(), Readiness::Ready);
    }
}

//! The writes of an adoption, and the waits between them.

use crd::{AppDeploy, annotation, label};
use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use model::children::{DEPLOYMENT, SERVICE};
use model::merge::{deployment_with, merged, service_with};
use model::reason::Reason;
use model::{Child, ChildKind};
use serde_json::{Value, json};

use super::plan::Plan;
use super::pods::Pods;
use crate::cluster::connection::{Cluster, MANAGER};
use crate::cluster::wait::{self, Deadline};
use crate::cluster::{confirm, watch};
use crate::diagnosis::readiness;
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::installation::operator;
use crate::output::formats::DryRun;
use crate::resource::fields::put;
use crate::resource::live_children;
use crate::resource::workload::Workload;
use crate::terminal::ui::Ui;

/// Creates the app.
pub async fn create(cluster: &Cluster, plan: &Plan, dry_run: DryRun) -> Result<AppDeploy> {
    let broken = |source: serde_json::Error| Error::failed(format!("cannot write the app: {source}"));
    let object: DynamicObject = serde_json::from_value(plan.manifest.clone()).map_err(broken)?;
    let params = PostParams {
        dry_run: dry_run == DryRun::Server,
        field_manager: Some(MANAGER.to_owned()),
    };
    let created = cluster
        .call(cluster.objects(Some(&cluster.namespace)).create(&params, &object))
        .await?;
    match Workload::read(cluster.kind, &created) {
        Workload::App(app) => Ok(app),
        Workload::PodSet(_) => Err(Error::failed("the API server returned another kind of object")),
    }
}

/// Waits until the operator has observed the app. Without a running operator, no new pods would start.
pub async fn until_observed(cluster: &Cluster, plan: &Plan, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let name = &plan.name;
    if until(cluster, name, deadline, ui, Workload::is_observed).await? {
        return Ok(());
    }
    let error = Error::new(
        ErrorKind::TimedOut,
        format!("no operator has seen {} after {}", cluster.title(name), deadline.text()),
    )
    .why("the existing objects were not changed");
    let absence = operator::find(cluster)
        .await
        .absence(Some(&cluster.namespace), Timestamp::now());
    let error = match absence {
        Some((why, next)) => error.why(why).next(next),
        None => error,
    };
    Err(error.next(plan.again.clone().remark("continues")))
}

/// Waits until the operator reports no name conflict. Its last status may be older than the adoption.
pub async fn until_ours(cluster: &Cluster, name: &str, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    trigger_reconcile(cluster, name).await?;
    let is_ours = |workload: &Workload| {
        let cause = workload.state().cause;
        cause.is_none_or(|cause| cause.reason != Reason::NameConflict.as_str())
    };
    // A name that is still taken is reported by the wait for the app.
    until(cluster, name, deadline, ui, is_ours).await.map(drop)
}

/// Waits until the app satisfies a condition. Returns whether it did before the deadline.
async fn until(
    cluster: &Cluster,
    name: &str,
    deadline: Deadline,
    ui: &mut Ui,
    condition: impl Fn(&Workload) -> bool,
) -> Result<bool> {
    let mut changes = watch::follow_object(cluster, cluster.objects(Some(&cluster.namespace)), name);
    let reached = wait::until(&mut changes, deadline, ui, async |object: Option<DynamicObject>, ui| {
        let Some(object) = object else { return Ok(None) };
        if condition(&Workload::read(cluster.kind, &object)) {
            return Ok(Some(()));
        }
        ui.progress(&format!("{name}: waiting for the operator"));
        Ok(None)
    });
    Ok(reached.await?.is_some())
}

/// Triggers a reconcile. The operator watches its own children, so it gets no event when a name becomes free.
pub async fn trigger_reconcile(cluster: &Cluster, name: &str) -> Result<()> {
    let now = Timestamp::now().to_string();
    let patch = json!({"metadata": {"annotations": {annotation::ADOPTED_AT: now}}});
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let apps = cluster.objects(Some(&cluster.namespace));
    cluster.call(apps.patch(name, &params, &Patch::Merge(&patch))).await?;
    Ok(())
}

/// Fails if the app was deleted. Objects that it adopts would then be garbage-collected.
pub async fn check_app_exists(cluster: &Cluster, name: &str, uid: &str) -> Result<()> {
    let api = cluster.objects(Some(&cluster.namespace));
    let app = cluster.call(api.get_opt(name)).await?.map(|app| app.metadata);
    if app.is_some_and(|app| app.uid.as_deref() == Some(uid) && app.deletion_timestamp.is_none()) {
        return Ok(());
    }
    Err(readiness::deleted(cluster, name).why("objects that were not adopted yet are unchanged"))
}

/// Waits until all of the app's own pods are available.
pub async fn until_available(cluster: &Cluster, plan: &Plan, uid: &str, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let name = &plan.name;
    let api = live_children::api(cluster, &DEPLOYMENT, &cluster.namespace);
    let mut changes = watch::follow_object(cluster, api, name);
    let available = wait::until(&mut changes, deadline, ui, async |live: Option<DynamicObject>, ui| {
        let child = live.map(|live| Child::read(&DEPLOYMENT, &live.metadata, &live.data));
        let own = child.as_ref().filter(|child| child.is_controlled_by(uid));
        match own.and_then(Child::rollout) {
            Some(rollout) if rollout.is_complete() => return Ok(Some(())),
            // Pods of a concurrent rollout get no requests yet.
            Some(rollout) if plan.pods == Pods::Own && rollout.available >= rollout.wanted => return Ok(Some(())),
            Some(rollout) => ui.progress(&format!(
                "{name}: {} of {} new pods are available; the old ones serve",
                rollout.available, rollout.wanted
            )),
            None => ui.progress(&format!(
                "{name}: waiting for the operator to start new pods; the old ones serve"
            )),
        }
        Ok(None)
    });
    match available.await? {
        Some(()) => Ok(()),
        None => Err(unavailable_pods(cluster, plan, deadline).await?),
    }
}

/// Returns the error for pods that are not available in time, with the cause in the app's status.
async fn unavailable_pods(cluster: &Cluster, plan: &Plan, deadline: Deadline) -> Result<Error> {
    let name = &plan.name;
    let api = cluster.objects(Some(&cluster.namespace));
    let app = cluster.call(api.get_opt(name)).await?;
    let error = Error::new(
        ErrorKind::TimedOut,
        format!(
            "the new pods of {} are not available after {}",
            cluster.title(name),
            deadline.text()
        ),
    )
    .why("the old pods keep serving");
    let app = app.map(|app| Workload::read(cluster.kind, &app));
    let error = match app.as_ref().and_then(Workload::explanation) {
        Some((why, _)) => error.why(why),
        None => error,
    };
    Ok(error
        .next(cluster.kind_info().verb("status", name).and(cluster.flag()))
        .next(plan.again.clone().remark("continues")))
}

/// A third-party object that becomes a child of the app.
#[derive(Clone, Copy, Debug)]
pub struct Takeover<'a> {
    pub kind: &'static ChildKind,
    /// The object as it is.
    pub live: &'a Value,
    /// The wanted child.
    pub wanted: &'a Value,
    /// The rendered spec of a Deployment.
    pub before: Option<&'a Value>,
    /// The additional ports that a Service keeps.
    pub extra_ports: &'a [Value],
}

/// Makes a third-party object a child of the app: owner, labels and wanted fields in one write. Before that, it adds only the label
/// with the app's name, which [`Takeover::done`] needs.
///
/// The operator then finds a child without its hash and applies its own version, so the result does not depend on when this
/// command is interrupted.
pub async fn take_over(cluster: &Cluster, over: Takeover<'_>, dry_run: DryRun) -> Result<()> {
    let Takeover { kind, live, wanted, .. } = over;
    let dry_run = dry_run == DryRun::Server;
    let api = live_children::api(cluster, kind, &cluster.namespace);
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let title = format!("{}/{name}", kind.plural);
    let broken = |source: serde_json::Error| Error::failed(format!("cannot write {kind} {name}: {source}"));
    let uid = &live["metadata"]["uid"];
    let named = json!({"metadata": {"uid": uid, "labels": {label::NAME: name}}});
    let params = PatchParams {
        field_manager: Some(crd::FIELD_MANAGER.to_owned()),
        dry_run,
        ..PatchParams::default()
    };
    let live = cluster
        .attempt(api.patch(name, &params, &Patch::Merge(&named)))
        .await?
        .map_err(|source| cluster.explain(source).about(&title))?;
    let mut live = serde_json::to_value(live).map_err(broken)?;
    let mut tries = 0;
    loop {
        if !is_as_planned(&live, over.live) {
            return Err(Error::failed(format!(
                "{title} has changed since the plan was made, and was not modified"
            ))
            .next("run the same command again to see the plan for the current state"));
        }
        let object: DynamicObject = serde_json::from_value(over.done(&live)).map_err(broken)?;
        let params = PostParams {
            field_manager: Some(crd::FIELD_MANAGER.to_owned()),
            dry_run,
        };
        match cluster.attempt(api.replace(name, &params, &object)).await? {
            Ok(_) => return Ok(()),
            // Controllers write its status. The object must be compared again before it is replaced.
            Err(kube::Error::Api(status)) if status.is_conflict() && tries < 5 => {
                tries += 1;
                let again = cluster.call(api.get(name)).await?;
                live = serde_json::to_value(again).map_err(broken)?;
            }
            Err(source) => return Err(cluster.explain(source).about(&title)),
        }
    }
}

/// Whether an object is as it was when the plan was made, except for the label that is set first and the number of pods, which an
/// autoscaler may change at any time.
fn is_as_planned(now: &Value, planned: &Value) -> bool {
    let shape = |object: &Value| {
        let mut shape = confirm::shape(object);
        put(&mut shape["spec"], "replicas", None);
        put(&mut shape["labels"], label::NAME, None);
        if shape["labels"].as_object().is_some_and(serde_json::Map::is_empty) {
            shape["labels"] = Value::Null;
        }
        shape
    };
    shape(now) == shape(planned)
}

impl Takeover<'_> {
    /// Returns a third-party object as a child of the app.
    ///
    /// Removes all other field managers: a field that the app drops must be removed, and would stay while another manager owns
    /// it. The operator is recorded as the manager of one field, which this write does not change. Otherwise the API server
    /// would treat its next apply as the first one, and create a manager that owns all existing fields.
    fn done(&self, live: &Value) -> Value {
        let mut wanted = self.wanted.clone();
        if let Some(annotations) = wanted["metadata"]["annotations"].as_object_mut() {
            annotations.remove(annotation::DESIRED_HASH);
        }
        let mut object = if *self.kind == DEPLOYMENT {
            deployment_with(live, self.before, &wanted)
        } else if *self.kind == SERVICE {
            service_with(live, &wanted, self.extra_ports)
        } else {
            merged(live, None, &wanted)
        };
        object["metadata"]["ownerReferences"] = wanted["metadata"]["ownerReferences"].clone();
        let mut managers = vec![json!({
            "manager": crd::FIELD_MANAGER, "operation": "Apply", "apiVersion": live["apiVersion"], "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {format!("f:{}", label::NAME): {}}}},
        })];
        let known = live["metadata"]["managedFields"].as_array().into_iter().flatten();
        managers.extend(known.filter(|entry| entry["subresource"] == "status").cloned());
        object["metadata"]["managedFields"] = json!(managers);
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_that_changed_after_the_plan_is_not_taken_over() {
        let object = |uid: &str, labels: Value, image: &str, replicas: i32| {
            json!({"metadata": {"uid": uid, "labels": labels, "resourceVersion": replicas.to_string()},
                "spec": {"replicas": replicas, "image": image}, "status": {"replicas": replicas}})
        };
        let planned = object("1", Value::Null, "a", 1);
        assert!(is_as_planned(
            &object("1", json!({label::NAME: "shop"}), "a", 3),
            &planned
        ));
        assert!(!is_as_planned(&object("2", Value::Null, "a", 1), &planned));
        assert!(!is_as_planned(&object("1", json!({"team": "x"}), "a", 1), &planned));
        assert!(!is_as_planned(&object("1", Value::Null, "b", 1), &planned));
        let mut owned = object("1", Value::Null, "a", 1);
        owned["metadata"]["ownerReferences"] = json!([{"uid": "o"}]);
        assert!(!is_as_planned(&owned, &planned));
    }

    #[test]
    fn operator_owns_all_fields_except_the_status_after_an_adoption() {
        let live = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "shop", "namespace": "a", "uid": "s1", "resourceVersion": "7", "labels": {"app": "shop"},
                "ownerReferences": [{"kind": "Release", "name": "shop", "uid": "r1"}],
                "managedFields": [
                    {"manager": "kubectl-expose", "operation": "Update", "fieldsV1": {"f:spec": {}}},
                    {"manager": "cloud", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}}]},
            "spec": {"clusterIP": "10.0.0.1", "selector": {"app": "shop"}, "ports": [{"port": 8080, "targetPort": 80, "protocol": "TCP"}]},
        });
        let wanted = json!({
            "metadata": {"name": "shop", "labels": {"app.kubernetes.io/name": "shop"},
                "annotations": {annotation::DESIRED_HASH: "1"},
                "ownerReferences": [{"kind": "AppDeploy", "name": "shop", "uid": "u1", "controller": true}]},
            "spec": {"selector": {"appdeploy.dev/app": "shop"}, "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]},
        });
        let extra_ports = [json!({"name": "port-8080", "port": 8080, "targetPort": "http", "protocol": "TCP"})];
        let over = Takeover {
            kind: &SERVICE,
            live: &live,
            wanted: &wanted,
            before: None,
            extra_ports: &extra_ports,
        };
        insta::assert_json_snapshot!(over.done(&live));
    }
}

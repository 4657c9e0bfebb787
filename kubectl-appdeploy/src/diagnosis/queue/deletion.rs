//! Waits until AppQueues are deleted or released, and reports what blocks the deletion.

use std::time::Duration;

use crd::DeletionPolicy;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use model::command;
use serde_json::{Value, json};

use crate::cluster::connection::{Cluster, MANAGER};
use crate::cluster::kind_info::QUEUE;
use crate::cluster::wait::{self, Deadline};
use crate::error::{Error, Kind, Result};
use crate::installation::operator;
use crate::output::formats::DryRun;
use crate::resource::queue::{read, summary};
use crate::resource::selection::place;
use crate::resource::summary::has_finalizer;
use crate::terminal::ui::Ui;

/// How long the operator may take to release a queue that is kept. It sends one or two requests to the queue service.
const RELEASE: Duration = Duration::from_secs(15);
/// How often the finalizer is removed again after a conflict.
const TRIES: usize = 4;

/// Sets the deletion policy to Retain, so that the operator keeps the queue outside the cluster.
pub async fn retain(cluster: &Cluster, object: &DynamicObject, dry_run: DryRun) -> Result<()> {
    if read(object).spec.deletion_policy == Some(DeletionPolicy::Retain) {
        return Ok(());
    }
    let patch = json!({"metadata": {"uid": object.uid()}, "spec": {"deletionPolicy": DeletionPolicy::Retain}});
    let (namespace, name) = place(object);
    let api = cluster.objects(Some(&namespace));
    let params = PatchParams {
        dry_run: dry_run == DryRun::Server,
        ..params()
    };
    cluster.call(api.patch(&name, &params, &Patch::Merge(patch))).await?;
    Ok(())
}

/// Waits until an AppQueue is deleted. After the deadline, returns an error with what blocks the deletion and the command that
/// ends it.
pub async fn until_gone(cluster: &Cluster, object: &DynamicObject, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let (namespace, name) = place(object);
    let api = cluster.objects(Some(&namespace));
    match wait::until_deleted(cluster, api, &name, object.metadata.uid.as_deref(), deadline, ui).await? {
        None => Ok(()),
        Some(last) => Err(held(cluster, &last, deadline).await),
    }
}

/// Waits until an AppQueue whose queue is kept is deleted. If the operator does not release it in time, removes the finalizer.
pub async fn until_released(cluster: &Cluster, object: &DynamicObject, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let (namespace, name) = place(object);
    let uid = object.metadata.uid.as_deref();
    let operator = operator::find(cluster).await;
    // An operator that does not run releases nothing.
    let is_absent = operator.fault(Some(&namespace), Timestamp::now()).is_some();
    let patience = if is_absent { Duration::ZERO } else { RELEASE };
    let api = cluster.objects(Some(&namespace));
    let wait = Deadline::after(patience).min(deadline);
    let last = wait::until_deleted(cluster, api.clone(), &name, uid, wait, ui).await?;
    let Some(mut last) = last else { return Ok(()) };
    for again in 1.. {
        let Some(patch) = without_finalizer(&last) else { break };
        match cluster
            .attempt(api.patch(&name, &params(), &Patch::Merge(patch)))
            .await?
        {
            Ok(_) => {
                ui.warn(&format!(
                    "the operator did not answer: the finalizer {} of {name} was removed, and the queue outside the cluster \
                     keeps its tags",
                    crd::finalizer::QUEUE
                ));
                break;
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
            Err(kube::Error::Api(status)) if status.is_conflict() && again < TRIES => {
                match cluster.call(api.get_opt(&name)).await? {
                    Some(now) if now.metadata.uid.as_deref() == uid => last = now,
                    _ => return Ok(()),
                }
            }
            Err(source) => return Err(cluster.explain(source)),
        }
    }
    until_gone(cluster, object, deadline, ui).await
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// Returns the patch that removes the operator's finalizer from the object that was read; nothing if it has none.
fn without_finalizer(object: &DynamicObject) -> Option<Value> {
    if !has_finalizer(&object.metadata) {
        return None;
    }
    let all = object.metadata.finalizers.iter().flatten();
    let rest: Vec<&String> = all.filter(|name| *name != crd::finalizer::QUEUE).collect();
    Some(json!({"metadata": {"uid": object.uid(), "resourceVersion": object.resource_version(), "finalizers": rest}}))
}

async fn held(cluster: &Cluster, last: &DynamicObject, deadline: Deadline) -> Error {
    let (namespace, _) = place(last);
    let fault = operator::find(cluster)
        .await
        .fault(Some(&namespace), Timestamp::now())
        .map(|(why, _)| why);
    held_by(last, fault, &deadline.text())
}

/// Returns the error for an AppQueue that still exists. `fault` is why no operator works.
fn held_by(last: &DynamicObject, fault: Option<String>, time: &str) -> Error {
    let (namespace, name) = place(last);
    let title = crate::cluster::kind_info::title(&QUEUE, &name);
    let error = Error::new(Kind::TimedOut, format!("{title} is not deleted after {time}"));
    if !has_finalizer(&last.metadata) {
        let guards = last.finalizers().join(", ");
        return error.why(format!("it waits for: {guards}")).next(command!(
            "kubectl get appqueue {} -n {} -o yaml",
            name,
            namespace
        ));
    }
    let queue = read(last);
    let orphan = QUEUE
        .verb("delete", &name)
        .and(command!("-n {} --orphan", namespace))
        .remark("keeps the queue outside the cluster");
    match (fault, queue.status.as_ref().and_then(|status| status.cause.as_ref())) {
        (Some(fault), _) => error.why(fault).next(orphan),
        (None, Some(_)) => {
            let (why, next) = summary(&queue).explanation().unwrap_or_default();
            error.why(why).next(next.unwrap_or(orphan))
        }
        (None, None) => error
            .why("the operator has not deleted the queue outside the cluster yet")
            .next(orphan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;

    fn object(finalizers: &Value, status: &Value) -> DynamicObject {
        serde_json::from_value(
            json!({"metadata": {"name": "orders", "namespace": "shop", "uid": "1", "resourceVersion": "7",
            "deletionTimestamp": "2026-06-01T00:00:00Z", "finalizers": finalizers},
            "spec": {"sqs": {"region": "us-east-1"}}, "status": status}),
        )
        .unwrap()
    }

    #[test]
    fn only_the_finalizer_of_the_operator_is_removed() {
        let ours = json!([crd::finalizer::QUEUE, "foregroundDeletion"]);
        let patch = without_finalizer(&object(&ours, &json!({})));
        assert_eq!(
            patch,
            Some(json!({"metadata": {"uid": "1", "resourceVersion": "7", "finalizers": ["foregroundDeletion"]}}))
        );
        assert_eq!(without_finalizer(&object(&json!(["example.com/x"]), &json!({}))), None);
    }

    #[test]
    fn blocked_deletion_has_the_command_that_ends_it() {
        let ours = json!([crd::finalizer::QUEUE]);
        let cause = json!({"cause": {"reason": "CredentialsMissing", "message": "the queue can't be deleted: the Secret sqs does not exist",
            "next": "kubectl appdeploy queue delete orders -n shop --orphan"}});
        let said = [
            held_by(
                &object(&ours, &json!({})),
                Some("no operator is installed in this cluster".to_owned()),
                "2m",
            ),
            held_by(&object(&ours, &cause), None, "2m"),
            held_by(&object(&ours, &json!({})), None, "2m"),
            held_by(&object(&json!(["example.com/x"]), &json!({})), None, "2m"),
        ]
        .map(|error| error.text(&RenderOptions::default()));
        insta::assert_snapshot!(said.join("\n"), @r"
        error: appqueue.appdeploy.dev/orders is not deleted after 2m
          why:  no operator is installed in this cluster
          next: kubectl appdeploy queue delete orders -n shop --orphan
                (keeps the queue outside the cluster)
        error: appqueue.appdeploy.dev/orders is not deleted after 2m
          why:  the queue can't be deleted: the Secret sqs does not exist
          next: kubectl appdeploy queue delete orders -n shop --orphan
        error: appqueue.appdeploy.dev/orders is not deleted after 2m
          why:  the operator has not deleted the queue outside the cluster yet
          next: kubectl appdeploy queue delete orders -n shop --orphan
                (keeps the queue outside the cluster)
        error: appqueue.appdeploy.dev/orders is not deleted after 2m
          why:  it waits for: example.com/x
          next: kubectl get appqueue orders -n shop -o yaml
        ");
    }
}

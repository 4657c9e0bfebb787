//! Waits until apps, pod sets and queues are ready. It watches, and does not poll.

mod several;

use crd::status::condition;
use jiff::Timestamp;
use kube::api::DynamicObject;
use model::NextCommand;

use crate::cluster::connection::Cluster;
use crate::cluster::wait::{self, Deadline};
use crate::cluster::watch::follow_object;
use crate::diagnosis::request_path;
use crate::error::{Error, Kind, Result};
use crate::installation::operator;
use crate::resource::children;
use crate::resource::custom_resource::CustomResource;
use crate::resource::summary::Summary;
use crate::terminal::ui::Ui;

pub use several::{Target, all};

/// Whether an object is ready, by its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is ready.
    Ready,
    /// It will not become ready without a change.
    Stalled,
    /// It may become ready; the text is what it waits for.
    Waiting(String),
}

/// Returns the readiness of an object.
pub fn of(summary: Summary<'_>) -> Readiness {
    if !summary.is_accounted_for() {
        return Readiness::Waiting("waiting for the operator".to_owned());
    }
    if summary.is_true(condition::STALLED) || summary.is_held {
        return Readiness::Stalled;
    }
    if summary.is_true(condition::READY) {
        return Readiness::Ready;
    }
    let busy = summary
        .explanation()
        .map_or_else(|| "not ready yet".to_owned(), |(text, _)| text);
    Readiness::Waiting(busy)
}

/// Waits until one is ready, and prints progress.
async fn ready(cluster: &Cluster, name: &str, deadline: Deadline, ui: &mut Ui) -> Result<CustomResource> {
    let api = cluster.objects(Some(&cluster.namespace));
    let mut changes = follow_object(cluster, api.clone(), name);
    let mut last = None;
    let ready = wait::until(
        &mut changes,
        deadline,
        ui,
        async |object: Option<DynamicObject>, ui| match object {
            Some(object) => judge(cluster, &object, &mut last, ui),
            None if last.is_some() => Err(deleted(cluster, name)),
            None => Ok(None),
        },
    );
    let mut ready = ready.await?;
    // A timeout is not reported without one read, however short it was.
    if ready.is_none()
        && last.is_none()
        && let Some(object) = cluster.call(api.get_opt(name)).await?
    {
        ready = judge(cluster, &object, &mut last, ui)?;
    }
    if let Some(ready) = ready {
        ui.clear_progress();
        return Ok(ready);
    }
    let last = last.as_ref().map(CustomResource::summary);
    let state = ("is not ready", "become so");
    Err(timed_out(cluster, name, last, state, deadline, None).await)
}

/// Waits until one is ready, and prints its URL and what prevents requests from reaching it.
pub async fn report_ready(cluster: &Cluster, name: &str, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let ready = ready(cluster, name, deadline, ui).await?;
    ui.eprintln(&match ready.address() {
        Some(url) => format!("{name} is ready: {url}"),
        None => format!("{name} is ready"),
    });
    warn(cluster, &ready, ui).await;
    Ok(())
}

/// Returns an object if it is ready, fails if it is stalled, and prints progress otherwise.
fn judge(
    cluster: &Cluster,
    object: &DynamicObject,
    last: &mut Option<CustomResource>,
    ui: &mut Ui,
) -> Result<Option<CustomResource>> {
    let one = CustomResource::read(cluster.kind_info(), object);
    match of(one.summary()) {
        Readiness::Ready => return Ok(Some(one)),
        Readiness::Stalled => return Err(stalled(one.summary(), cluster.flag())),
        Readiness::Waiting(busy) => ui.progress(&format!("{}: {busy}", one.name())),
    }
    *last = Some(one);
    Ok(None)
}

/// Prints warnings about what prevents requests from reaching a ready app.
async fn warn(cluster: &Cluster, ready: &CustomResource, ui: &mut Ui) {
    let CustomResource::Workload(workload) = ready else {
        return;
    };
    // That it is ready stays true where the Secret can't be read.
    let tls = children::tls(cluster, workload).await.ok().flatten();
    for (why, next) in request_path::warnings(workload, tls.as_ref(), Timestamp::now()) {
        ui.warn(&why);
        if let Some(next) = next {
            ui.next(next);
        }
    }
}

/// Returns the error for an object that was deleted during a wait.
pub fn deleted(cluster: &Cluster, name: &str) -> Error {
    Error::failed(format!("{} was deleted while waiting for it", cluster.title(name)))
}

/// Returns the error for a stalled object.
pub fn stalled(summary: Summary<'_>, flag: NextCommand) -> Error {
    let error = Error::new(
        Kind::Stalled,
        format!("{} will not become ready by itself", summary.title()),
    );
    let describe = summary.kind.verb("describe", summary.name());
    explained(error, summary, describe.and(flag))
}

/// Returns the error for a timeout. `state` is the current and the expected state; `busy` is the reason, if it is known
/// better than its status does.
pub async fn timed_out(
    cluster: &Cluster,
    name: &str,
    last: Option<Summary<'_>>,
    (state, hope): (&str, &str),
    deadline: Deadline,
    busy: Option<String>,
) -> Error {
    let error = Error::new(
        Kind::TimedOut,
        format!(
            "{} {state} after {}; it may still {hope}",
            cluster.title(name),
            deadline.text()
        ),
    );
    let status = cluster.kind_info().verb("status", name);
    let Some(last) = last else {
        return error.next(status.and(cluster.flag()));
    };
    if !last.is_accounted_for()
        && let Some((why, next)) = operator::find(cluster)
            .await
            .absence(Some(last.namespace()), Timestamp::now())
    {
        return error.why(why).next(next);
    }
    let otherwise = status.and("-w").and(cluster.flag());
    match busy.filter(|_| last.cause.is_none()) {
        Some(busy) => error.why(busy).next(otherwise),
        None => explained(error, last, otherwise),
    }
}

/// Adds why one is not ready, and what to run next if nothing better is known.
fn explained(error: Error, summary: Summary<'_>, otherwise: NextCommand) -> Error {
    match summary.explanation() {
        Some((why, next)) => error.why(why).next(next.unwrap_or(otherwise)),
        None => error.next(otherwise),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::queue::tests::{broken, queue};
    use crate::resource::workload::Workload;
    use crate::terminal::ui::RenderOptions;
    use serde_json::{Value, json};

    fn app(status: &Value) -> Workload {
        let app = serde_json::from_value(json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "shop", "namespace": "default", "generation": 2},
            "spec": {"image": "nginx", "replicas": 2}, "status": status,
        }));
        Workload::App(app.unwrap())
    }

    fn conditions(list: &[(&str, &str)]) -> Value {
        list.iter()
            .map(|(kind, status)| json!({"type": kind, "status": status, "reason": "X", "message": "0 of 2 pods are ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}))
            .collect()
    }

    #[test]
    fn status_of_an_older_spec_is_ignored() {
        let old = app(&json!({"observedGeneration": 1, "conditions": conditions(&[("Ready", "True")])}));
        assert_eq!(
            of(old.summary()),
            Readiness::Waiting("waiting for the operator".to_owned())
        );
    }

    #[test]
    fn status_from_before_a_restart_is_ignored() {
        let ready = json!({"observedGeneration": 2, "conditions": conditions(&[("Ready", "True")])});
        let mut app = app(&ready);
        let Workload::App(inner) = &mut app else { unreachable!() };
        let asked = [(
            crd::annotation::RESTARTED_AT.to_owned(),
            "2026-01-01T00:00:00Z".to_owned(),
        )];
        inner.metadata.annotations = Some(asked.into());
        assert_eq!(
            of(app.summary()),
            Readiness::Waiting("waiting for the operator".to_owned())
        );
        let Workload::App(inner) = &mut app else { unreachable!() };
        inner.status.as_mut().unwrap().restarted_at = Some("2026-01-01T00:00:00Z".to_owned());
        assert_eq!(of(app.summary()), Readiness::Ready);
    }

    #[test]
    fn status_is_ready_stalled_or_waiting() {
        let with = |list: &[(&str, &str)]| {
            of(app(&json!({"observedGeneration": 2, "conditions": conditions(list)})).summary())
        };
        assert_eq!(with(&[("Ready", "True")]), Readiness::Ready);
        assert_eq!(with(&[("Ready", "False"), ("Stalled", "True")]), Readiness::Stalled);
        assert_eq!(
            with(&[("Ready", "False"), ("Reconciling", "True")]),
            Readiness::Waiting("0 of 2 pods are ready".to_owned())
        );
    }

    #[test]
    fn paused_rollout_is_not_waited_for() {
        let with = |paused: bool, updated: i32| {
            let ready = json!([{"type": "Ready", "status": "False", "reason": "Paused", "message": "the rollout is paused",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
            let status =
                json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": updated, "conditions": ready});
            let mut app = app(&status);
            let Workload::App(inner) = &mut app else { unreachable!() };
            inner.spec.paused = paused;
            of(app.summary())
        };
        assert_eq!(with(true, 0), Readiness::Stalled);
        // The status may be older than the `resume`, and a pause does not delay scaling.
        for verdict in [with(false, 0), with(true, 2)] {
            assert_eq!(verdict, Readiness::Waiting("the rollout is paused".to_owned()));
        }
    }

    #[test]
    fn stalled_app_has_its_own_exit_code_with_cause_and_next_command() {
        let app = app(
            &json!({"observedGeneration": 2, "conditions": conditions(&[("Ready", "False"), ("Stalled", "True")]),
            "cause": {"reason": "ImageNotFound", "message": "image nginx:1.99 does not exist", "next": "kubectl edit appdeploy shop"}}),
        );
        let error = stalled(app.summary(), NextCommand::default());
        assert_eq!(error.kind(), Kind::Stalled);
        insta::assert_snapshot!(error.text(&RenderOptions::default()), @r"
        error: appdeploy.appdeploy.dev/shop will not become ready by itself
          why:  image nginx:1.99 does not exist
          next: kubectl edit appdeploy shop
        ");
    }

    #[test]
    fn stalled_queue_is_explained_like_an_app() {
        let mut status = broken(
            "CredentialsForbidden",
            "the operator may not get the Secret sqs",
            "kubectl appdeploy queue create orders -n default --grant-only",
        );
        status["conditions"]
            .as_array_mut()
            .unwrap()
            .extend(conditions(&[("Stalled", "True")]).as_array().cloned().unwrap());
        let orders = CustomResource::Queue(queue("orders", &json!({}), &status));
        assert_eq!(of(orders.summary()), Readiness::Stalled);
        insta::assert_snapshot!(stalled(orders.summary(), NextCommand::default()).text(&RenderOptions::default()), @r"
        error: appqueue.appdeploy.dev/orders will not become ready by itself
          why:  the operator may not get the Secret sqs
          next: kubectl appdeploy queue create orders -n default --grant-only
        ");
    }
}

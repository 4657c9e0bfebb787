//! An app as the cluster gives it, and what can be said about it in one line.

use crd::status::condition;
use crd::{AppDeploy, AppDeploySpec, AppDeployStatus, Cause};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, DynamicObject};
use kube::core::ObjectMeta;
use kube::{Api, Client, ResourceExt as _};

use crate::ui::Style;

/// How `kubectl` names the kind in front of a name.
pub const PREFIX: &str = "appdeploy.appdeploy.dev";

/// Returns the name of an app as kubectl prints it.
pub fn title(name: &str) -> String {
    format!("{PREFIX}/{name}")
}

/// Returns the kind's address. Apps are read as plain objects, so that `-o yaml` keeps fields this plugin is
/// too old to know.
pub fn resource() -> ApiResource {
    ApiResource::erase::<AppDeploy>(&())
}

/// Returns the apps of a namespace, or of all.
pub fn api(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource()),
        None => Api::all_with(client.clone(), &resource()),
    }
}

/// Returns the app in an object. What cannot be read counts as not said.
pub fn read(object: &DynamicObject) -> AppDeploy {
    let part = |name: &str| object.data.get(name).cloned().unwrap_or_default();
    AppDeploy {
        metadata: ObjectMeta {
            managed_fields: None,
            ..object.metadata.clone()
        },
        spec: serde_json::from_value::<AppDeploySpec>(part("spec")).unwrap_or_default(),
        status: serde_json::from_value::<AppDeployStatus>(part("status")).ok(),
    }
}

/// Returns a condition of an app by its type.
pub fn condition<'a>(app: &'a AppDeploy, kind: &str) -> Option<&'a Condition> {
    app.status.as_ref()?.conditions.iter().find(|c| c.type_ == kind)
}

/// Whether a condition of an app is true.
pub fn is_true(app: &AppDeploy, kind: &str) -> bool {
    condition(app, kind).is_some_and(|c| c.status == "True")
}

/// Whether the status is about the spec as it is now.
pub fn is_observed(app: &AppDeploy) -> bool {
    let observed = app.status.as_ref().and_then(|status| status.observed_generation);
    observed.is_some_and(|seen| app.metadata.generation.is_none_or(|now| seen >= now))
}

/// Whether an operator that watches should have seen the app by now.
pub fn is_overlooked(app: &AppDeploy, now: Timestamp) -> bool {
    /// An operator needs milliseconds; this forgives one that has just been restarted.
    const GRACE: i64 = 15;
    let age = app
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(i64::MAX, |t| now.as_second() - t.0.as_second());
    app.status
        .as_ref()
        .and_then(|status| status.observed_generation)
        .is_none()
        && age > GRACE
}

/// Returns the pods that are ready and those that are wanted: `2/3`.
pub fn ready(app: &AppDeploy) -> String {
    let ready = app
        .status
        .as_ref()
        .and_then(|status| status.ready_replicas)
        .unwrap_or(0);
    format!("{ready}/{}", app.spec.replicas)
}

/// Returns the one word for how the app is.
pub fn reason(app: &AppDeploy) -> String {
    if app.metadata.deletion_timestamp.is_some() {
        return "Deleting".to_owned();
    }
    if !is_observed(app) {
        return "Pending".to_owned();
    }
    condition(app, condition::READY).map_or_else(|| "<unknown>".to_owned(), |c| c.reason.clone())
}

/// Returns what the word means for whoever reads it.
pub fn mood(app: &AppDeploy) -> Style {
    if app.metadata.deletion_timestamp.is_some() || !is_observed(app) {
        Style::Busy
    } else if is_true(app, condition::READY) {
        Style::Good
    } else if is_true(app, condition::STALLED) || cause(app).is_some() {
        Style::Bad
    } else {
        Style::Busy
    }
}

/// Returns why the app is not ready, if anything is known to be wrong.
pub fn cause(app: &AppDeploy) -> Option<&Cause> {
    app.status.as_ref()?.cause.as_ref()
}

/// Returns one sentence on an app that is not as its author wants it, and the command to run next.
pub fn explanation(app: &AppDeploy) -> Option<(String, Option<String>)> {
    if app.metadata.deletion_timestamp.is_some() {
        // Those of the garbage collector are how a deletion works, not what holds it up.
        let own = |guard: &&String| !["foregroundDeletion", "orphan"].contains(&guard.as_str());
        let guards: Vec<&str> = app.finalizers().iter().filter(own).map(String::as_str).collect();
        return Some(if guards.is_empty() {
            ("it is being deleted".to_owned(), None)
        } else {
            (
                format!("it is being deleted and waits for: {}", guards.join(", ")),
                None,
            )
        });
    }
    if !is_observed(app) {
        let seen = app
            .status
            .as_ref()
            .is_some_and(|status| status.observed_generation.is_some());
        let text = if seen {
            "the operator has not seen the last change yet"
        } else {
            "no operator has seen it yet"
        };
        return Some((text.to_owned(), None));
    }
    if let Some(cause) = cause(app) {
        return Some((cause.message.clone(), cause.next.clone()));
    }
    if is_true(app, condition::READY) {
        return None;
    }
    let ready = condition(app, condition::READY)?;
    Some((ready.message.clone(), None)).filter(|(text, _)| !text.is_empty())
}

/// Returns where the app answers, or why it does not answer anywhere.
pub fn url(app: &AppDeploy) -> String {
    match app.status.as_ref().and_then(|status| status.url.clone()) {
        Some(url) => url,
        None if app.spec.pod.port.is_none() => "<none>".to_owned(),
        None => "<pending>".to_owned(),
    }
}

//! Events: what happened to an object, for `kubectl describe` and for whoever collects them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::core::{Request, Resource as _};
use tracing::debug;
use xxhash_rust::xxh3::xxh3_64;

use crate::call::{CallError, Caller};

const COMPONENT: &str = "appdeploy-operator";

/// Makes the warning about an object of a kind. Its name is made from what it says: the same warning again, from
/// this operator or from one that was started anew, is the same object and not a second one.
#[must_use]
pub fn warning(kind: crd::Kind, object: &ObjectMeta, reason: &str, message: &str, now: Timestamp) -> Event {
    let uid = object.uid.as_deref().unwrap_or_default();
    let name = object.name.as_deref().unwrap_or_default();
    let hash = xxh3_64(format!("{uid}\n{reason}\n{message}").as_bytes());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{hash:016x}")),
            namespace: object.namespace.clone(),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(format!("{}/{}", crd::GROUP, crd::VERSION)),
            kind: Some(kind.as_str().into()),
            name: object.name.clone(),
            namespace: object.namespace.clone(),
            uid: object.uid.clone(),
            ..ObjectReference::default()
        },
        type_: Some("Warning".into()),
        reason: Some(reason.to_owned()),
        // The API server takes at most 1024 bytes.
        message: Some(message.chars().take(1000).collect()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        reporting_component: Some(COMPONENT.into()),
        source: Some(EventSource {
            component: Some(COMPONENT.into()),
            host: None,
        }),
        ..Event::default()
    }
}

/// Writes an Event. One that can't be written is not worth a retry: the status says the same.
pub async fn publish(caller: &Caller, event: Event) {
    let url = Event::url_path(&(), event.metadata.namespace.as_deref());
    // An Event is plain data.
    let body = serde_json::to_vec(&event).unwrap_or_default();
    let request = Request::new(url).create(&PostParams::default(), body);
    match caller.send::<Event>("create", "events", request).await {
        Ok(_) => {}
        Err(CallError::Refused(status)) if status.is_already_exists() => {}
        Err(error) => debug!(?error, "an Event could not be written"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_warning_is_the_same_object() {
        let app = ObjectMeta {
            name: Some("web".into()),
            uid: Some("u1".into()),
            ..ObjectMeta::default()
        };
        let again = ObjectMeta {
            uid: Some("u2".into()),
            ..app.clone()
        };
        let name = |app: &ObjectMeta, message: &str, second: i64| {
            warning(
                crd::Kind::AppDeploy,
                app,
                "CrashLoop",
                message,
                Timestamp::from_second(second).unwrap(),
            )
            .metadata
            .name
            .unwrap()
        };
        assert_eq!(name(&app, "exit code 1", 0), name(&app, "exit code 1", 99));
        assert_ne!(name(&app, "exit code 1", 0), name(&app, "exit code 2", 0));
        assert_ne!(
            name(&app, "exit code 1", 0),
            name(&again, "exit code 1", 0),
            "an app of the same name made anew"
        );
    }
}

//! The defaults of the API server, so that a live object can be compared with a rendered one.
//!
//! Only defaults of the kinds and fields that the operator reads or writes are included. A test against a real API server
//! compares them with stored children.

use serde_json::{Value, json};

use crate::ChildKind;

/// The default grace period of a pod, in seconds.
pub(crate) const GRACE: i64 = 30;

/// Returns the object with the defaults of the API server filled in.
#[must_use]
pub fn filled(kind: &ChildKind, object: &Value) -> Value {
    let mut object = object.clone();
    (kind.defaults)(&mut object);
    object
}

/// Fills in the defaults of the spec of a pod.
pub(crate) fn pod_spec(spec: &mut Value) {
    fill(
        spec,
        &json!({"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": GRACE, "enableServiceLinks": true}),
    );
    for volume in list(spec, "volumes") {
        self::volume(volume);
    }
    for containers in ["initContainers", "containers"] {
        list(spec, containers).for_each(container);
    }
}

/// Fills in the defaults of a container.
fn container(container: &mut Value) {
    let policy = pull_policy(container["image"].as_str().unwrap_or_default());
    fill(
        container,
        &json!({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "imagePullPolicy": policy}),
    );
    for port in list(container, "ports") {
        fill(port, &json!({"protocol": "TCP"}));
    }
    for var in list(container, "env") {
        if let Some(field) = var.pointer_mut("/valueFrom/fieldRef") {
            fill(field, &json!({"apiVersion": "v1"}));
        }
    }
    for name in ["startupProbe", "readinessProbe", "livenessProbe"] {
        if let Some(one) = container.get_mut(name) {
            probe(one);
        }
    }
}

/// Fills in the defaults of a probe. Does nothing if there is none.
pub(crate) fn probe(probe: &mut Value) {
    if !probe.is_object() {
        return;
    }
    fill(
        probe,
        &json!({"periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}),
    );
    if let Some(http) = probe.get_mut("httpGet") {
        fill(http, &json!({"scheme": "HTTP", "path": "/"}));
    }
    if let Some(grpc) = probe.get_mut("grpc") {
        fill(grpc, &json!({"service": ""}));
    }
}

/// Fills in the defaults of a volume.
pub(crate) fn volume(volume: &mut Value) {
    for source in ["configMap", "secret"] {
        if let Some(source) = volume.get_mut(source).filter(|source| source.is_object()) {
            fill(source, &json!({"defaultMode": 0o644}));
        }
    }
    if let Some(image) = volume.get_mut("image").filter(|image| image.is_object()) {
        let policy = pull_policy(image["reference"].as_str().unwrap_or_default());
        fill(image, &json!({"pullPolicy": policy}));
    }
}

/// Returns the default pull policy of an image.
#[must_use]
pub fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').unwrap_or((image, ""));
    let last = name.rsplit('/').next().unwrap_or_default();
    let tag = last.split_once(':').map(|(_, tag)| tag);
    match (tag, digest) {
        (Some("latest"), _) | (None, "") => "Always",
        _ => "IfNotPresent",
    }
}

/// Sets the fields that are missing or null.
pub(crate) fn fill(object: &mut Value, defaults: &Value) {
    if object.is_null() {
        *object = json!({});
    }
    let (Some(fields), Some(defaults)) = (object.as_object_mut(), defaults.as_object()) else {
        return;
    };
    for (field, value) in defaults {
        let entry = fields.entry(field.clone()).or_insert(Value::Null);
        if entry.is_null() {
            *entry = value.clone();
        }
    }
}

/// Returns the entries of a list; none if the field is missing.
pub(crate) fn list<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    object
        .get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_that_can_change_is_always_pulled() {
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("registry:5000/nginx", "Always"),
            ("registry:5000/nginx:1.27", "IfNotPresent"),
            ("nginx:1.27", "IfNotPresent"),
            ("nginx@sha256:0123", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}

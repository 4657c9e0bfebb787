//! Later defaults: fields that a version of the operator began to write, and that older children do without.
//!
//! An upgrade must restart no pod. So that a child lacks such a field is no reason to write it: the field comes with the
//! next change of the pods, which are replaced then anyway (docs/adr/0012).

use std::borrow::Cow;

use serde_json::Value;

use crate::Digest;

/// A field whose value is the same for every child.
struct Later {
    /// Where it is in what is wanted, as JSON pointer (RFC 6901).
    pointer: &'static str,
    /// The same place, as a digest has it.
    path: &'static str,
}

const LATER: [Later; 1] = [
    // The kubelet puts the end of the log into the status of a container that fails.
    Later {
        pointer: "/spec/template/spec/containers/0/terminationMessagePolicy",
        path: "spec.template.spec.containers[app].terminationMessagePolicy",
    },
];

/// Returns an object without its later defaults: what its hash is taken of, which has to outlive an upgrade.
#[must_use]
pub fn without(object: &Value) -> Value {
    let mut object = object.clone();
    for (parent, field) in LATER.iter().filter_map(|later| later.pointer.rsplit_once('/')) {
        if let Some(Value::Object(fields)) = object.pointer_mut(parent) {
            fields.remove(field);
        }
    }
    object
}

/// Returns what is wanted of a live child now: all, if it has the later defaults or its pods change in any case; else all
/// but these.
#[must_use]
pub fn due<'a>(wanted: &'a Value, live: &Digest) -> Cow<'a, Value> {
    let is_later = |path: &str| LATER.iter().any(|later| later.path == path);
    if live.lacks_where(wanted, is_later).is_none() {
        return Cow::Borrowed(wanted);
    }
    let bare = without(wanted);
    match live.lacks_where(&bare, is_of_pods) {
        Some(_) => Cow::Borrowed(wanted),
        None => Cow::Owned(bare),
    }
}

/// As [`due`], of a Deployment that somebody has written without the record of what a person wrote: what the pods are now
/// decides alone.
#[must_use]
pub fn due_in_place(wanted: &Value, live: &Value) -> Value {
    let [spec, live] = [wanted, live].map(|object| serde_json::json!({"spec": object["spec"]}));
    let mut wanted = wanted.clone();
    wanted["spec"] = due(&spec, &Digest::of(&live))["spec"].clone();
    wanted
}

/// Whether the pods are others if this field is. The record of what the person wrote stands for what they have taken out
/// of it, which a digest can't see.
fn is_of_pods(path: &str) -> bool {
    path.starts_with("spec.template.") || path.strip_prefix("annotations.") == Some(crd::annotation::REVISION_SPEC)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const FIELD: &str = "FallbackToLogsOnError";

    fn wanted(image: &str, replicas: i32) -> Value {
        let app = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
            "spec": {"image": image, "replicas": replicas},
        });
        let app: crd::AppDeploy = serde_json::from_value(app).unwrap();
        crate::desired(&crate::validate(&app).unwrap()).deployment
    }

    #[test]
    fn both_places_are_one_and_the_field_is_written() {
        let wanted = wanted("nginx", 1);
        let without = Digest::of(&without(&wanted));
        for Later { pointer, path } in LATER {
            assert!(wanted.pointer(pointer).is_some(), "{pointer}");
            assert!(without.lacks_where(&wanted, |other| other == path).is_some(), "{path}");
        }
        assert_eq!(
            without.lacks_where(&wanted, |path| !LATER.iter().any(|later| later.path == path)),
            None
        );
    }

    #[test]
    fn what_was_let_go_of_comes_back_with_the_same_pods() {
        let wanted = wanted("nginx", 1);
        let mut old = without(&wanted);
        old["metadata"]["annotations"] = json!({});
        assert_eq!(due_in_place(&wanted, &old), without(&wanted));
        old["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:1");
        assert_eq!(due_in_place(&wanted, &old), wanted);
    }

    #[test]
    fn what_is_taken_out_of_a_spec_brings_them_too() {
        let live = Digest::of(
            &json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "tty": true}]}}},
            "metadata": {"annotations": {crd::annotation::REVISION_SPEC: "tty"}}}),
        );
        let wanted = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "terminationMessagePolicy": FIELD}]}}},
            "metadata": {"annotations": {crd::annotation::REVISION_SPEC: "no tty"}}});
        assert_eq!(*due(&wanted, &live), wanted);
    }

    proptest! {
        /// Whatever an older operator has made: nothing is written after the upgrade, nor is a pod replaced because their
        /// number changes; and once the pods change, nothing is missing.
        #[test]
        fn they_come_with_the_next_change_of_the_pods(
            image in "[a-z]{1,3}", next in "[a-z]{1,3}", replicas in 0..4_i32, more in 0..4_i32, is_older in any::<bool>()
        ) {
            let before = wanted(&image, replicas);
            let live = if is_older { without(&before) } else { before.clone() };
            let live = Digest::of(&live);
            prop_assert_eq!(live.lacks(&due(&before, &live)), None);
            let after = wanted(&next, more);
            let due = due(&after, &live);
            prop_assert_eq!(due.pointer(LATER[0].pointer).is_none(), is_older && image == next);
            prop_assert_eq!(without(&due), without(&after));
        }
    }
}

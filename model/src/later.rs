//! Fields of a child that differ between versions of the operator: fields that newer versions write (later defaults), and
//! fields that only older versions write (former defaults).
//!
//! An upgrade must restart no pod. A child is not written only because it lacks a later default or has a former one: it
//! changes with the next change of the pods, which are replaced then anyway (docs/adr/0012).

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::Digest;

/// A field in a child.
struct Field {
    /// The object that contains it, as JSON pointer (RFC 6901).
    parent: &'static str,
    /// Its name.
    name: &'static str,
    /// The same place, as a digest has it.
    path: &'static str,
}

impl Field {
    fn is_in(&self, object: &Value) -> bool {
        object
            .pointer(self.parent)
            .and_then(|fields| fields.get(self.name))
            .is_some()
    }
}

/// Fields that newer versions write. Each has the same value in every child.
const LATER: [Field; 1] = [
    // The kubelet puts the end of the log into the status of a container that fails.
    Field {
        parent: "/spec/template/spec/containers/0",
        name: "terminationMessagePolicy",
        path: "spec.template.spec.containers[app].terminationMessagePolicy",
    },
];

/// Fields that only older versions write. The value of each is the name of the child.
const FORMER: [Field; 1] = [
    // A Service of another application may select pods by this label, and anyone may name an app like it.
    Field {
        parent: "/spec/template/metadata/labels",
        name: crd::label::NAME,
        path: "spec.template.metadata.labels.app.kubernetes.io/name",
    },
];

/// Removes the later defaults.
fn remove_later(object: &mut Value) {
    for field in &LATER {
        if let Some(Value::Object(fields)) = object.pointer_mut(field.parent) {
            fields.remove(field.name);
        }
    }
}

/// Adds a former default, if the object is one that had it.
fn add_former(object: &mut Value, field: &Field) {
    let name = object["metadata"]["name"].clone();
    if let Some(Value::Object(fields)) = object.pointer_mut(field.parent) {
        fields.entry(field.name).or_insert(name);
    }
}

/// Whether a live child has a former default of what is wanted.
fn has_former(wanted: &Value, live: &Digest, field: &Field) -> bool {
    let mut former = wanted.clone();
    add_former(&mut former, field);
    field.is_in(&former) && live.lacks_where(&former, |path| path == field.path).is_none()
}

/// Returns an object as the oldest version writes it: its hash is the same in all versions.
#[must_use]
pub fn original(object: &Value) -> Value {
    let mut object = object.clone();
    remove_later(&mut object);
    for field in &FORMER {
        add_former(&mut object, field);
    }
    object
}

/// Returns what was wanted of a live child before, with those former defaults that it has, and without later defaults,
/// which are never dropped.
#[must_use]
pub fn previous(before: &Value, live: &Digest) -> Value {
    let mut previous = before.clone();
    remove_later(&mut previous);
    for field in FORMER.iter().filter(|field| has_former(before, live, field)) {
        add_former(&mut previous, field);
    }
    previous
}

/// Returns what is wanted of a live child now: what this version writes, if the child is of this version or its pods change
/// in any case; else the same with the fields of the version that wrote it.
#[must_use]
pub fn due<'a>(wanted: &'a Value, live: &Digest) -> Cow<'a, Value> {
    let is_later = |path: &str| LATER.iter().any(|field| field.path == path);
    let lacks_later = live.lacks_where(wanted, is_later).is_some();
    let former: Vec<&Field> = FORMER.iter().filter(|field| has_former(wanted, live, field)).collect();
    if !lacks_later && former.is_empty() {
        return Cow::Borrowed(wanted);
    }
    let mut as_live = wanted.clone();
    if lacks_later {
        remove_later(&mut as_live);
    }
    for field in former {
        add_former(&mut as_live, field);
    }
    match live.lacks_where(&as_live, is_of_pods) {
        Some(_) => Cow::Borrowed(wanted),
        None => Cow::Owned(as_live),
    }
}

/// As [`due`], of a Deployment that somebody has written without the record of what a person wrote: what the pods are now
/// decides alone.
#[must_use]
pub fn due_in_place(wanted: &Value, live: &Value) -> Value {
    let [spec, live] =
        [wanted, live].map(|object| json!({"metadata": {"name": wanted["metadata"]["name"]}, "spec": object["spec"]}));
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
        crate::desired(&crate::validate(&app).unwrap())
            .first(&crate::children::DEPLOYMENT)
            .unwrap()
            .clone()
    }

    #[test]
    fn both_places_of_a_field_are_the_same() {
        let wanted = wanted("nginx", 1);
        let original = original(&wanted);
        for field in LATER {
            assert!(field.is_in(&wanted) && !field.is_in(&original), "{}", field.path);
            assert_eq!(Digest::of(&original).lacks(&wanted).as_deref(), Some(field.path));
        }
        for field in FORMER {
            assert!(!field.is_in(&wanted) && field.is_in(&original), "{}", field.path);
            assert_eq!(Digest::of(&wanted).lacks(&original).as_deref(), Some(field.path));
        }
    }

    #[test]
    fn fields_of_an_older_version_stay_with_the_same_pods() {
        let wanted = wanted("nginx", 1);
        let mut old = original(&wanted);
        old["metadata"]["annotations"] = json!({});
        assert_eq!(due_in_place(&wanted, &old), original(&wanted));
        old["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:1");
        assert_eq!(due_in_place(&wanted, &old), wanted);
    }

    #[test]
    fn removing_a_field_from_a_spec_changes_the_pods() {
        let live = Digest::of(
            &json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "tty": true}]}}},
            "metadata": {"annotations": {crd::annotation::REVISION_SPEC: "tty"}}}),
        );
        let wanted = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "terminationMessagePolicy": FIELD}]}}},
            "metadata": {"annotations": {crd::annotation::REVISION_SPEC: "no tty"}}});
        assert_eq!(*due(&wanted, &live), wanted);
    }

    proptest! {
        /// Whatever an older operator has made: an upgrade writes nothing, and scaling replaces no pod; and once the pods
        /// change, they are as this version writes them.
        #[test]
        fn fields_change_with_the_next_change_of_the_pods(
            image in "[a-z]{1,3}", next in "[a-z]{1,3}", replicas in 0..4_i32, more in 0..4_i32, is_older in any::<bool>()
        ) {
            let before = wanted(&image, replicas);
            let live = if is_older { original(&before) } else { before.clone() };
            let live = Digest::of(&live);
            prop_assert_eq!(live.lacks(&due(&before, &live)), None);
            let after = wanted(&next, more);
            let due = due(&after, &live);
            let stays = is_older && image == next;
            prop_assert_eq!(LATER.iter().any(|field| field.is_in(&due)), !stays);
            prop_assert_eq!(FORMER.iter().any(|field| field.is_in(&due)), stays);
            prop_assert_eq!(original(&due), original(&after));
            prop_assert_eq!(FORMER[0].is_in(&previous(&before, &live)), is_older);
        }
    }
}

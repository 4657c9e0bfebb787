//! Fields of a child that differ between versions of the operator: fields that newer versions write (later defaults), and
//! fields that only older versions write (former defaults).
//!
//! An upgrade must not restart pods. A child is not written only because it lacks a later default or has a former one. These
//! fields change with the next change of the pods, which replaces the pods anyway (docs/adr/0012).

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::Digest;

/// A field of a child.
struct Field {
    /// The JSON pointer (RFC 6901) of the object that contains it.
    parent: &'static str,
    /// Its name.
    name: &'static str,
    /// Its path in a digest.
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
    // The kubelet copies the end of the log into the status of a container that fails.
    Field {
        parent: "/spec/template/spec/containers/0",
        name: "terminationMessagePolicy",
        path: "spec.template.spec.containers[app].terminationMessagePolicy",
    },
];

/// Fields that only older versions write. The value of each is the name of the child.
const FORMER: [Field; 1] = [
    // A Service of another application may select pods by this label, and any user can choose the name of an app.
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

/// Adds a former default, if the object is of a kind that had it.
fn add_former(object: &mut Value, field: &Field) {
    let name = object["metadata"]["name"].clone();
    if let Some(Value::Object(fields)) = object.pointer_mut(field.parent) {
        fields.entry(field.name).or_insert(name);
    }
}

/// Whether a live child has a former default of the desired object.
fn has_former(wanted: &Value, live: &Digest, field: &Field) -> bool {
    let mut former = wanted.clone();
    add_former(&mut former, field);
    field.is_in(&former) && live.lacks_where(&former, |path| path == field.path).is_none()
}

/// Returns an object as the oldest version writes it, so that its hash is the same in all versions.
#[must_use]
pub fn original(object: &Value) -> Value {
    let mut object = object.clone();
    remove_later(&mut object);
    for field in &FORMER {
        add_former(&mut object, field);
    }
    object
}

/// Returns the previously desired object of a live child: with the former defaults that it has, and without later defaults,
/// which are never removed.
#[must_use]
pub fn previous(before: &Value, live: &Digest) -> Value {
    let mut previous = before.clone();
    remove_later(&mut previous);
    for field in FORMER.iter().filter(|field| has_former(before, live, field)) {
        add_former(&mut previous, field);
    }
    previous
}

/// Returns the desired object for a live child: as this version renders it, if the child is of this version or its pods
/// change anyway; otherwise with the later and former defaults that the child has.
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

/// As [`due`], for a Deployment without a recorded spec, of which only the pod template is compared.
#[must_use]
pub fn due_in_place(wanted: &Value, live: &Value) -> Value {
    let [spec, live] =
        [wanted, live].map(|object| json!({"metadata": {"name": wanted["metadata"]["name"]}, "spec": object["spec"]}));
    let mut wanted = wanted.clone();
    wanted["spec"] = due(&spec, &Digest::of(&live))["spec"].clone();
    wanted
}

/// Whether a change of this field changes the pods. The annotation with the recorded spec is included, because a digest
/// does not show fields that were removed from the spec.
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
    fn pointer_and_path_of_a_field_agree() {
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
    fn defaults_of_an_older_version_are_kept_with_the_same_pods() {
        let wanted = wanted("nginx", 1);
        let mut old = original(&wanted);
        old["metadata"]["annotations"] = json!({});
        assert_eq!(due_in_place(&wanted, &old), original(&wanted));
        old["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:1");
        assert_eq!(due_in_place(&wanted, &old), wanted);
    }

    #[test]
    fn removed_field_of_a_spec_changes_the_pods() {
        let live = Digest::of(
            &json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "tty": true}]}}},
            "metadata": {"annotations": {crd::annotation::REVISION_SPEC: "tty"}}}),
        );
        let wanted = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "terminationMessagePolicy": FIELD}]}}},
            "metadata": {"annotations": {crd::annotation::REVISION_SPEC: "no tty"}}});
        assert_eq!(*due(&wanted, &live), wanted);
    }

    proptest! {
        /// After an upgrade nothing is written, and scaling replaces no pods. Once the pods change, they are as this version
        /// renders them.
        #[test]
        fn defaults_change_with_the_next_change_of_the_pods(
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

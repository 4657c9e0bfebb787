//! Defaults of pods that are new or removed in this version of the operator, and that existing pods get or lose only with their
//! next change.
//!
//! An upgrade must not restart pods. A Deployment is not written only because it lacks an added default or has a removed one.
//! The default changes with the next change of the pod template, which replaces the pods anyway (docs/adr/0012).

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::Digest;
use crate::digest::stable_hash_where;

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
        self.value(object).is_some()
    }

    fn value<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.parent_in(object)?.get(self.name)
    }

    /// Like [`Value::pointer`], which allocates twice for each step.
    fn parent_in<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        let mut steps = self.parent.split('/').skip(1);
        steps.try_fold(object, |value, step| match value {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => value.get(step),
        })
    }
}

/// Defaults that newer versions write. Each has the same value in every child.
const ADDED: [Field; 1] = [
    // The kubelet copies the end of the log into the status of a container that fails.
    Field {
        parent: "/spec/template/spec/containers/0",
        name: "terminationMessagePolicy",
        path: "spec.template.spec.containers[app].terminationMessagePolicy",
    },
];

/// Defaults that only older versions write. The value of each is the name of the child.
const REMOVED: [Field; 1] = [
    // A Service of another application may select pods by this label, and any user can choose the name of an app.
    Field {
        parent: "/spec/template/metadata/labels",
        name: crd::label::NAME,
        path: "spec.template.metadata.labels.app.kubernetes.io/name",
    },
];

/// Deletes the added defaults from an object.
fn drop_added(object: &mut Value) {
    for field in &ADDED {
        if let Some(Value::Object(fields)) = object.pointer_mut(field.parent) {
            fields.remove(field.name);
        }
    }
}

/// Sets a removed default in an object of a kind that had it.
fn restore_removed(object: &mut Value, field: &Field) {
    let name = object["metadata"]["name"].clone();
    if let Some(Value::Object(fields)) = object.pointer_mut(field.parent) {
        fields.entry(field.name).or_insert(name);
    }
}

/// Whether a live child still has a removed default.
fn has_removed(wanted: &Value, live: &Digest, field: &Field) -> bool {
    let has_parent = field.parent_in(wanted).is_some_and(Value::is_object);
    let default = field.value(wanted).unwrap_or(&wanted["metadata"]["name"]);
    has_parent && default.as_str().is_some_and(|text| live.has(field.path, text))
}

/// Whether a live child lacks an added default.
fn lacks_added(wanted: &Value, live: &Digest, field: &Field) -> bool {
    let default = field.value(wanted).and_then(Value::as_str);
    default.is_some_and(|text| !live.has(field.path, text))
}

/// Returns the [`stable_hash`](crate::digest::stable_hash) of an object as the oldest version of the operator writes it, so that the
/// hash is the same in all versions.
#[must_use]
pub fn oldest_hash(object: &Value) -> u64 {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let is_restored = |field: &&Field| field.parent_in(object).is_some() && !field.is_in(object);
    let restored = REMOVED.iter().filter(is_restored).map(|field| (field.path, name));
    stable_hash_where(object, |path| ADDED.iter().all(|field| field.path != path), restored)
}

/// Returns the object that an earlier version desired for a live child. It has the removed defaults that the child still has.
/// It has no added defaults, because an apply never removes those.
#[must_use]
pub fn previous(before: &Value, live: &Digest) -> Value {
    let mut previous = before.clone();
    drop_added(&mut previous);
    for field in REMOVED.iter().filter(|field| has_removed(before, live, field)) {
        restore_removed(&mut previous, field);
    }
    previous
}

/// Returns the desired object with the default changes deferred that would restart the pods of a live child. If the child has
/// the current defaults, or its pods change anyway, this is the desired object as rendered.
#[must_use]
pub fn defer<'a>(wanted: &'a Value, live: &Digest) -> Cow<'a, Value> {
    let lacks_added = ADDED.iter().any(|field| lacks_added(wanted, live, field));
    let removed: Vec<&Field> = REMOVED
        .iter()
        .filter(|field| has_removed(wanted, live, field))
        .collect();
    if !lacks_added && removed.is_empty() {
        return Cow::Borrowed(wanted);
    }
    let mut as_live = wanted.clone();
    if lacks_added {
        drop_added(&mut as_live);
    }
    for field in removed {
        restore_removed(&mut as_live, field);
    }
    match live.lacks_where(&as_live, is_of_pods) {
        Some(_) => Cow::Borrowed(wanted),
        None => Cow::Owned(as_live),
    }
}

/// Like [`defer`], for a Deployment that does not record the spec it was rendered from. Only `spec` is compared.
#[must_use]
pub fn defer_in_template(wanted: &Value, live: &Value) -> Value {
    let [spec, live] =
        [wanted, live].map(|object| json!({"metadata": {"name": wanted["metadata"]["name"]}, "spec": object["spec"]}));
    let mut wanted = wanted.clone();
    wanted["spec"] = defer(&spec, &Digest::of(&live))["spec"].clone();
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
        let original = oldest(&wanted);
        for field in ADDED {
            assert!(field.is_in(&wanted) && !field.is_in(&original), "{}", field.path);
            assert_eq!(Digest::of(&original).lacks(&wanted).as_deref(), Some(field.path));
        }
        for field in REMOVED {
            assert!(!field.is_in(&wanted) && field.is_in(&original), "{}", field.path);
            assert_eq!(Digest::of(&wanted).lacks(&original).as_deref(), Some(field.path));
        }
    }

    #[test]
    fn defaults_of_an_older_version_are_kept_with_the_same_pods() {
        let wanted = wanted("nginx", 1);
        let mut old = oldest(&wanted);
        old["metadata"]["annotations"] = json!({});
        assert_eq!(defer_in_template(&wanted, &old), oldest(&wanted));
        old["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:1");
        assert_eq!(defer_in_template(&wanted, &old), wanted);
    }

    #[test]
    fn removed_field_of_a_spec_changes_the_pods() {
        let live = Digest::of(
            &json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "tty": true}]}}},
            "metadata": {"annotations": {crd::annotation::REVISION_SPEC: "tty"}}}),
        );
        let wanted = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "terminationMessagePolicy": FIELD}]}}},
            "metadata": {"annotations": {crd::annotation::REVISION_SPEC: "no tty"}}});
        assert_eq!(*defer(&wanted, &live), wanted);
    }

    /// Returns an object as the oldest version of the operator writes it.
    fn oldest(object: &Value) -> Value {
        let mut object = object.clone();
        drop_added(&mut object);
        for field in &REMOVED {
            restore_removed(&mut object, field);
        }
        object
    }

    #[test]
    fn hash_is_that_of_the_oldest_version() {
        let app = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": {"image": "nginx", "port": 80}});
        let app: crd::AppDeploy = serde_json::from_value(app).unwrap();
        for child in crate::desired(&crate::validate(&app).unwrap()).iter() {
            assert_eq!(
                oldest_hash(&child.object),
                crate::digest::stable_hash(&oldest(&child.object))
            );
        }
    }

    proptest! {
        /// After an upgrade nothing is written, and scaling replaces no pods. Once the pods change, they are as this version
        /// renders them.
        #[test]
        fn defaults_change_with_the_next_change_of_the_pods(
            image in "[a-z]{1,3}", next in "[a-z]{1,3}", replicas in 0..4_i32, more in 0..4_i32, is_older in any::<bool>()
        ) {
            let before = wanted(&image, replicas);
            let live = if is_older { oldest(&before) } else { before.clone() };
            let live = Digest::of(&live);
            prop_assert_eq!(live.lacks(&defer(&before, &live)), None);
            let after = wanted(&next, more);
            let deferred = defer(&after, &live);
            let stays = is_older && image == next;
            prop_assert_eq!(ADDED.iter().any(|field| field.is_in(&deferred)), !stays);
            prop_assert_eq!(REMOVED.iter().any(|field| field.is_in(&deferred)), stays);
            prop_assert_eq!(oldest(&deferred), oldest(&after));
            prop_assert_eq!(REMOVED[0].is_in(&previous(&before, &live)), is_older);
        }
    }
}

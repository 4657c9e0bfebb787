//! Requests of users and of the floor.

use anyhow::Result;
use crd::AppDeploy;
use http::Request as HttpRequest;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::{ObjectMeta, Request};
use model::children::{Child, IngressClasses, Observed, Owner};
use model::desired::DesiredChild;
use model::status::{StatusOptions, status};
use model::{ChildKind, desired, validate};
use serde_json::{Value, json};

/// The number of namespaces with apps.
pub const NAMESPACES: usize = 50;

/// A request with its body.
pub type Sent = HttpRequest<Vec<u8>>;

/// The namespace and the name of an app.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// Returns the key of the app with this number. Consecutive apps are in different namespaces.
    #[must_use]
    pub fn of(number: usize) -> Self {
        Self {
            namespace: namespace(number % NAMESPACES),
            name: format!("app-{number:05}"),
        }
    }
}

/// Returns the name of a namespace.
#[must_use]
pub fn namespace(number: usize) -> String {
    format!("bench-{number}")
}

/// Returns the path of a kind's objects in all namespaces; `None` is AppDeploy.
#[must_use]
pub fn path(kind: Option<&'static ChildKind>) -> String {
    collection(kind, "")
}

/// Returns an image, a different one for each number.
#[must_use]
pub fn image(number: usize) -> String {
    format!("registry.example.com/bench:{number}")
}

/// Returns a request that creates an app.
///
/// # Errors
/// When it can't be built.
pub fn create_app(key: &Key) -> Result<Sent> {
    create(None, key, &app(key, None), None)
}

/// Returns a request that changes the image of an app.
///
/// # Errors
/// When it can't be built.
pub fn set_image(key: &Key, image: &str) -> Result<Sent> {
    let patch = json!({"spec": {"image": image}});
    let request = Request::new(of(None, key));
    Ok(request.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))?)
}

/// Returns a request that deletes a child.
///
/// # Errors
/// When it can't be built.
pub fn delete(kind: &'static ChildKind, key: &Key) -> Result<Sent> {
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    Ok(Request::new(of(Some(kind), key)).delete(&key.name, &params)?)
}

/// Returns a request that changes a label that all operators set on all children.
///
/// # Errors
/// When it can't be built.
pub fn relabel(kind: &'static ChildKind, key: &Key) -> Result<Sent> {
    let patch = Patch::Merge(json!({"metadata": {"labels": {crd::label::NAME: "changed"}}}));
    Ok(Request::new(of(Some(kind), key)).patch(&key.name, &PatchParams::default(), &patch)?)
}

/// Returns the writes of the operator for a new app, in their order: its children and the status.
///
/// # Errors
/// When the app can't be rendered.
pub fn writes(key: &Key, uid: &str) -> Result<Vec<Sent>> {
    let app: AppDeploy = serde_json::from_value(app(key, Some(uid)))?;
    let valid = validate(&app)?;
    let mut writes = Vec::new();
    let children = desired(&valid);
    for DesiredChild { id, object } in children.iter() {
        writes.push(create(Some(id.kind), key, object, Some(crd::FIELD_MANAGER))?);
    }
    let child = |wanted: &DesiredChild| {
        let child = Child {
            controller: Some(Owner {
                uid: uid.into(),
                name: None,
            }),
            state: (wanted.id.kind.read)(&ObjectMeta::default(), &wanted.object),
            ..Child::default()
        };
        (wanted.id.clone(), child.into())
    };
    let observed = Observed {
        children: children.iter().map(child).collect(),
        ingress_classes: IngressClasses::Known {
            names: [].into(),
            has_default: false,
        },
        ..Observed::default()
    };
    let options = StatusOptions { needs_address: true };
    let status = status(&app, Some(&valid), &observed, &[], options, jiff::Timestamp::now());
    let patch = Patch::Merge(json!({"metadata": {"uid": uid}, "status": status}));
    let params = PatchParams {
        field_manager: Some(crd::FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    writes.push(Request::new(of(None, key)).patch_subresource("status", &key.name, &params, &patch)?);
    Ok(writes)
}

fn create(kind: Option<&'static ChildKind>, key: &Key, object: &Value, manager: Option<&str>) -> Result<Sent> {
    let params = PostParams {
        field_manager: manager.map(str::to_owned),
        dry_run: false,
    };
    Ok(Request::new(of(kind, key)).create(&params, object.to_string().into_bytes())?)
}

fn of(kind: Option<&'static ChildKind>, key: &Key) -> String {
    collection(kind, &format!("/namespaces/{}", key.namespace))
}

fn collection(kind: Option<&'static ChildKind>, within: &str) -> String {
    let (api, plural) = match kind {
        None => (
            format!("apis/{}/{}", crd::GROUP, crd::VERSION),
            crd::Kind::AppDeploy.plural(),
        ),
        Some(kind) => (kind.api_path(), kind.plural),
    };
    format!("/{api}{within}/{plural}")
}

/// Returns an app; a stored one has a UID.
fn app(key: &Key, uid: Option<&str>) -> Value {
    let mut metadata = json!({"name": key.name, "namespace": key.namespace});
    if let Some(uid) = uid {
        metadata["uid"] = uid.into();
        metadata["generation"] = 1.into();
    }
    json!({
        "apiVersion": format!("{}/{}", crd::GROUP, crd::VERSION),
        "kind": crd::Kind::AppDeploy.as_str(),
        "metadata": metadata,
        "spec": {"image": image(1), "port": 8080},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_apps_are_in_different_namespaces() {
        let key = |number| {
            let Key { namespace, name } = Key::of(number);
            format!("{namespace}/{name}")
        };
        assert_eq!(
            [key(0), key(1), key(50)],
            ["bench-0/app-00000", "bench-1/app-00001", "bench-0/app-00050"]
        );
    }

    #[test]
    fn new_app_takes_four_writes() {
        let writes = writes(&Key::of(7), "u1").unwrap();
        let lines: Vec<String> = writes
            .iter()
            .map(|write| format!("{} {}", write.method(), write.uri()))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        POST /apis/apps/v1/namespaces/bench-7/deployments?&fieldManager=appdeploy
        POST /api/v1/namespaces/bench-7/services?&fieldManager=appdeploy
        POST /apis/networking.k8s.io/v1/namespaces/bench-7/ingresses?&fieldManager=appdeploy
        PATCH /apis/appdeploy.dev/v1alpha1/namespaces/bench-7/appdeploys/app-00007/status?&fieldManager=appdeploy
        ");
        let status: Value = serde_json::from_slice(writes[3].body()).unwrap();
        assert_eq!(status["metadata"]["uid"], "u1");
        assert_eq!(status["status"]["observedGeneration"], 1);
    }
}

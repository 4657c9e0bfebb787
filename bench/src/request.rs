//! What people and the floor ask of the API server.

use anyhow::Result;
use crd::AppDeploy;
use http::Request as HttpRequest;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::Request;
use model::children::{DEPLOYMENT, INGRESS, SERVICE};
use model::desired::Wanted;
use model::observed::{Child, ChildState, IngressClasses, Observed, Rollout};
use model::status::{StatusOptions, status};
use model::{ChildKind, desired, validate};
use serde_json::{Value, json};

/// How many namespaces the apps lie in.
pub const NAMESPACES: usize = 50;

/// A request as it is sent.
pub type Sent = HttpRequest<Vec<u8>>;

/// The name of an app and its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// Returns the key of the app with this number: one after the other, each in the next namespace.
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

/// Returns the path of a kind's objects in all namespaces; `None` is the kind of the apps.
#[must_use]
pub fn path(kind: Option<&'static ChildKind>) -> String {
    collection(kind, "")
}

/// Returns an image; each number is another one.
#[must_use]
pub fn image(number: usize) -> String {
    format!("registry.example.com/bench:{number}")
}

/// Creates an app.
///
/// # Errors
/// When it can't be written as a request.
pub fn create_app(key: &Key) -> Result<Sent> {
    create(None, key, &app(key, None), None)
}

/// Changes the image of an app.
///
/// # Errors
/// When it can't be written as a request.
pub fn set_image(key: &Key, image: &str) -> Result<Sent> {
    let patch = json!({"spec": {"image": image}});
    let request = Request::new(of(None, key));
    Ok(request.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))?)
}

/// Deletes a child, as a person does.
///
/// # Errors
/// When it can't be written as a request.
pub fn delete(kind: &'static ChildKind, key: &Key) -> Result<Sent> {
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    Ok(Request::new(of(Some(kind), key)).delete(&key.name, &params)?)
}

/// Changes a child, as a person does who does not know whose it is.
///
/// # Errors
/// When it can't be written as a request.
pub fn spoil(kind: &'static ChildKind, key: &Key) -> Result<Sent> {
    let patch = if *kind == DEPLOYMENT {
        json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "spoilt"}])
    } else if *kind == SERVICE {
        json!([{"op": "add", "path": "/spec/selector/spoilt", "value": "yes"}])
    } else if *kind == INGRESS {
        json!([{"op": "replace", "path": "/spec/rules/0/host", "value": "spoilt.example.com"}])
    } else {
        let label = format!("/metadata/labels/{}", crd::label::APP.replace('/', "~1"));
        json!([{"op": "replace", "path": label, "value": "spoilt"}])
    };
    let patch = Patch::Json::<()>(serde_json::from_value(patch)?);
    Ok(Request::new(of(Some(kind), key)).patch(&key.name, &PatchParams::default(), &patch)?)
}

/// Returns what the operator writes for an app that is new, in its order: three children and the status.
///
/// # Errors
/// When an app can't be rendered.
pub fn writes(key: &Key, uid: &str) -> Result<Vec<Sent>> {
    let app: AppDeploy = serde_json::from_value(app(key, Some(uid)))?;
    let valid = validate(&app)?;
    let mut writes = Vec::new();
    let children = desired(&valid);
    for Wanted { id, object } in children.iter() {
        writes.push(create(Some(id.kind), key, object, Some(crd::FIELD_MANAGER))?);
    }
    let rollout = Rollout {
        wanted: 1,
        ..Rollout::default()
    };
    let child = |wanted: &Wanted| {
        let state = if *wanted.id.kind == DEPLOYMENT {
            ChildState::Rollout(Box::new(rollout.clone()))
        } else {
            ChildState::None
        };
        let child = Child {
            controller: Some(uid.to_owned()),
            state,
            ..Child::default()
        };
        (wanted.id.clone(), child)
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

/// Returns an app; one that is stored has a UID.
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
    fn apps_lie_in_one_namespace_after_the_other() {
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
    fn an_app_takes_four_writes() {
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

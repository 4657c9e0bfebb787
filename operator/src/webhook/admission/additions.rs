//! Finds out what other managers added to the Deployment of an app.
//!
//! The Deployment is read for each change of a program. To compare it with its spec whenever it changes would take more time than to
//! reconcile it, and only few changes need the result.

use kube::api::GetParams;
use kube::core::{ObjectMeta, Request};
use model::admit::{RequiredRight, right_to_additions};
use model::children::{DEPLOYMENT, controller};
use model::spec_reader::Additions;
use model::valid::is_object_name;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Admission;
use crate::call::CallError;
use crate::key::Key;
use crate::reduced::{Parts, read};
use crate::stores::MAX_OBJECT;

/// The Deployment of an app.
pub(super) struct AppDeployment {
    app: Key,
    /// The app's UID.
    uid: Option<String>,
}

impl AppDeployment {
    /// Returns the Deployment of the app with this metadata.
    pub fn of(app: &ObjectMeta) -> Self {
        Self {
            app: Key::of(app),
            uid: app.uid.clone(),
        }
    }

    /// Returns the path of its collection, which any client of the port could otherwise choose.
    fn collection(&self) -> Option<String> {
        let Key { namespace, name } = &self.app;
        (is_object_name(namespace) && is_object_name(name)).then(|| DEPLOYMENT.path(namespace))
    }

    /// Reads what other managers added to it. Nothing of the app runs in a Deployment that the app does not control.
    fn additions(&self, deployment: &RawValue) -> Result<Additions, String> {
        let Parts { meta, spec, .. } = Parts::parse(deployment).map_err(|error| error.to_string())?;
        let is_ours = self
            .uid
            .as_deref()
            .is_none_or(|uid| controller(&meta).is_some_and(|(_, owner)| owner == uid));
        if !is_ours {
            return Ok(Additions::None);
        }
        let spec = spec.ok_or("it has no spec")?;
        if spec.bytes() > MAX_OBJECT {
            return Err("it is too large".to_owned());
        }
        let spec: Value = read(spec)?;
        let record = meta.annotations.as_ref();
        let record = record.and_then(|all| all.get(crd::annotation::REVISION_SPEC));
        Ok(Additions::read(
            &self.app.name,
            &spec["template"],
            record.map(String::as_str),
        ))
    }
}

impl Admission {
    /// Returns the right that the author of a change needs because of what other managers added to a Deployment.
    pub(super) async fn right_to_additions(&self, deployment: &AppDeployment) -> Option<RequiredRight> {
        let name = &deployment.app.name;
        let Some(collection) = deployment.collection() else {
            return right_to_additions(name, Additions::Unknown("its name is invalid".into()));
        };
        // It is never closed.
        let _permit = self.turns.acquire().await.ok();
        let request = Request::new(collection).get(name, &GetParams::default());
        let answer = self
            .caller
            .send::<Box<RawValue>>("get", DEPLOYMENT.plural, request)
            .await;
        let additions = match answer {
            Ok(text) => deployment.additions(&text),
            // Its author can correct an app whose Deployment was never created.
            Err(CallError::Refused(status)) if status.is_not_found() => Ok(Additions::None),
            Err(error) => Err(error.to_string()),
        };
        right_to_additions(name, additions.unwrap_or_else(|why| Additions::Unknown(why.into())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn additions(spec: &Value) -> Result<Additions, String> {
        let app: ObjectMeta =
            serde_json::from_value(json!({"name": "shop", "namespace": "blue", "uid": "u1"})).unwrap();
        let read = |uid: &str| {
            let owner = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": "shop", "uid": uid,
                "controller": true});
            let deployment = json!({"spec": spec, "metadata": {"name": "shop", "namespace": "blue", "ownerReferences": [owner],
                "annotations": {"appdeploy.dev/revision-spec": "{\"image\":\"nginx\"}"}}});
            let deployment = serde_json::value::to_raw_value(&deployment).unwrap();
            AppDeployment::of(&app).additions(&deployment)
        };
        assert_eq!(read("u2"), Ok(Additions::None), "nothing of the app runs there");
        read("u1")
    }

    #[test]
    fn additions_are_those_of_the_deployment_that_the_app_controls() {
        let found = additions(&json!({"template": {"spec": {"volumes": [{"name": "keys"}]}}}));
        assert_eq!(found, Ok(Additions::Fields("spec.template.spec.volumes[keys]".into())));
    }

    #[test]
    fn only_deployments_are_requested() {
        let collection = |namespace: &str, name: &str| {
            let app = Key::new(namespace, name);
            AppDeployment { app, uid: None }.collection()
        };
        let expected = Some("/apis/apps/v1/namespaces/blue/deployments".to_owned());
        assert_eq!(collection("blue", "shop"), expected);
        for (namespace, name) in [
            ("blue/secrets", "shop"),
            ("..", "shop"),
            ("", "shop"),
            ("blue", "shop?watch=true"),
            ("blue", "../shop"),
            ("blue", ""),
        ] {
            assert_eq!(collection(namespace, name), None, "{namespace} {name}");
        }
    }

    #[test]
    fn oversized_spec_is_not_parsed() {
        let found = additions(&json!({"template": {"spec": {"hostname": "x".repeat(MAX_OBJECT)}}}));
        assert_eq!(found, Err("it is too large".to_owned()));
    }
}

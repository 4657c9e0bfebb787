//! I2: a user who may only write AppDeploys and PodSets gains no rights by it that `docs/security.md` does not name. The operator may
//! create pods everywhere; the user may not.

mod children;
mod fields;

use std::sync::Arc;

use serde_json::{Value, json};
use testcluster::{ControlPlane, Kubectl};

use crate::harness::{Cluster, Kind, Namespace, Shared, config, eventually};

/// A namespace, and a user who is an editor of AppDeploys and PodSets in it.
struct Stage {
    space: Namespace,
    mallory: Kubectl,
}

impl Stage {
    fn new(name: &str) -> Self {
        static SHARED: Shared<Cluster> = Shared::new();
        let cluster: Arc<Cluster> = SHARED.get(|| {
            let cluster = Cluster::start(ControlPlane::builder()).with_operator(&[]);
            cluster.control_plane.apply(&config("rbac/editor_role.yaml")).unwrap();
            cluster
        });
        let space = cluster.namespace(name);
        let (control_plane, user) = (&cluster.control_plane, format!("mallory-of-{name}"));
        let flag = format!("--user={user}");
        space.kubectl(&[
            "create",
            "rolebinding",
            "mallory",
            "--clusterrole=appdeploy-editor",
            &flag,
        ]);
        eventually("mallory is an editor", || {
            let asked = [
                "-n",
                name,
                "auth",
                "can-i",
                "create",
                "podsets.appdeploy.dev",
                "--as",
                &user,
            ];
            control_plane.kubectl(&asked).is_ok()
        });
        let mallory = control_plane.kubectl_as(&control_plane.kubeconfig_for(&user, &[]).unwrap());
        Self { space, mallory }
    }

    /// Runs kubectl as the editor.
    fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let all: Vec<&str> = ["-n", &self.space.name]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        self.mallory
            .run_with_input(&all, input)
            .map_err(|error| error.to_string())
    }

    /// Creates an object as the editor, who may have the API server drop what it does not know, or refuse it.
    fn create(&self, kind: Kind, validate: &str, meta: Value, spec: Value) -> Result<String, String> {
        let object = json!({"apiVersion": kind.api_version(), "kind": kind.name(), "metadata": meta, "spec": spec});
        let validate = format!("--validate={validate}");
        self.kubectl(&["create", &validate, "-f", "-"], &object.to_string())
    }
}

#[test]
fn editor_of_apps_has_no_other_rights() {
    let stage = Stage::new("nothing-else");
    for trial in [
        "create pods",
        "create deployments.apps",
        "patch deployments.apps",
        "delete pods",
        "create services",
        "create ingresses.networking.k8s.io",
        "get secrets",
        "get configmaps",
        "create pods --subresource=exec",
        "get pods --subresource=log",
        "create serviceaccounts --subresource=token",
        "create rolebindings.rbac.authorization.k8s.io",
        "patch appdeploys.appdeploy.dev --subresource=status",
        "patch podsets.appdeploy.dev --subresource=status",
        "update appdeploys.appdeploy.dev --subresource=finalizers",
    ] {
        let asked: Vec<&str> = ["auth", "can-i"].into_iter().chain(trial.split(' ')).collect();
        assert!(stage.kubectl(&asked, "").is_err(), "{trial}");
    }
    let elsewhere = ["auth", "can-i", "list", "appdeploys.appdeploy.dev", "-A"];
    assert!(stage.kubectl(&elsewhere, "").is_err());
}

//! Rights of users with the default roles of each cluster: `edit` and `view` include AppDeploys and PodSets.

use std::sync::Arc;

use serde_json::json;
use testcluster::{ControlPlane, Kubectl};

use crate::harness::{APP, Cluster, Namespace, PODSET, config, eventually};

/// What everybody tries: the arguments, and whether those may who edit, and those who view.
const TRIALS: [(&[&str], bool, bool); 13] = [
    (&["get", "appdeploys"], true, true),
    (&["get", "podset", "set"], true, true),
    (&["auth", "can-i", "watch", "appdeploys"], true, true),
    (&["get", "appdeploy", "shop", "--subresource=status"], true, true),
    (&["get", "podset", "set", "--subresource=scale"], true, true),
    (&["apply", "--server-side", "-f", "-"], true, false),
    (&["scale", "appdeploy", "shop", "--replicas=2"], true, false),
    (&["scale", "podset", "set", "--replicas=2"], true, false),
    (&["label", "podset", "set", "team=blue"], true, false),
    (
        &[
            "patch",
            "appdeploy",
            "shop",
            "--subresource=status",
            "--type=merge",
            "-p",
            STATUS,
        ],
        false,
        false,
    ),
    (
        &[
            "patch",
            "podset",
            "set",
            "--subresource=status",
            "--type=merge",
            "-p",
            STATUS,
        ],
        false,
        false,
    ),
    (&["delete", "appdeploy", "hello", "--wait=false"], true, false),
    (&["delete", "podsets", "--all", "--wait=false"], true, false),
];

const STATUS: &str = r#"{"status": {"observedGeneration": 7}}"#;

#[test]
fn editors_and_viewers_of_a_namespace_have_these_rights_for_apps_and_pod_sets() {
    let builder = ControlPlane::builder().controller_manager(&["clusterrole-aggregation"]);
    let cluster = Arc::new(Cluster::start(builder));
    for file in ["editor_role", "viewer_role"] {
        let role = config(&format!("rbac/{file}.yaml"));
        cluster.control_plane.apply(&role).unwrap();
    }
    let samples = ["appdeploy", "podset"].map(|kind| config(&format!("samples/{kind}.yaml")));
    let samples = samples.join("\n---\n");
    for (role, may_edit) in [("admin", true), ("edit", true), ("view", false)] {
        let space = cluster.namespace(&format!("of-{role}"));
        space.create(APP, json!({"metadata": {"name": "shop"}, "spec": {"image": "nginx"}}));
        space.create(
            PODSET,
            json!({"metadata": {"name": "set"}, "spec": {"template": {"image": "nginx"}}}),
        );
        let jane = bound(&space, role);
        for (arguments, edits, views) in TRIALS {
            let allowed = if may_edit { edits } else { views };
            let all: Vec<&str> = ["-n", &space.name]
                .into_iter()
                .chain(arguments.iter().copied())
                .collect();
            let tried = jane.run_with_input(&all, &samples);
            assert_eq!(tried.is_ok(), allowed, "{role}: kubectl {arguments:?}: {tried:?}");
            if let Err(refused) = tried {
                let refused = refused.to_string();
                assert!(
                    refused.contains("Forbidden") || refused.contains("forbidden"),
                    "{role}: {refused}"
                );
            }
        }
    }
}

/// Binds a person to a role of the cluster in a namespace, and waits until that counts.
fn bound(space: &Namespace, role: &str) -> Kubectl {
    let (control_plane, person) = (&space.cluster.control_plane, format!("jane-who-{role}s"));
    let (role, user) = (format!("--clusterrole={role}"), format!("--user={person}"));
    space.kubectl(&["create", "rolebinding", "jane", &role, &user]);
    eventually("the role is filled and bound", || {
        let asked = [
            "-n",
            &space.name,
            "auth",
            "can-i",
            "list",
            "podsets.appdeploy.dev",
            "--as",
            &person,
        ];
        control_plane.kubectl(&asked).is_ok()
    });
    control_plane.kubectl_as(&control_plane.kubeconfig_for(&person, &[]).unwrap())
}

//! An installation for some namespaces: rights in them, and nowhere else.

use serde_json::json;
use testcluster::ControlPlane;
use testcluster::checkout::OPERATOR_USER;

use crate::plugin::Plugin;
use crate::queues::await_right;

const OURS: &str = "app.kubernetes.io/part-of=appdeploy,app.kubernetes.io/name=appdeploy-operator";

/// Returns the operator's roles and their bindings, each as `kind namespace/name`, without those of the election.
fn rights(cluster: &ControlPlane) -> Vec<String> {
    let columns = "jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
    let kinds = "clusterrole,clusterrolebinding,role,rolebinding";
    let listed = cluster
        .kubectl(&["get", kinds, "-A", "-l", OURS, "-o", columns])
        .unwrap();
    let mut lines: Vec<String> = listed.lines().map(ToOwned::to_owned).collect();
    lines.retain(|line| !line.ends_with("/appdeploy-leader-election") && !line.ends_with("/appdeploy-webhook"));
    lines.sort();
    lines
}

/// Waits until the operator may, or may not: a right needs a moment until it counts.
#[track_caller]
fn may(cluster: &ControlPlane, arguments: &[&str], wanted: bool) {
    let all: Vec<&str> = ["auth", "can-i", "--as", OPERATOR_USER]
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    let patience = std::time::Instant::now();
    while cluster.kubectl(&all).is_ok() != wanted {
        assert!(patience.elapsed().as_secs() < 20, "{arguments:?} is not {wanted}");
    }
}

const IN_TWO: [&str; 4] = [
    "Role blog/appdeploy-operator",
    "Role shop/appdeploy-operator",
    "RoleBinding blog/appdeploy-operator",
    "RoleBinding shop/appdeploy-operator",
];
const IN_ALL: [&str; 2] = [
    "ClusterRole /appdeploy-operator",
    "ClusterRoleBinding /appdeploy-operator",
];

#[test]
fn operator_of_some_namespaces_has_rights_only_there() {
    let cluster = ControlPlane::builder().controller_manager(&["*"]).start().unwrap();
    let plugin = Plugin::admin(&cluster);
    for namespace in ["blog", "shop", "other"] {
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    }
    plugin.run("install --wait=false").ok();
    assert_eq!(rights(&cluster), IN_ALL);

    // What was granted in the whole cluster goes when it is not needed any more.
    let tried = plugin
        .run("install --wait=false --watch-namespace=shop,blog --dry-run=server")
        .ok();
    let gone = "clusterrolebinding.rbac.authorization.k8s.io/appdeploy-operator deleted (server dry run)";
    assert!(tried.contains(gone), "{tried}");
    assert_eq!(rights(&cluster), IN_ALL);
    let moved = plugin.run("install --wait=false --watch-namespace=shop,blog").ok();
    for line in [
        "role.rbac.authorization.k8s.io/appdeploy-operator created in shop namespace",
        "rolebinding.rbac.authorization.k8s.io/appdeploy-operator created in blog namespace",
        "clusterrole.rbac.authorization.k8s.io/appdeploy-operator deleted",
    ] {
        assert!(moved.lines().any(|said| said == line), "{line} is not in\n{moved}");
    }
    assert_eq!(rights(&cluster), IN_TWO);
    for namespace in ["blog", "shop"] {
        may(&cluster, &["create", "deployments.apps", "-n", namespace], true);
        may(
            &cluster,
            &[
                "patch",
                "podsets.appdeploy.dev",
                "--subresource=status",
                "-n",
                namespace,
            ],
            true,
        );
    }
    may(
        &cluster,
        &[
            "get",
            "leases.coordination.k8s.io/appdeploy-operator",
            "-n",
            "appdeploy-system",
        ],
        true,
    );
    for elsewhere in [&["-n", "other"][..], &["-n", "appdeploy-system"], &["-A"]] {
        for resource in ["deployments.apps", "pods", "appdeploys.appdeploy.dev"] {
            let asked: Vec<&str> = ["list", resource].iter().chain(elsewhere).copied().collect();
            may(&cluster, &asked, false);
        }
    }
    may(&cluster, &["list", "ingressclasses.networking.k8s.io"], false);
    let again = plugin.run("install --wait=false --watch-namespace=shop,blog").ok();
    assert!(again.lines().all(|line| line.contains(" unchanged")), "{again}");

    // One namespace less, and back to all.
    let moved = plugin.run("install --wait=false --watch-namespace=blog").ok();
    let gone = "role.rbac.authorization.k8s.io/appdeploy-operator deleted from shop namespace";
    assert!(moved.lines().any(|said| said == gone), "{moved}");
    assert_eq!(rights(&cluster), [IN_TWO[0], IN_TWO[2]]);
    let back = plugin.run("install --wait=false");
    let warning = "Warning: the operator managed only blog, and now manages all namespaces";
    assert!(back.err.contains(warning), "{}", back.err);
    assert_eq!(rights(&cluster), IN_ALL);
    let again = plugin.run("install --wait=false");
    assert!(!again.err.contains("warning"), "{}", again.err);

    plugin.run("install --wait=false --watch-namespace=shop,blog").ok();
    let plan = plugin.run("uninstall --dry-run=client").ok();
    let step = "  rolebinding.rbac.authorization.k8s.io/appdeploy-operator in shop namespace\n";
    assert!(plan.contains(step), "{plan}");
    let gone = plugin.run("uninstall --timeout=60s").ok();
    let line = "role.rbac.authorization.k8s.io/appdeploy-operator deleted from blog namespace";
    assert!(gone.lines().any(|said| said == line), "{gone}");
    assert_eq!(rights(&cluster), Vec::<String>::new());
}

#[test]
fn missing_namespace_is_reported_before_any_write() {
    let cluster = ControlPlane::pooled().unwrap();
    let plugin = Plugin::admin(&cluster);
    let refused = plugin
        .run("install --wait=false --watch-namespace=default,shop")
        .fails(1);
    assert!(
        refused.contains("namespace shop does not exist: nothing was changed\n  next: kubectl create namespace shop"),
        "{refused}"
    );
    let refused = plugin.run("install --wait=false --watch-namespace=shop,blog").fails(1);
    assert!(
        refused.contains("namespaces blog, shop do not exist: nothing was changed"),
        "{refused}"
    );
    assert_eq!(cluster.kubectl(&["get", "crd", "-o", "name"]).unwrap(), "");
    assert!(cluster.kubectl(&["get", "namespace", "appdeploy-system"]).is_err());
    // Its own need not be there yet.
    plugin
        .run("install --wait=false --watch-namespace=default,appdeploy-system")
        .ok();
}

#[test]
fn third_party_role_is_not_changed() {
    let cluster = ControlPlane::pooled().unwrap();
    let plugin = Plugin::admin(&cluster);
    let role = [
        "-n",
        "default",
        "create",
        "role",
        "appdeploy-operator",
        "--verb=get",
        "--resource=pods",
    ];
    cluster.kubectl(&role).unwrap();
    let refused = plugin.run("install --wait=false --watch-namespace=default").fails(1);
    let next = "next: kubectl get role.rbac.authorization.k8s.io/appdeploy-operator -n default -o yaml";
    assert!(
        refused.contains("is not part of AppDeploy: nothing was changed") && refused.contains(next),
        "{refused}"
    );
}

/// An administrator of some APIs, as of those that come with Kubernetes: the API server would reject the role of the operator when
/// half of the installation is done.
#[test]
fn right_that_the_user_can_not_grant_is_named_before_any_write() {
    let cluster = ControlPlane::pooled().unwrap();
    cluster.kubectl(&["create", "namespace", "shop"]).unwrap();
    let groups = [
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "appdeploy.dev",
        "apps",
        "authorization.k8s.io",
        "coordination.k8s.io",
        "events.k8s.io",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
    ];
    let verbs = [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
    ];
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "jane"},
        "rules": [{"apiGroups": groups, "resources": ["*"], "verbs": verbs}]});
    cluster.apply(&role.to_string()).unwrap();
    cluster
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "jane",
            "--clusterrole=jane",
            "--user=jane",
        ])
        .unwrap();
    await_right(&cluster, "crd", &["--as=jane"]);
    let jane = Plugin::of(&cluster.kubeconfig_for("jane", &[]).unwrap());
    let refused = jane.run("install --wait=false --watch-namespace=shop").fails(1);
    insta::assert_snapshot!(refused, @"
    error: you can't grant rights that you don't have: nothing was changed
      why:  the roles of AppDeploy grant, and you lack: create,delete,get,list,patch,watch podmonitors.monitoring.coreos.com -n shop
      next: kubectl auth can-i create podmonitors.monitoring.coreos.com -n shop
      next: a user who has these rights can run: kubectl appdeploy install --watch-namespace=shop
    ");
    assert_eq!(
        cluster
            .kubectl(&["get", "crd,roles", "-A", "-l", OURS, "-o", "name"])
            .unwrap(),
        ""
    );

    let all = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "monitors", "namespace": "shop"},
        "rules": [{"apiGroups": ["monitoring.coreos.com"], "resources": ["podmonitors"], "verbs": verbs}]});
    cluster.apply(&all.to_string()).unwrap();
    cluster
        .kubectl(&[
            "create",
            "rolebinding",
            "monitors",
            "--role=monitors",
            "--user=jane",
            "-n",
            "shop",
        ])
        .unwrap();
    await_right(
        &cluster,
        "podmonitors.monitoring.coreos.com",
        &["--as=jane", "-n", "shop"],
    );
    jane.run("install --wait=false --watch-namespace=shop").ok();
    jane.run("install --wait=false --watch-namespace=shop").ok();
}

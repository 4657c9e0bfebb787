//! No cluster, the wrong one, or too few rights.

use std::path::Path;

use serde_json::json;
use testcluster::ControlPlane;
use testcluster::wait::eventually;

use crate::plugin::Plugin;

#[test]
fn each_connection_failure_has_its_own_message() {
    let cluster = ControlPlane::pooled().unwrap();
    let plugin = Plugin::admin(&cluster);
    let url = cluster.url();
    let nowhere = Plugin::of(Path::new("/nonexistent/config"));
    assert!(
        nowhere
            .run("status")
            .fails(1)
            .contains("no cluster is configured: /nonexistent/config does not exist")
    );
    for (line, sentence) in [
        ("status --context=nope".to_owned(), "context \"nope\" not found"),
        ("status --user=nope".to_owned(), "user \"nope\" not found"),
        ("status -s http://127.0.0.1:1".to_owned(), "connection refused"),
        (
            "status -s https://cluster.invalid".to_owned(),
            "cannot reach the cluster at https://cluster.invalid",
        ),
    ] {
        let said = plugin.run(&line).fails(1);
        assert!(said.contains(sentence) && said.contains("  next: "), "{line}: {said}");
    }
    let stranger = nowhere.run(&format!("status -s {url}")).fails(1);
    assert!(stranger.contains("its certificate is not trusted"), "{stranger}");
    for login in ["", " --token=wrong"] {
        let said = nowhere
            .run(&format!("status -s {url} --insecure-skip-tls-verify{login}"))
            .fails(1);
        assert!(said.contains("does not accept your credentials"), "{said}");
    }
    let version = nowhere.run("version");
    assert!(version.out.starts_with("Plugin Version: v"), "{version:?}");
    nowhere.run("version --client").ok();
    nowhere.run("create shop --image=nginx --dry-run=client -o yaml").ok();
}

#[test]
fn frozen_api_server_ends_in_a_timeout() {
    let cluster = ControlPlane::pooled().unwrap();
    let plugin = Plugin::admin(&cluster);
    cluster.pause_apiserver().unwrap();
    let said = plugin.run("status --request-timeout=1s").fails(1);
    cluster.resume_apiserver().unwrap();
    assert!(
        said.contains("did not answer within 1s\n  why:  --request-timeout sets how long to wait"),
        "{said}"
    );
}

#[test]
fn page_is_printed_without_the_forbidden_parts() {
    let (cluster, _) = Plugin::installed();
    Plugin::admin(&cluster).run("create shop --image=nginx --port=80").ok();
    cluster
        .kubectl(&[
            "create",
            "rolebinding",
            "jane",
            "--clusterrole=appdeploy-viewer",
            "--user=jane",
            "-n",
            "default",
        ])
        .unwrap();
    let jane = Plugin::of(&cluster.kubeconfig_for("jane", &[]).unwrap());
    let may = ["auth", "can-i", "list", "appdeploys.appdeploy.dev", "--as=jane"];
    eventually("the right counts", || cluster.kubectl(&may).is_ok());

    let page = jane.run("status shop").ok();
    for line in [
        "Ingress      -       n/a (forbidden)   -",
        "Deployment   -       n/a (forbidden)   -",
    ] {
        assert!(page.contains(line), "{page}");
    }
    assert!(
        jane.run("describe shop")
            .ok()
            .contains("Events:          n/a (forbidden)")
    );
    assert!(jane.run("version").ok().contains("Operator Version: n/a (forbidden)"));
    let said = jane.run("create web --image=nginx").fails(1);
    assert!(
        said.starts_with("Error from server (Forbidden): ")
            && said.contains("  next: kubectl auth can-i create appdeploys.appdeploy.dev -n default"),
        "{said}"
    );
    let said = jane.run("delete shop").fails(1);
    assert!(
        said.contains("kubectl auth can-i delete appdeploys.appdeploy.dev -n default"),
        "{said}"
    );
}

/// As with kubectl: who may delete and not watch has deleted, and who may not read logs gets an error instead of silence.
#[test]
fn forbidden_watches_and_reads_are_reported() {
    let (cluster, admin) = Plugin::installed();
    admin.run("create shop --image=nginx").ok();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "jane", "namespace": "default"}, "rules": [
            {"apiGroups": ["appdeploy.dev"], "resources": ["appdeploys"], "verbs": ["get", "delete"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]});
    cluster.apply(&role.to_string()).unwrap();
    cluster
        .kubectl(&[
            "create",
            "rolebinding",
            "jane",
            "--role=jane",
            "--user=jane",
            "-n",
            "default",
        ])
        .unwrap();
    let jane = Plugin::of(&cluster.kubeconfig_for("jane", &[]).unwrap());
    let may = ["auth", "can-i", "delete", "appdeploys.appdeploy.dev", "--as=jane"];
    eventually("the right counts", || cluster.kubectl(&may).is_ok());

    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "shop-1", "namespace": "default", "labels": {"appdeploy.dev/app": "shop"}},
        "spec": {"nodeName": "node", "automountServiceAccountToken": false,
            "containers": [{"name": "app", "image": "nginx"}]}});
    cluster.apply(&pod.to_string()).unwrap();
    let status = json!({"status": {"phase": "Running", "containerStatuses": [{"name": "app", "image": "nginx",
        "imageID": "x", "ready": true, "restartCount": 0, "state": {"running": {}}}]}});
    let status = status.to_string();
    cluster
        .kubectl(&[
            "patch",
            "pod/shop-1",
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ])
        .unwrap();
    for line in ["logs shop", "logs shop -f"] {
        let said = jane.run(line).fails(1);
        assert!(
            said.starts_with("Error from server (Forbidden): pods \"shop-1\" is forbidden")
                && said.contains("  next: kubectl auth can-i get pods/log -n default"),
            "{line}: {said}"
        );
    }

    let run = jane.run("delete shop");
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "appdeploy.appdeploy.dev/shop deleted\n"),
        "{}",
        run.err
    );
    assert!(
        run.err
            .contains("Warning: appdeploy.appdeploy.dev/shop was not waited for"),
        "{}",
        run.err
    );
}

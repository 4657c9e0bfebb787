//! The page of one app: what it costs, and what it says that only the person's own rights can tell.

use serde_json::{Value, json};
use testcluster::ControlPlane;
use testcluster::audit::Requests;

use crate::plugin::{Plugin, conditions, status};

const LABELS: &str =
    r#"{"app.kubernetes.io/managed-by": "appdeploy", "app.kubernetes.io/name": "shop", "appdeploy.dev/app": "shop"}"#;

/// Creates what the operator would, and the pods, endpoints and statuses that Kubernetes would.
pub fn family(cluster: &ControlPlane, pods: usize) {
    let labels: Value = serde_json::from_str(LABELS).unwrap();
    let meta = |name: &str| json!({"name": name, "namespace": "default", "labels": labels});
    let pod =
        json!({"containers": [{"name": "app", "image": "nginx", "ports": [{"name": "http", "containerPort": 80}]}]});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let selector = json!({"matchLabels": {"appdeploy.dev/app": "shop"}});
    let mut objects = vec![
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": meta("shop"),
            "spec": {"ingressClassName": "traefik", "rules": [{"host": "shop.default", "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "shop", "port": {"name": "http"}}}}]}}]}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": meta("shop"),
            "spec": {"selector": selector["matchLabels"], "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("shop"),
            "spec": {"replicas": pods, "selector": selector, "template": template}}),
    ];
    for number in 0..pods {
        objects
            .push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta(&format!("shop-{number}")), "spec": pod}));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    cluster.apply(&list.to_string()).unwrap();
    let ready =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}).to_string();
    for number in 0..pods {
        let name = format!("pod/shop-{number}");
        cluster
            .kubectl(&["patch", &name, "--subresource=status", "--type=merge", "-p", &ready])
            .unwrap();
    }
    let done = json!({"status": {"replicas": pods, "readyReplicas": pods, "updatedReplicas": pods}}).to_string();
    cluster
        .kubectl(&[
            "patch",
            "deployment/shop",
            "--subresource=status",
            "--type=merge",
            "-p",
            &done,
        ])
        .unwrap();
}

/// Enters the first pods into a slice of endpoints, as kube-controller-manager would.
pub fn endpoints(cluster: &ControlPlane, pods: usize) {
    let addresses: Vec<Value> = (0..pods)
        .map(|number| json!({"addresses": [format!("10.244.0.{number}")], "conditions": {"ready": true}}))
        .collect();
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "shop-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "shop"}},
        "endpoints": addresses, "ports": [{"name": "http", "port": 80}]});
    cluster.apply(&slice.to_string()).unwrap();
}

pub fn asked(cluster: &ControlPlane, what: impl FnOnce() -> String) -> (String, Requests) {
    let before = cluster.audit().mark().unwrap();
    let text = what();
    let requests = cluster.audit().since(before).unwrap();
    (text, requests.by_user_agent_prefix("kubectl-appdeploy/"))
}

pub fn works(pods: usize) -> Value {
    let mut works = conditions("True", "Available", "", None);
    (works["readyReplicas"], works["replicas"]) = (pods.into(), pods.into());
    works
}

#[test]
fn number_of_requests_for_an_app_is_independent_of_its_pods() {
    let (cluster, plugin) = Plugin::installed();
    plugin
        .run("create shop --image=nginx --port=80 --replicas=12 --tls-secret=shop-tls")
        .ok();
    let before: Vec<(String, usize)> = ["appdeploys", "secrets"]
        .iter()
        .map(|kind| (format!("get {kind}"), 1))
        .chain(
            [
                "deployments",
                "endpointslices",
                "horizontalpodautoscalers",
                "ingresses",
                "pods",
                "replicasets",
                "services",
            ]
            .iter()
            .map(|kind| (format!("list {kind}"), 1)),
        )
        .collect();
    status(&cluster, "appdeploy/shop", &works(0));
    let (_, none) = asked(&cluster, || plugin.run("status shop").ok());
    assert_eq!(none.tally().into_iter().collect::<Vec<_>>(), before);

    family(&cluster, 12);
    endpoints(&cluster, 12);
    status(&cluster, "appdeploy/shop", &works(12));
    let (page, many) = asked(&cluster, || plugin.run("status shop").ok());
    assert_eq!(many.tally().into_iter().collect::<Vec<_>>(), before);
    for part in [
        "\nwhy:  the TLS Secret shop-tls does not exist, so browsers get another certificate\n",
        "\n✖ └─Secret/shop-tls ",
        "\n  Service/shop        12/12   ",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }

    // Pods are there, and the way to them is not: the Service is the broken stop.
    cluster
        .kubectl(&["create", "secret", "generic", "shop-tls", "--from-literal=tls.crt="])
        .unwrap();
    let page = plugin.run("status shop").ok();
    assert!(
        page.contains("\nwhy:  the TLS Secret shop-tls has no tls.crt\n"),
        "{page}"
    );
    let worse = json!({"spec": {"tls": null}}).to_string();
    cluster
        .kubectl(&["patch", "appdeploy/shop", "--type=merge", "-p", &worse])
        .unwrap();
    let mut works = works(12);
    works["observedGeneration"] = 2.into();
    status(&cluster, "appdeploy/shop", &works);
    endpoints(&cluster, 0);
    let page = plugin.run("status shop").ok();
    assert!(
        page.contains("\nwhy:  12 pods are ready, but the Service has no endpoints: "),
        "{page}"
    );
    assert!(page.contains("\n✖ Service/shop "), "{page}");

    // A status that differs from the children shows that no operator works.
    cluster
        .kubectl(&[
            "scale",
            "deployment/appdeploy-operator",
            "-n",
            "appdeploy-system",
            "--replicas=0",
        ])
        .unwrap();
    status(&cluster, "appdeploy/shop", &json!({"readyReplicas": 3}));
    let (page, _) = asked(&cluster, || plugin.run("status shop").ok());
    assert!(
        page.contains("\nwhy:  the operator is switched off: its Deployment is scaled to 0\n"),
        "{page}"
    );
}

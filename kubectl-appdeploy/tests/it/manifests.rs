//! What is built into the plugin is what lies in `config/`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::plugin::Plugin;

/// Reads documents as kubectl does, by kind and name.
fn objects(cluster: &ControlPlane, yaml: &str) -> BTreeMap<String, Value> {
    let admin = cluster.kubectl_as(&cluster.kubeconfig());
    let read = admin.read(yaml).unwrap();
    let documents = serde_json::Deserializer::from_str(&read)
        .into_iter::<Value>()
        .map(Result::unwrap);
    let items = documents.flat_map(|document| match document.get("items") {
        Some(items) => items.as_array().unwrap().clone(),
        None => vec![document],
    });
    items
        .map(|object| (format!("{} {}", object["kind"], object["metadata"]["name"]), object))
        .collect()
}

#[test]
fn dry_run_prints_what_kustomize_builds() {
    let cluster = ControlPlane::pooled().unwrap();
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/default");
    let kustomize = cluster.kubectl(&["kustomize", config]).unwrap();
    // Without a cluster: the ports of an API server would be added.
    let nowhere = Plugin::of(Path::new("/nonexistent/config"));
    let printed = nowhere.run("install --dry-run=client -o yaml");
    assert!(
        printed
            .err
            .starts_with("Warning: the ports of the API server are unknown"),
        "{}",
        printed.err
    );
    let printed = printed.ok();
    let (printed, built) = (objects(&cluster, &printed), objects(&cluster, &kustomize));
    assert_eq!(printed.keys().collect::<Vec<_>>(), built.keys().collect::<Vec<_>>());
    for (name, object) in &built {
        assert_eq!(&printed[name], object, "{name}");
    }
    assert_eq!(built.len(), 26);
}

#[test]
fn network_policy_allows_the_port_of_the_api_server_and_of_a_queue_service() {
    let cluster = ControlPlane::pooled().unwrap();
    let plugin = Plugin::admin(&cluster);
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "endpoints": [{"addresses": ["192.0.2.1"]}], "ports": [{"name": "https", "port": 16443, "protocol": "TCP"}]});
    cluster.apply(&slice.to_string()).unwrap();
    for (mode, port) in [
        ("client", "16443"),
        ("server", "16443"),
        ("client --queue-port=9324", "9324"),
    ] {
        let printed = plugin.run(&format!("install --dry-run={mode} -o yaml"));
        let policies = printed
            .out
            .split("---\n")
            .filter(|text| text.contains("kind: NetworkPolicy"));
        assert!(
            policies.clone().any(|text| text.contains(&format!("port: {port}\n"))),
            "{mode}: {:?} {}",
            policies.collect::<Vec<_>>(),
            printed.err
        );
        assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{mode}");
    }
}

#[test]
fn samples_are_accepted() {
    let (cluster, _) = Plugin::installed();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/samples");
    cluster
        .kubectl(&[
            "apply",
            "--server-side",
            "--dry-run=server",
            "--validate=strict",
            "-k",
            sample,
        ])
        .unwrap();
}

#[test]
fn with_cert_manager_the_operator_mounts_its_certificate_and_has_no_rights_to_it() {
    let cluster = ControlPlane::pooled().unwrap();
    let built = |folder: &str| {
        let folder = format!("{}/../config/{folder}", env!("CARGO_MANIFEST_DIR"));
        cluster.kubectl(&["kustomize", &folder]).unwrap()
    };
    let own = objects(&cluster, &built("default"));
    // Its kinds are cert-manager's, which is not installed.
    let given = built("with-certmanager");
    let certificate = "kind: Certificate\n";
    assert!(
        given.contains(certificate) && given.contains("kind: Issuer\n"),
        "{given}"
    );
    let ours: Vec<&str> = given
        .split("---\n")
        .filter(|text| !text.contains("apiVersion: cert-manager.io/v1"))
        .collect();
    let given = objects(&cluster, &ours.join("---\n"));
    let gone: Vec<&String> = own.keys().filter(|name| !given.contains_key(*name)).collect();
    assert_eq!(
        gone,
        [
            "\"ClusterRole\" \"appdeploy-webhook\"",
            "\"ClusterRoleBinding\" \"appdeploy-webhook\"",
            "\"Role\" \"appdeploy-webhook\"",
            "\"RoleBinding\" \"appdeploy-webhook\"",
        ]
    );
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let notes = &given[&format!("\"{kind}\" \"appdeploy\"")]["metadata"]["annotations"];
        assert_eq!(
            notes["cert-manager.io/inject-ca-from"],
            "appdeploy-system/appdeploy-webhook"
        );
    }
    let pod = &given["\"Deployment\" \"appdeploy-operator\""]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let env = container["env"].as_array().unwrap();
    let folder = env
        .iter()
        .find(|var| var["name"] == "APPDEPLOY_WEBHOOK_CERT_DIR")
        .unwrap();
    assert_eq!(container["volumeMounts"][0]["mountPath"], folder["value"]);
    assert_eq!(
        pod["volumes"][0]["secret"]["secretName"],
        "appdeploy-webhook-certificate"
    );
}

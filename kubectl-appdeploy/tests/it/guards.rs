//! What guards the operator's pod: its own security, the network's, and that of a drain.

use serde_json::{Value, json};
use testcluster::{ControlPlane, Kubectl, PooledControlPlane};

use crate::plugin::Plugin;

const OWN: [&str; 2] = ["-n", "appdeploy-system"];

fn installed() -> (PooledControlPlane, Kubectl) {
    let cluster = ControlPlane::pooled().unwrap();
    Plugin::admin(&cluster).run("install --wait=false").ok();
    let admin = cluster.kubectl_as(&cluster.kubeconfig());
    (cluster, admin)
}

fn get(admin: &Kubectl, object: &str) -> Value {
    let all: Vec<&str> = OWN.into_iter().chain(["get", object, "-o", "json"]).collect();
    serde_json::from_str(&admin.run(&all).unwrap()).unwrap()
}

#[test]
fn operator_pod_meets_the_restricted_standard() {
    let (_cluster, admin) = installed();
    let template = get(&admin, "deployment/appdeploy-operator")["spec"]["template"].clone();
    let pod = |spec: &Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"}, "spec": spec});
    let create: Vec<&str> = OWN
        .into_iter()
        .chain(["create", "--dry-run=server", "-f", "-"])
        .collect();
    let mut spec = template["spec"].clone();
    admin.run_with_input(&create, &pod(&spec).to_string()).unwrap();
    // It is the namespace that enforces it.
    spec["containers"][0]["securityContext"]["capabilities"] = json!({});
    let refused = admin.run_with_input(&create, &pod(&spec).to_string()).unwrap_err();
    assert!(
        refused.to_string().contains("violates PodSecurity \"restricted"),
        "{refused}"
    );

    let container = &template["spec"]["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert!(template["spec"].get("hostNetwork").is_none() && template["spec"].get("volumes").is_none());
    for (kind, resource) in [("requests", "cpu"), ("requests", "memory"), ("limits", "memory")] {
        assert!(container["resources"][kind][resource].is_string(), "{container}");
    }
}

#[test]
fn network_policies_and_drains_allow_the_operator_to_run() {
    let (_cluster, admin) = installed();
    let deployment = get(&admin, "deployment/appdeploy-operator");
    let (selector, template) = (&deployment["spec"]["selector"], &deployment["spec"]["template"]);
    let nothing = get(&admin, "networkpolicy/default-deny")["spec"].clone();
    assert_eq!(
        nothing,
        json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
    );
    let policy = get(&admin, "networkpolicy/appdeploy-operator");
    assert_eq!(&policy["spec"]["podSelector"], selector);
    let tcp = |port: &Value| json!({"port": port, "protocol": "TCP"});
    let ports = template["spec"]["containers"][0]["ports"].as_array().unwrap();
    let ports: Vec<Value> = ports.iter().map(|port| tcp(&port["containerPort"])).collect();
    assert_eq!(ports.len(), 2, "probes and webhooks");
    assert_eq!(policy["spec"]["ingress"], json!([{"ports": ports}]));
    let names = json!([{"port": 53, "protocol": "UDP"}, tcp(&json!(53))]);
    let api = json!([tcp(&json!(443)), tcp(&json!(6443))]);
    assert_eq!(policy["spec"]["egress"], json!([{"ports": names}, {"ports": api}]));
    let budget = get(&admin, "poddisruptionbudget/appdeploy-operator");
    assert_eq!(
        (&budget["spec"]["selector"], &budget["spec"]["maxUnavailable"]),
        (selector, &json!(1))
    );
}

#[test]
fn api_server_on_another_port_is_reachable() {
    let (cluster, admin) = installed();
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "endpoints": [{"addresses": ["192.0.2.1"]}], "ports": [{"name": "https", "port": 16443}]});
    cluster.apply(&slice.to_string()).unwrap();
    let again = Plugin::admin(&cluster).run("install --wait=false").ok();
    assert!(
        again.contains("networkpolicy.networking.k8s.io/appdeploy-operator configured"),
        "{again}"
    );
    let ports = &get(&admin, "networkpolicy/appdeploy-operator")["spec"]["egress"][1]["ports"];
    let ports: Vec<_> = ports
        .as_array()
        .unwrap()
        .iter()
        .map(|port| port["port"].as_i64())
        .collect();
    assert_eq!(ports, [Some(443), Some(6443), Some(16443)]);
}

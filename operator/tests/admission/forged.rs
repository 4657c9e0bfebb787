//! Reviews that no API server has sent. Any client that reaches the port can post one.

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::admission::asking;
use crate::webhook::client::Caller;

/// Posts a review of a new app that refers to a Secret, and returns the answer's status.
fn review(namespace: &str) -> Value {
    let asking = asking();
    let control_plane = &asking.cluster.control_plane;
    let of_first = |field: &str| {
        let template = format!("go-template={{{{with index .webhooks 0}}}}{{{{.clientConfig.{field}}}}}{{{{end}}}}");
        let command = ["get", "validatingwebhookconfiguration", "appdeploy", "-o", &template];
        control_plane.kubectl(&command).unwrap()
    };
    let address = format!("127.0.0.1:{}", of_first("service.port")).parse().unwrap();
    let caller = Caller::new(address, "appdeploy-system", &of_first("caBundle | base64decode"));
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u1", "operation": "CREATE", "namespace": namespace, "name": "shop", "userInfo": {"username": "mallory"},
        "kind": {"group": "appdeploy.dev", "version": "v1alpha1", "kind": "AppDeploy"},
        "resource": {"group": "appdeploy.dev", "version": "v1alpha1", "resource": "appdeploys"},
        "object": {"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "shop", "namespace": namespace}, "spec": {"image": "nginx", "envFrom": [{"secretRef": {"name": "keys"}}]}}}});
    let answer = Runtime::new()
        .unwrap()
        .block_on(caller.post("/validate", &review.to_string()));
    let (status, body) = answer.unwrap();
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["response"]["status"].take()
}

/// The namespace is a part of the path of access reviews.
#[test]
fn invalid_namespace_is_refused_before_rights_are_reviewed() {
    let denied = review("default");
    assert_eq!(denied["code"], 403, "{denied}");
    for namespace in ["default/localsubjectaccessreviews?dryRun=All#", "..", "Default"] {
        let refused = review(namespace);
        assert_eq!(refused["code"], 422, "{namespace}: {refused}");
        assert_eq!(refused["message"], "the namespace of the request is invalid");
    }
}

//! D6: another webhook changes an object after the operator did, so the API server calls the operator again. The second answer must
//! agree with the first.

use std::sync::Arc;

use serde_json::json;
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, Webhooks, eventually, text, uid, web};

/// Writes a host of its own, once the object has the label that the operator gives it. Policies come
/// before webhooks: the first time it finds nothing to do, and it is asked again when the operator has changed something.
const POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: late}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [appdeploy.dev], apiVersions: [v1alpha1], operations: [CREATE], resources: [appdeploys]}
  reinvocationPolicy: IfNeeded
  failurePolicy: Fail
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >-
        has(object.metadata.labels) && 'app.kubernetes.io/name' in object.metadata.labels && !has(object.metadata.annotations)
        ? Object{metadata: Object.metadata{annotations: {"late": "yes"}}, spec: Object.spec{host: "late.example.com"}}
        : Object{}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: late}
spec: {policyName: late}
"#;

#[test]
fn second_webhook_call_changes_nothing() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let webhooks = Webhooks::install(&cluster);
    let _operator = webhooks.operator(&cluster, &[]);
    let space = cluster.namespace("twice");
    cluster.control_plane.apply(POLICY).unwrap();
    let mut last = json!(null);
    let made = std::sync::Mutex::new(&mut last);
    eventually("the policy is in force", || {
        let app = space.app("shop", web());
        let is_late = text(&app, "/metadata/annotations/late") == "yes";
        if !is_late {
            space.delete(APP, "shop");
            space.until_gone(APP, "shop");
        }
        **made.lock().unwrap() = app;
        is_late
    });
    // What the policy wrote came after the first answer, and stays.
    assert_eq!(text(&last, "/spec/host"), "late.example.com");
    assert_eq!(text(&last, "/metadata/labels/app.kubernetes.io~1name"), "shop");
    assert_eq!(uid(&space.get(APP, "shop")), uid(&last));
}

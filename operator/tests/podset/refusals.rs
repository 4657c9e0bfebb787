//! The API server rejects writes: this is reported, and no more requests are sent than are needed to notice its end.

use std::time::Duration;

use kube::api::Patch;
use serde_json::{Value, json};

use crate::harness::{Namespace, POD, PODSET, QUIET, QUOTA, condition, count_of, eventually, text};
use crate::podset::{pod_creates, pod_writes, without_nodes};

/// Rows 3 and 14.
#[test]
fn quota_costs_one_create_per_attempt_and_is_reported_until_its_end() {
    let (_operator, space) = without_nodes("quota");
    allow_no_pods(&space);
    let mark = space.mark();
    space.podset("web", json!({"replicas": 100}));
    let set = space.until_podset("web", "its status reports it", |set| {
        condition(set, "ReplicaFailure").is_some()
    });
    let failure = condition(&set, "ReplicaFailure").unwrap();
    assert_eq!(text(failure, "/reason"), "FailedCreate");
    let words = "exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0";
    assert!(text(failure, "/message").contains(words), "{failure}");
    assert_eq!(text(&set, "/status/cause/reason"), "QuotaExceeded");
    assert_eq!(
        text(&set, "/status/cause/message"),
        "ResourceQuota small has no room for another pod (pods: 0 of 0 used, 1 needed)"
    );

    let audit = space.cluster.control_plane.audit();
    let tries = |asked: &testcluster::audit::Requests| pod_creates(asked.clone()).in_namespace(&space.name);
    let asked = audit
        .wait_for(mark, crate::harness::PATIENCE, |asked| tries(asked).count() >= 5)
        .unwrap();
    let times: Vec<_> = tries(&asked).iter().map(|request| request.time).collect();
    // One of the first may be caused by an event of the set, and does not prolong the backoff.
    let wait = Duration::try_from(times[4].duration_since(times[3])).unwrap();
    assert!(
        wait >= Duration::from_millis(600),
        "{times:?}: one at a time, with a backoff"
    );
    let reasons: Vec<String> = space.events_about_podset("web").into_iter().map(|(r, _)| r).collect();
    assert_eq!(reasons, ["QuotaExceeded"], "reported once, for all attempts");

    space.delete(QUOTA, "small");
    let set = space.until_podset("web", "all are there", |set| count_of(set, "replicas") == 100);
    assert_eq!(condition(&set, "ReplicaFailure"), None);
    let made = pod_creates(space.asked_since(mark));
    assert_eq!(made.clone().that(|request| request.code == 201).count(), 100);
    let failed = made.failed().count();
    assert!(failed <= 8, "{failed} tries");
}

/// Row 14. The create fails at each attempt, and must not keep the correction from the pods that exist.
#[test]
fn corrected_image_is_rolled_out_while_a_quota_rejects_new_pods() {
    let (_operator, space) = without_nodes("quota-image");
    allow_no_pods(&space);
    space.podset("web", json!({"replicas": 5, "template": {"image": "app:typo"}}));
    space.until_podset("web", "the quota refuses", |set| {
        condition(set, "ReplicaFailure").is_some()
    });
    allow_pods(&space, "3");
    space.until_podset("web", "the quota allows three", |set| {
        count_of(set, "replicas") == 3 && condition(set, "ReplicaFailure").is_some()
    });
    let before = space.pod_uids();
    space.set_podset("web", json!({"template": {"image": "app:1"}}));
    let set = space.until_podset("web", "the pods are updated", |set| {
        count_of(set, "updatedReplicas") == 3
    });
    assert_eq!(text(&set, "/status/cause/reason"), "QuotaExceeded");
    for pod in space.pods().values() {
        assert_eq!(text(pod, "/spec/containers/0/image"), "app:1");
    }
    assert_eq!(space.pod_uids(), before, "they are updated in place");
}

/// Row 14.
#[test]
fn policy_against_deletes_is_reported_until_its_end() {
    let (_operator, space) = without_nodes("policy");
    space.podset_of("web", json!({"replicas": 2}), &["web-0", "web-1"]);
    let policy = Policy::against_deletes_of_pods(&space);
    space.set_podset("web", json!({"replicas": 1}));
    let set = space.until_podset("web", "its status reports it", |set| {
        condition(set, "ReplicaFailure").is_some()
    });
    let failure = condition(&set, "ReplicaFailure").unwrap();
    assert_eq!(text(failure, "/reason"), "FailedDelete");
    assert!(text(failure, "/message").contains("pods are kept here"), "{failure}");
    assert_eq!(crate::harness::pods_of(&set), ["web-0", "web-1"]);
    drop(policy);
    let set = space.until_pods("web", &["web-0"]);
    assert_eq!(condition(&set, "ReplicaFailure"), None);
}

/// Row 14. The reported action is the attempted one.
#[test]
fn rejected_delete_is_not_reported_as_a_create() {
    let (_operator, space) = without_nodes("policy-words");
    space.podset_of("web", json!({"replicas": 2}), &["web-0", "web-1"]);
    let _policy = Policy::against_deletes_of_pods(&space);
    space.set_podset("web", json!({"replicas": 1}));
    let set = space.until_podset("web", "its status reports it", |set| {
        condition(set, "ReplicaFailure").is_some()
    });
    let cause = text(&set, "/status/cause/message");
    assert!(cause.starts_with("pods can't be deleted: "), "{cause}");
}

/// Row 4.
#[test]
fn terminating_namespace_gets_no_requests_in_a_loop() {
    let (_operator, space) = without_nodes("terminating");
    space.podset_of("web", json!({"replicas": 3}), &["web-0", "web-1", "web-2"]);
    // It stays: there is no garbage collector.
    let name = &space.name;
    space.kubectl(&["delete", "namespace", name, "--wait=false"]);
    let mark = space.mark();
    for pod in ["web-0", "web-1", "web-2"] {
        space.delete(POD, pod);
    }
    space.until(PODSET, "web", "its status reports it", |set| {
        text(set, "/status/cause/reason") == "NamespaceTerminating"
    });
    std::thread::sleep(QUIET);
    let asked = space.asked_since(mark);
    assert_eq!(asked.clone().on("events").count(), 0, "there is no Event");
    let tries = pod_writes(asked).count();
    assert!(
        tries <= 10,
        "{tries} tries: one for each pod that went, and some with a backoff"
    );
}

/// Raises the quota of [`allow_no_pods`].
pub fn allow_pods(space: &Namespace, count: &str) {
    let hard = json!({"pods": count});
    space.patch(QUOTA, "small", Patch::Merge(json!({"spec": {"hard": hard}})));
    space.patch_status(QUOTA, "small", json!({"hard": hard}));
}

/// Refuses every pod of a namespace, as a quota does whose controller has counted.
pub fn allow_no_pods(space: &Namespace) {
    let hard = json!({"pods": "0"});
    space.create(QUOTA, json!({"metadata": {"name": "small"}, "spec": {"hard": hard}}));
    space.patch_status(QUOTA, "small", json!({"hard": hard, "used": hard}));
    eventually("the quota is known", || {
        let arguments = ["-n", &space.name, "run", "probe", "--image=probe", "--dry-run=server"];
        let refused = space.cluster.control_plane.kubectl(&arguments);
        refused.is_err_and(|error| error.to_string().contains("exceeded quota"))
    });
}

/// A policy, gone when this is dropped.
struct Policy<'a>(&'a Namespace);

impl<'a> Policy<'a> {
    fn against_deletes_of_pods(space: &'a Namespace) -> Self {
        let name = &space.name;
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]});
        let policy = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        let selector = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}});
        let rules = policy(
            "ValidatingAdmissionPolicy",
            json!({"matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "false", "message": "pods are kept here"}]}),
        );
        let binding = policy(
            "ValidatingAdmissionPolicyBinding",
            json!({"policyName": name, "validationActions": ["Deny"], "matchResources": selector}),
        );
        for object in [rules, binding] {
            space.cluster.control_plane.apply(&object.to_string()).unwrap();
        }
        eventually("the policy is known", || {
            let arguments = ["-n", name, "delete", "pod", "web-0", "--dry-run=server"];
            space.cluster.control_plane.kubectl(&arguments).is_err()
        });
        Self(space)
    }
}

impl Drop for Policy<'_> {
    fn drop(&mut self) {
        let binding = format!("validatingadmissionpolicybinding/{}", self.0.name);
        self.0.kubectl(&["delete", &binding]);
    }
}

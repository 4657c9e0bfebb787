//! The audit log counts the requests of a program.

use std::collections::BTreeMap;

use testcluster::ControlPlane;
use testcluster::wait::TIMEOUT;

#[test]
fn requests_are_counted_by_verb_and_resource() {
    let control_plane = ControlPlane::start().unwrap();
    let audit = control_plane.audit();
    control_plane.kubectl(&["create", "configmap", "before"]).unwrap();
    let mark = audit.mark().unwrap();
    control_plane.kubectl(&["create", "configmap", "one"]).unwrap();
    control_plane.kubectl(&["create", "configmap", "two"]).unwrap();
    control_plane
        .kubectl(&["patch", "configmap", "one", "--patch={\"data\":{\"a\":\"b\"}}"])
        .unwrap();
    control_plane.kubectl(&["get", "configmap", "absent"]).unwrap_err();
    control_plane.kubectl(&["get", "configmaps"]).unwrap();

    let requests = audit
        .since(mark)
        .unwrap()
        .by_user_agent_prefix("kubectl/")
        .on("configmaps");
    assert_eq!(
        requests.clone().writes().tally(),
        tally(&[("create configmaps", 2), ("patch configmaps", 1)])
    );
    // `kubectl patch` reads the object first.
    assert_eq!(
        requests.clone().reads().tally(),
        tally(&[("get configmaps", 2), ("list configmaps", 1)])
    );
    let failed = requests.failed();
    let failed: Vec<_> = failed
        .iter()
        .map(|request| (request.code, request.name.as_str()))
        .collect();
    assert_eq!(failed, [(404, "absent")]);
}

#[test]
fn requests_are_filtered_by_user() {
    let control_plane = ControlPlane::start().unwrap();
    let audit = control_plane.audit();
    let alice = control_plane.kubectl_as(&control_plane.kubeconfig_for("alice", &[]).unwrap());
    let mark = audit.mark().unwrap();
    alice
        .run(&["get", "--raw", "/api/v1/namespaces/default/pods"])
        .unwrap_err();
    control_plane
        .kubectl(&["get", "--raw", "/api/v1/namespaces/default/pods"])
        .unwrap();

    let requests = audit.since(mark).unwrap().on("pods").in_namespace("default");
    assert_eq!(requests.count(), 2);
    let of_alice = requests.by_user("alice");
    assert_eq!(of_alice.iter().map(|request| request.code).collect::<Vec<_>>(), [403]);
    assert_eq!(of_alice.by_user_agent_prefix("appdeploy-operator/").count(), 0);
}

#[test]
fn watch_with_two_lines_in_the_log_counts_once() {
    let control_plane = ControlPlane::start().unwrap();
    let audit = control_plane.audit();
    let start = audit.mark().unwrap();
    let watch = "/api/v1/namespaces/default/secrets?watch=true&timeoutSeconds=2";
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| control_plane.kubectl(&["get", "--raw", watch]));
        let open = audit.wait_for(start, TIMEOUT, |requests| {
            requests.clone().watches().on("secrets").count() == 1
        });
        let open = open.unwrap().watches().on("secrets");
        assert_eq!(open.iter().next().unwrap().code, 0);
        let later = audit.mark().unwrap();
        ended.join().unwrap().unwrap();
        assert_eq!(
            audit.since(later).unwrap().on("secrets").count(),
            0,
            "it started before"
        );
    });
    let watches = audit.since(start).unwrap().watches().on("secrets");
    assert_eq!(watches.tally(), tally(&[("watch secrets", 1)]));
    assert_eq!(watches.iter().next().unwrap().code, 200);
}

#[test]
fn mark_fails_while_the_api_server_is_stopped() {
    let control_plane = ControlPlane::start().unwrap();
    control_plane.stop_apiserver();
    assert!(
        control_plane
            .audit()
            .mark()
            .unwrap_err()
            .to_string()
            .contains("must be up")
    );
}

fn tally(counts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    counts
        .iter()
        .map(|(what, count)| ((*what).to_owned(), *count))
        .collect()
}

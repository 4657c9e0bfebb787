//! What a set does to many pods at a time leaves the other sets their share of the requests.

use std::time::Duration;

use fault_proxy::Proxy;
use fault_proxy::{Action, Requests, Rule, Verb};
use serde_json::json;

use crate::harness::{Namespace, OPERATOR, Operator, PATIENCE, POD, QUIET, pods_of, text};
use crate::podset::{bare, stray};

fn behind_proxy(name: &str) -> (Proxy, Operator, crate::podset::Space) {
    let space = bare(name);
    let proxy = Proxy::before(&space.cluster.control_plane, OPERATOR, &[]).unwrap();
    let operator = space
        .cluster
        .spawn_operator_behind(&proxy, &["--watch-namespace", &space.name]);
    (proxy, operator, space)
}

fn has_pods(space: &Namespace, set: &str, count: usize) {
    space.until_podset(set, "all pods are there", |set| pods_of(set).len() == count);
}

/// Waits until all pods of the large set have an image. Otherwise its updates hang in the next case, too.
fn is_updated(space: &Namespace, image: &str) {
    for slot in 0..100 {
        space.until(POD, &format!("large-{slot}"), "the image is changed", |pod| {
            text(pod, "/spec/containers/0/image") == image
        });
    }
}

/// What a person does, the verb of the requests that follow, and the wait for the last of them.
type Change<'a> = (&'a str, Verb, &'a dyn Fn(), &'a dyn Fn());

/// An admission webhook that does not answer, for one verb after the other.
#[test]
fn hanging_requests_are_limited_and_do_not_delay_other_sets() {
    let (proxy, _operator, space) = behind_proxy("hanging");
    let label = json!({"appdeploy.dev/podset": "strays"});
    for pod in 0..40 {
        space.create(POD, stray(&format!("stray-{pod}"), label.clone()));
    }
    space.podset("large", json!({"replicas": 100, "template": {"image": "app:1"}}));
    has_pods(&space, "large", 100);
    let hang = |verb| proxy.add(Rule::new(Requests::with(&[verb]).on("pods"), Action::Hang));
    let changes: [Change<'_>; 3] = [
        (
            "update",
            Verb::Patch,
            &|| space.set_podset("large", json!({"template": {"image": "app:2"}})),
            &|| is_updated(&space, "app:2"),
        ),
        (
            "adopt",
            Verb::Patch,
            &|| drop(space.podset("strays", json!({"replicas": 40}))),
            &|| has_pods(&space, "strays", 40),
        ),
        (
            "delete",
            Verb::Delete,
            &|| space.set_podset("large", json!({"replicas": 0})),
            &|| has_pods(&space, "large", 0),
        ),
    ];
    for (what, verb, change, wait) in changes {
        let rule = hang(verb);
        change();
        proxy.wait_for_hits(PATIENCE, rule, 1).unwrap();
        std::thread::sleep(QUIET);
        let small = format!("small-{what}");
        space.podset(&small, json!({}));
        space.until_there(POD, &format!("{small}-0"));
        let hanging = proxy.hits(rule);
        assert!(hanging <= 2, "{what}: {hanging} requests hang");
        proxy.remove(rule);
        wait();
    }
}

/// A watch by label does not tell a pod that was deleted by force from one that lost its label, so each is read.
#[test]
fn pods_that_vanished_are_read_at_the_same_time() {
    let (proxy, _operator, space) = behind_proxy("vanished");
    space.podset("web", json!({"replicas": 12}));
    has_pods(&space, "web", 12);
    let delay = Action::Delay(Duration::from_secs(2));
    let rule = proxy.add(Rule::new(Requests::with(&[Verb::Get]).on("pods"), delay));
    for pod in 0..12 {
        space.label_pod(&format!("web-{pod}"), crd::label::PODSET, json!(null));
    }
    // The first is read alone, the others after it. One after the other, they would take twice as long as this.
    proxy.wait_for_hits(Duration::from_secs(12), rule, 12).unwrap();
    proxy.remove(rule);
    has_pods(&space, "web", 12);
}

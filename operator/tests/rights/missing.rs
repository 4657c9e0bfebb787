//! I1: an operator that lacks a right reports it, continues with the rest, and needs no restart when it is granted.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{
    APP, Cluster, DEPLOYMENT, INGRESS, LEASE, Namespace, POD, PODSET, QUEUE, SERVICE, Shared, eventually,
};
use crate::rights::accounts::{
    account_is_changed, account_is_deleted, account_is_recreated, change_the_account, drop_the_account, has_account,
    make_account, take_the_name_of_the_account,
};
use crate::rights::deeds::{
    answer_is_reported, app_is_reported, app_says, becomes, change, children_are_recreated, has_children, has_pod,
    knows_the_class, leave_a_stray_pod, lose_a_child, make_app, make_app_of_a_class, make_set, pod_is_recreated,
    scale_down, set_is_reported, set_says, stray_is_adopted, take_the_name, take_the_pods_name, warn, warn_again,
    warn_again_and_again,
};
use crate::rights::lacking::{Lacking, Right, granted, rights};
use crate::rights::monitors::{
    change_the_monitor, drop_the_monitor, has_monitor, make_monitor, monitor_follows_its_api, monitor_is_changed,
    monitor_is_deleted, monitor_is_recreated, take_the_name_of_the_monitor,
};
use crate::rights::queues::{
    change_the_output, lose_the_queue, make_queue, output_is_recreated, output_is_restored, queue_is_ready, queue_says,
    take_the_name_of_the_output,
};

/// What happens without a right.
struct Case {
    right: Right,
    /// The action for which the operator needs the right.
    deed: fn(&Namespace),
    /// Where the missing right is reported.
    reported: Reported,
    /// What is waited for when the right is there.
    healed: fn(&Namespace),
}

#[derive(Clone, Copy, PartialEq)]
enum Reported {
    App,
    PodSet,
    Queue,
    Log,
}

use Reported::{App, Log, PodSet, Queue};

const OURS: &str = crd::GROUP;
const NETWORK: &str = "networking.k8s.io";
const ELECTION: [Right; 3] = [lease("get"), lease("create"), lease("update")];

/// Without it, a standby takes over at its next read (`lease/takeover.rs`).
const LOOKOUT: Right = lease("watch");

/// What is only asked for at an admission: `admission/people.rs` takes it away.
const ADMISSION: Right = Right {
    verb: "create",
    group: "authorization.k8s.io",
    resource: "localsubjectaccessreviews",
};

const fn lease(verb: &'static str) -> Right {
    let (group, resource) = ("coordination.k8s.io", "leases");
    Right { verb, group, resource }
}

fn case(
    right: (&'static str, &'static str, &'static str),
    reported: Reported,
    deed: fn(&Namespace),
    healed: fn(&Namespace),
) -> Case {
    let (verb, group, resource) = right;
    let right = Right { verb, group, resource };
    Case {
        right,
        deed,
        reported,
        healed,
    }
}

/// What is asked for in each namespace.
#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    let mut cases = vec![
        case(("list", OURS, "appdeploys"), Log, make_app, has_children),
        case(("watch", OURS, "appdeploys"), Log, make_app, has_children),
        case(("list", OURS, "podsets"), Log, make_set, has_pod),
        case(("watch", OURS, "podsets"), Log, make_set, has_pod),
        case(("get", OURS, "appdeploys"), App, lose_a_child, has_children),
        case(("get", OURS, "podsets"), PodSet, leave_a_stray_pod, stray_is_adopted),
        case(("patch", OURS, "appdeploys/status"), Log, make_app, app_is_reported),
        case(("patch", OURS, "podsets/status"), Log, make_set, set_is_reported),
        case(("update", OURS, "appdeploys/finalizers"), App, make_app, has_children),
        case(("update", OURS, "podsets/finalizers"), PodSet, make_set, has_pod),
        case(("list", "", "pods"), Log, make_set, has_pod),
        case(("watch", "", "pods"), Log, make_set, pod_is_recreated),
        case(("create", "", "pods"), PodSet, make_set, has_pod),
        case(("get", "", "pods"), PodSet, take_the_pods_name, |space| {
            set_says(space, "NameConflict");
        }),
        case(("patch", "", "pods"), PodSet, leave_a_stray_pod, stray_is_adopted),
        case(("delete", "", "pods"), PodSet, scale_down, |space| {
            space.until_gone(POD, "set-1");
        }),
        case(
            ("create", "", "events"),
            Log,
            |space| warn(space, "first"),
            |space| {
                warn(space, "second");
                eventually("an Event is there", || !space.events_about("second").is_empty());
            },
        ),
        case(("patch", "", "events"), Log, warn_again_and_again, |space| {
            eventually("the Event is counted", || {
                warn_again(space, "first");
                space
                    .app_events("first")
                    .iter()
                    .any(|event| event["count"].as_i64() > Some(1))
            });
        }),
        case(
            ("list", "", "events"),
            Log,
            |space| space.unhealthy_app("first"),
            answer_is_reported,
        ),
        case(
            ("patch", "apps", "deployments"),
            App,
            |space| change(space, json!({"image": "nginx:2"})),
            |space| {
                becomes(space, DEPLOYMENT, "/spec/template/spec/containers/0/image", "nginx:2");
            },
        ),
        case(
            ("patch", "", "services"),
            App,
            |space| change(space, json!({"port": 81})),
            |space| {
                becomes(space, SERVICE, "/spec/ports/0/port", 81);
            },
        ),
        case(
            ("patch", NETWORK, "ingresses"),
            App,
            |space| change(space, json!({"host": "a.b"})),
            |space| {
                becomes(space, INGRESS, "/spec/rules/0/host", "a.b");
            },
        ),
        case(
            ("delete", "", "services"),
            App,
            |space| change(space, json!({"port": null})),
            |space| {
                space.until_gone(SERVICE, "shop");
            },
        ),
        case(
            ("delete", NETWORK, "ingresses"),
            App,
            |space| change(space, json!({"expose": "Cluster"})),
            |space| {
                space.until_gone(INGRESS, "shop");
            },
        ),
    ];
    for (group, resource, taken) in [
        (
            "apps",
            "deployments",
            (|space| take_the_name(space, DEPLOYMENT)) as fn(&Namespace),
        ),
        ("", "services", |space| take_the_name(space, SERVICE)),
        (NETWORK, "ingresses", |space| take_the_name(space, INGRESS)),
    ] {
        cases.extend([
            case(("list", group, resource), App, make_app, has_children),
            case(("watch", group, resource), Log, make_app, children_are_recreated),
            case(("create", group, resource), App, make_app, has_children),
            case(("get", group, resource), App, taken, |space| {
                app_says(space, "NameConflict");
            }),
        ]);
    }
    cases
}

/// What is asked for ServiceAccounts.
fn cases_of_accounts() -> Vec<Case> {
    let of = |verb| (verb, "", "serviceaccounts");
    vec![
        case(of("list"), App, make_account, has_account),
        case(of("watch"), Log, make_account, account_is_recreated),
        case(of("create"), App, make_account, has_account),
        case(of("get"), App, take_the_name_of_the_account, |space| {
            app_says(space, "NameConflict");
        }),
        case(of("patch"), App, change_the_account, account_is_changed),
        case(of("delete"), App, drop_the_account, account_is_deleted),
    ]
}

/// What is asked for PodMonitors.
fn cases_of_monitors() -> Vec<Case> {
    let of = |verb| (verb, "monitoring.coreos.com", "podmonitors");
    vec![
        case(of("list"), App, make_monitor, has_monitor),
        case(of("watch"), Log, make_monitor, monitor_is_recreated),
        case(of("create"), App, make_monitor, has_monitor),
        case(of("get"), App, take_the_name_of_the_monitor, |space| {
            app_says(space, "NameConflict");
        }),
        case(of("patch"), App, change_the_monitor, monitor_is_changed),
        case(of("delete"), App, drop_the_monitor, monitor_is_deleted),
    ]
}

/// What is asked for AppQueues.
fn cases_of_queues() -> Vec<Case> {
    vec![
        case(("list", OURS, "appqueues"), Log, make_queue, queue_is_ready),
        case(("watch", OURS, "appqueues"), Log, make_queue, queue_is_ready),
        case(("get", OURS, "appqueues"), Queue, lose_the_queue, queue_is_ready),
        case(("patch", OURS, "appqueues"), Queue, make_queue, queue_is_ready),
        case(("patch", OURS, "appqueues/status"), Log, make_queue, queue_is_ready),
        case(
            ("update", OURS, "appqueues/finalizers"),
            Queue,
            make_queue,
            queue_is_ready,
        ),
        case(("list", "", "configmaps"), Log, make_queue, queue_is_ready),
        case(("watch", "", "configmaps"), Log, make_queue, output_is_recreated),
        case(("create", "", "configmaps"), Queue, make_queue, queue_is_ready),
        case(("get", "", "configmaps"), Queue, take_the_name_of_the_output, |space| {
            queue_says(space, "NameConflict");
        }),
        case(
            ("patch", "", "configmaps"),
            Queue,
            change_the_output,
            output_is_restored,
        ),
    ]
}

/// What is asked for in the whole cluster alone.
fn cases_of_the_cluster() -> Vec<Case> {
    let of_verb = |verb| {
        let classes = (verb, NETWORK, "ingressclasses");
        let definitions = (verb, "apiextensions.k8s.io", "customresourcedefinitions");
        [
            case(classes, Log, make_app_of_a_class, knows_the_class),
            case(definitions, Log, make_monitor, monitor_follows_its_api),
        ]
    };
    ["list", "watch"].into_iter().flat_map(of_verb).collect()
}

fn cluster() -> Arc<Cluster> {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED.get(|| {
        // On by default in OpenShift; an owner reference that blocks needs a right of its own.
        let blocks = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
        let cluster = Cluster::start(ControlPlane::builder().apiserver_flag(blocks));
        cluster.install_pod_monitors();
        cluster
    })
}

#[test]
fn each_right_has_a_test_case() {
    let of = |right: Right| (right.verb.to_owned(), right.group.to_owned(), right.resource.to_owned());
    let cases = cases()
        .into_iter()
        .chain(cases_of_queues())
        .chain(cases_of_accounts())
        .chain(cases_of_monitors())
        .chain(cases_of_the_cluster());
    let cases: BTreeSet<_> = cases
        .map(|case| case.right)
        .chain(ELECTION)
        .chain([LOOKOUT, ADMISSION])
        .map(of)
        .collect();
    let all: BTreeSet<_> = rights(&granted(&cluster())).into_iter().collect();
    assert_eq!(cases, all);
}

#[test]
fn missing_right_is_reported_until_it_is_granted() {
    miss_each(cases());
}

#[test]
fn missing_right_to_queues_is_reported_until_it_is_granted() {
    miss_each(cases_of_queues());
}

#[test]
fn missing_right_to_pod_monitors_is_reported_until_it_is_granted() {
    miss_each(cases_of_monitors());
}

#[test]
fn missing_right_to_service_accounts_is_reported_until_it_is_granted() {
    miss_each(cases_of_accounts());
}

fn miss_each(cases: Vec<Case>) {
    let cluster = cluster();
    let cases = Mutex::new(cases.into_iter());
    let next = || cases.lock().unwrap().next();
    // Most of the time is spent waiting until something is tried again.
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(case) = next() {
                    miss(&case, &Lacking::start(&cluster, case.right));
                }
            });
        }
    });
}

#[test]
fn missing_right_in_the_cluster_is_reported_until_it_is_granted() {
    for case in cases_of_the_cluster() {
        let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
        miss(&case, &Lacking::start_for_all(&cluster, case.right));
    }
}

/// One that can't be elected writes nothing, and is elected when it can.
#[test]
fn missing_right_to_the_lease_is_reported_until_it_is_granted() {
    let cluster = cluster();
    for right in ELECTION {
        let space = cluster.namespace(&right.slug());
        if right.verb == "update" {
            // One that no operator holds any more.
            space.create(LEASE, json!({"metadata": {"name": "appdeploy-operator"}, "spec": {}}));
        }
        let lacking = Lacking::start_for_election(space, right);
        make_app(&lacking.space);
        lacking.until_logged();
        assert!(lacking.space.get(DEPLOYMENT, "shop").is_null());
        lacking.grant_all();
        has_children(&lacking.space);
    }
}

fn miss(case: &Case, lacking: &Lacking) {
    let (space, right) = (&lacking.space, case.right);
    (case.deed)(space);
    let words = right.to_string();
    let says = |object: &Value| object["status"].to_string().replace('\\', "").contains(&words);
    let what = format!("it is reported: {words}");
    match case.reported {
        App => drop(space.until(APP, "shop", &what, says)),
        PodSet => drop(space.until(PODSET, "set", &what, says)),
        Queue => drop(space.until(QUEUE, "orders", &what, says)),
        Log => lacking.until_logged(),
    }
    // The other kind has nothing to do with it.
    if right.group == OURS && right.resource.starts_with("podsets") || right.resource == "pods" {
        space.settled_app("bystander", json!({"image": "busybox"}));
        space.until_there(DEPLOYMENT, "bystander");
    } else {
        space.podset_of("bystander", json!({"replicas": 1}), &["bystander-0"]);
    }
    lacking.grant_all();
    (case.healed)(space);
    assert!(lacking.operator.is_running());
    if right.resource.ends_with("/finalizers") {
        space.cluster.rights.missed(right.verb, right.group, right.resource);
    }
}

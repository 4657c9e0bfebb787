//! A follower whose watches lag behind becomes the leader: the former leader has acted on newer objects than the follower has
//! received.

use std::collections::BTreeMap;

use fault_proxy::{Action, Proxy, Requests, Rule, Verb};
use serde_json::{Value, json};

use super::{LONG, Pair, holder};
use crate::harness::{APP, DEPLOYMENT, INGRESS, Kind, Namespace, Operator, POD, PODSET, count_of, ready, text, web};
use crate::hosts::younger;

/// The name of the follower in the audit log.
const SECOND: &str = "second";

/// Two operators, of which the first leads. The second one is behind a proxy.
struct Takeover {
    pair: Pair,
    first: Operator,
    // Dropped in this order: the operator while the proxy runs.
    second: Operator,
    proxy: Proxy,
}

impl Takeover {
    fn new() -> Self {
        Self::of(|_| {})
    }

    /// `create` makes objects before the follower starts.
    fn of(create: impl FnOnce(&Namespace)) -> Self {
        let pair = Pair::new();
        let first = pair.operator_with("first", LONG);
        pair.until_lease("the first one leads", |lease| !holder(lease).is_empty());
        create(&pair.space);
        let control_plane = &pair.cluster.control_plane;
        let proxy = Proxy::before(control_plane, SECOND, &["system:masters"]).unwrap();
        let lease = format!("{LONG}s");
        let flags = ["--leader-elect", "--leader-elect-lease-duration", &lease];
        let second = Operator::spawn(control_plane.folder(), proxy.kubeconfig(), &flags);
        second.until_ready();
        Self {
            pair,
            first,
            second,
            proxy,
        }
    }

    /// Waits until the second operator has cached this number of objects of a kind, and lets its watch lag behind from now on.
    fn delay(&self, kind: Kind, resource: &str, count: usize) {
        let cached = format!("appdeploy_cached_objects{{resource=\"{resource}\"}} {count}\n");
        self.second
            .until("/metrics", &cached, |_, metrics| metrics.contains(&cached));
        let watches = Requests::with(&[Verb::Watch]).on(kind.plural());
        self.proxy.add(Rule::new(watches, Action::FreezeOpenWatches));
    }

    /// Ends the first operator, which releases the Lease, and waits until the second one has it.
    fn hand_over(&self) {
        let lease = self.pair.until_lease("the first one leads", |_| true);
        self.first.terminate();
        self.pair.until_lease("the second one leads", |now| {
            !holder(now).is_empty() && holder(now) != holder(&lease)
        });
    }

    /// Waits until the second operator has listed each of these kinds this many times.
    fn until_listed(&self, kinds: &[&str], times: usize) {
        let resources = kinds.iter().map(|kind| match *kind {
            "pods" => "podset-pods",
            "pods of apps" => "pods",
            kind => kind,
        });
        let counts =
            resources.map(|resource| format!("appdeploy_watch_lists_total{{resource=\"{resource}\"}} {times}\n"));
        let counts: Vec<String> = counts.collect();
        self.second.until("/metrics", "the kinds are listed", |_, metrics| {
            counts.iter().all(|count| metrics.contains(count))
        });
    }

    /// Returns how often the second operator has listed each kind, in one page.
    fn lists(&self) -> BTreeMap<String, usize> {
        let mut lists = BTreeMap::new();
        // The cluster does not serve PodMonitors, so that list is tried again and again.
        let records = self.proxy.records().into_iter();
        for record in records.filter(|record| record.request.resource != "podmonitors") {
            if record.request.verb == Verb::List {
                let is_of_apps = record.request.query.contains("labelSelector=appdeploy.dev%2Fapp&");
                let of_apps = if is_of_apps { " of apps" } else { "" };
                *lists
                    .entry(format!("{}{of_apps}", record.request.resource))
                    .or_default() += 1;
            }
        }
        lists
    }
}

fn image(deployment: &Value) -> &str {
    text(deployment, "/spec/template/spec/containers/0/image")
}

/// Remedy: a new leader lists again before it acts. Without it, the image is rolled back and two pods are deleted, until the watches
/// report the changes.
#[test]
fn new_leader_with_late_watches_reverts_no_change() {
    let takeover = Takeover::new();
    let shop = &takeover.pair.space;
    shop.settled_app("shop", web());
    shop.podset_of("set", json!({"replicas": 1}), &["set-0"]);
    takeover.delay(APP, "appdeploys", 1);
    takeover.delay(PODSET, "podsets", 1);
    shop.set("shop", json!({"image": "nginx:1.28"}));
    shop.until(DEPLOYMENT, "shop", "it has the new image", |child| {
        image(child) == "nginx:1.28"
    });
    shop.set_podset("set", json!({"replicas": 3}));
    shop.until_pods("set", &["set-0", "set-1", "set-2"]);
    let before = shop.pod_uids();
    takeover.hand_over();
    shop.set("shop", json!({"image": "nginx:1.29"}));
    let deployment = shop.until(DEPLOYMENT, "shop", "it has the newest image", |child| {
        assert_ne!(image(child), "nginx:1.27", "it was rolled back");
        image(child) == "nginx:1.29"
    });
    assert_eq!(deployment["metadata"]["generation"], 3, "two changes: {deployment:#}");
    shop.set_podset("set", json!({"replicas": 4}));
    shop.until_pods("set", &["set-0", "set-1", "set-2", "set-3"]);
    let mut after = shop.pod_uids();
    after.remove("set-3");
    assert_eq!(after, before);
}

/// Which app serves a host, and how many pods a set has, depends on their children. Remedy: these are listed again, too. Without it,
/// the older app takes the host, and pods are created that exist.
#[test]
fn new_leader_with_late_watches_of_children_repeats_nothing() {
    let takeover = Takeover::new();
    let shop = &takeover.pair.space;
    let blog = takeover.pair.cluster.namespace("blog");
    shop.settled_app("older", web());
    younger(&blog, "younger", &shop.get(APP, "older"), web());
    shop.podset_of("set", json!({"replicas": 1}), &["set-0"]);
    takeover.delay(INGRESS, "ingresses", 2);
    takeover.delay(POD, "podset-pods", 1);
    blog.set("younger", json!({"host": "example.com"}));
    let is_served = |ingress: &Value| text(ingress, "/spec/rules/0/host") == "example.com";
    blog.until(INGRESS, "younger", "it serves the host", is_served);
    shop.set("older", json!({"host": "example.com"}));
    shop.until(APP, "older", "its host is taken", |app| ready(app).1 == "HostConflict");
    shop.set_podset("set", json!({"replicas": 3}));
    shop.until_pods("set", &["set-0", "set-1", "set-2"]);
    let mark = shop.mark();
    takeover.hand_over();
    shop.settle();
    shop.settle_podsets();
    let asked = shop.asked_since(mark).by_user(SECOND).without("leases");
    assert_eq!(asked.tally(), BTreeMap::new());
    assert!(is_served(&blog.get(INGRESS, "younger")));
}

#[test]
fn standby_with_a_late_watch_of_the_lease_takes_over_at_its_next_read() {
    let takeover = Takeover::new();
    let watches = Requests::with(&[Verb::Watch]).on("leases");
    takeover.proxy.add(Rule::new(watches, Action::FreezeOpenWatches));
    takeover.hand_over();
}

/// A list of their versions is enough for objects that the follower has cached.
#[test]
fn new_leader_lists_again_what_decisions_depend_on() {
    let takeover = Takeover::of(|shop| {
        shop.settled_app("shop", web());
        shop.podset_of("set", json!({"replicas": 1}), &["set-0"]);
        shop.until_podset("set", "its status is complete", |set| count_of(set, "replicas") == 1);
    });
    let of_status = [
        "configmaps",
        "customresourcedefinitions",
        "ingressclasses",
        "pods of apps",
    ];
    let decisive = [
        "appdeploys",
        "appqueues",
        "deployments",
        "ingresses",
        "pods",
        "podsets",
        "serviceaccounts",
        "services",
    ];
    let lists = |of_decisive: usize| -> BTreeMap<String, usize> {
        let decisive = decisive.map(|kind| (kind.to_owned(), of_decisive)).into_iter();
        decisive.chain(of_status.map(|kind| (kind.to_owned(), 1))).collect()
    };
    // It is ready before what only improves the status is listed.
    takeover.until_listed(&of_status, 1);
    assert_eq!(takeover.lists(), lists(1), "a follower");
    takeover.hand_over();
    // An object that is created earlier could be in a list and not be cached yet, and all objects would be listed.
    takeover.until_listed(&decisive, 2);
    takeover.pair.space.settle();
    takeover.pair.space.settle_podsets();
    assert_eq!(takeover.lists(), lists(2), "a new leader");
    takeover.second.terminate();
    let control_plane = &takeover.pair.cluster.control_plane;
    let third = Operator::spawn(control_plane.folder(), takeover.proxy.kubeconfig(), &["--leader-elect"]);
    third.until_ready();
    takeover.pair.space.settle();
    takeover.pair.space.settle_podsets();
    let mut of_third = takeover.lists();
    for (kind, count) in lists(2) {
        *of_third.get_mut(&kind).unwrap() -= count;
    }
    assert_eq!(of_third, lists(1), "it leads from its start");
}

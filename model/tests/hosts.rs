//! Model checks which app gets a host, in all reachable states of a small cluster.
//!
//! Apps of two namespaces are created (also with a deletion timestamp), change their host, and are deleted with and without
//! a finalizer. Finalizers block the deletion of Ingresses, and the garbage collector deletes them after their owners. The
//! operator's watches are late and out of order; it reconciles several apps concurrently, loses responses to its writes and
//! restarts. It decides with [`Claim::read`] and [`Claims`], which are the production code. There are no webhooks that
//! restrict the writes of tenants.
//!
//! Not included: a write that reaches the API server after the operator has given up on it.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "clippy does not recognize helpers of tests"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::{LazyLock, Mutex};

use crd::AppDeploy;
use kube::core::ObjectMeta;
use model::Child;
use model::children::INGRESS;
use model::host::{Claim, Claims};
use serde_json::json;
use stateright::{Checker, HasDiscoveries, Model, Property};

const EXCLUSIVE: &str = "no host is served by two namespaces";
const KEPT: &str = "an app that serves a host and asks for it loses it only to the app whose default host it is, or to an older \
    app of its namespace that also serves it";
const SERVED: &str = "in the end, each host that apps ask for is served, unless the first of these apps has an Ingress that is \
    being deleted";
const DEFAULT: &str = "in the end, an app that asks for its default host serves it, unless another app or an Ingress with the host \
    is being deleted";

/// The namespace and name of each app.
const APPS: [(&str, &str); 3] = [("a", "one"), ("b", "two"), ("a", "three")];

/// The hosts. The last one is the default host of the second app.
const HOSTS: [&str; 3] = ["x.example.com", "y.example.com", "two.b"];

type Id = usize;
type Host = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct App {
    host: Host,
    created: u8,
    deleting: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ingress {
    host: Host,
    /// When its owner was created. It is also the owner's UID.
    owner: u8,
    held: bool,
    deleting: bool,
}

/// The objects in the API server, or in the operator's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Objects {
    apps: [Option<App>; APPS.len()],
    ingresses: [Option<Ingress>; APPS.len()],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    Create(Ingress),
    Apply {
        owner: u8,
        host: Host,
    },
    Delete {
        owner: u8,
    },
    /// Reads the Ingress, because the response to the last write was lost.
    Read,
}

/// The Ingress after a request, if it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stored(Option<Ingress>);

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Flight {
    request: Request,
    /// The response, after the API server has processed the request.
    result: Option<Stored>,
    /// Whether the watch has shown a newer state since then.
    outdated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    store: Objects,
    seen: Objects,
    claims: Table,
    queue: BTreeSet<Id>,
    flights: [Option<Flight>; APPS.len()],
    changes: u8,
    faults: u8,
    now: u8,
    breach: bool,
}

/// The rule for hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The production code.
    Current,
    /// A former rule: the oldest app with the host in its spec has it, even if it is being deleted, and Ingresses do not
    /// matter. A webhook rejects hosts of other namespaces, except for apps that are being deleted.
    ByAge,
    /// The production code without reservations.
    NoReservation,
    /// The production code without reading the Ingress after a lost response.
    NoRead,
    /// The production code, but an app that is being deleted still asks for the host in its spec.
    DeletingAsks,
    /// The production code, but the Ingress of a deleted app is ignored.
    OrphansIgnored,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Table {
    Current(Claims<Id>),
    ByAge(BTreeMap<Id, App>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Create { id: Id, host: Host, deleting: bool },
    Change { id: Id, host: Host },
    Delete { id: Id, held: bool },
    RemoveFinalizer(Id),
    HoldIngress(Id),
    ReleaseIngress(Id),
    Collect(Id),
    ShowApp(Id),
    ShowIngress(Id),
    Reconcile(Id),
    Commit(Id),
    Respond(Id),
    LoseResponse(Id),
    Restart,
}

struct Cluster {
    rule: Rule,
    start: World,
}

/// Returns the result of [`Claim::read`], cached by its arguments.
fn read(rule: Rule, id: Id, app: Option<App>, ingress: Option<Ingress>) -> Option<Claim> {
    type Known = HashMap<(bool, Id, Option<App>, Option<Ingress>), Option<Claim>>;
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let asks = rule == Rule::DeletingAsks;
    let ingress = ingress.filter(|_| rule != Rule::OrphansIgnored || app.is_some());
    let mut known = KNOWN.lock().expect("no test panics here");
    let claim = known.entry((asks, id, app, ingress)).or_insert_with(|| {
        let (namespace, name) = APPS[id];
        let uid = |created: u8| format!("{created:03}");
        let object = app.map(|app| -> AppDeploy {
            let mut meta = json!({"name": name, "namespace": namespace, "uid": uid(app.created),
                "creationTimestamp": format!("2026-01-01T00:00:{:02}Z", app.created)});
            if app.deleting && !asks {
                meta["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
            }
            let object = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "metadata": meta,
                "spec": {"image": "nginx", "port": 80, "host": HOSTS[app.host]}});
            serde_json::from_value(object).expect("an app")
        });
        let child = ingress.map(|ingress| {
            let meta: ObjectMeta = serde_json::from_value(json!({"name": name, "ownerReferences": [
                {"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": name, "uid": uid(ingress.owner),
                    "controller": true}]}))
            .expect("metadata");
            let spec = json!({"spec": {"rules": [{"host": HOSTS[ingress.host], "http": {"paths": [{"path": "/"}]}}]}});
            Child::read(&INGRESS, &meta, &spec)
        });
        Claim::read(namespace, name, object.as_ref(), child.as_ref())
    });
    claim.clone()
}

fn is_default(id: Id, host: Host) -> bool {
    HOSTS[host] == format!("{}.{}", APPS[id].1, APPS[id].0)
}

impl Table {
    fn new(rule: Rule) -> Self {
        match rule {
            Rule::ByAge => Self::ByAge(BTreeMap::new()),
            _ => Self::Current(Claims::default()),
        }
    }

    fn update(&mut self, rule: Rule, id: Id, seen: &Objects, releases: bool) -> Vec<Id> {
        match self {
            Self::Current(claims) => {
                let now = read(rule, id, seen.apps[id], seen.ingresses[id]);
                if releases {
                    claims.release(&id, now)
                } else {
                    claims.update(&id, now)
                }
            }
            Self::ByAge(apps) => {
                let before = apps.remove(&id);
                apps.extend(seen.apps[id].map(|app| (id, app)));
                if before == seen.apps[id] {
                    Vec::new()
                } else {
                    apps.keys().copied().filter(|other| *other != id).collect()
                }
            }
        }
    }

    fn is_unverified(&self, id: Id) -> bool {
        match self {
            Self::Current(claims) => claims.is_unverified(&id),
            Self::ByAge(_) => false,
        }
    }

    fn begin_write(&mut self, id: Id) {
        if let Self::Current(claims) = self {
            claims.begin_write(&id);
        }
    }

    fn end_write(&mut self, id: Id) {
        if let Self::Current(claims) = self {
            claims.end_write(&id);
        }
    }

    /// Reserves the host that an app asks for. Returns the apps to reconcile, or `None` if the host is blocked.
    fn reserve(&mut self, rule: Rule, id: Id) -> Option<Vec<Id>> {
        let may = match self {
            Self::Current(claims) if rule == Rule::NoReservation => claims.conflict(&id).is_none(),
            Self::Current(claims) => return claims.reserve(&id).ok(),
            Self::ByAge(apps) => {
                let age = |id: Id, app: App| (!is_default(id, app.host), app.created);
                let mine = apps[&id];
                let older = |other: &Id| apps[other].host == mine.host && age(*other, apps[other]) < age(id, mine);
                !apps.keys().any(older)
            }
        };
        may.then(Vec::new)
    }
}

impl World {
    fn requeue(&mut self, others: Vec<Id>) {
        self.queue.extend(others);
    }

    /// Processes a change of an app: it and the affected apps are queued.
    fn learn(&mut self, rule: Rule, id: Id) {
        let others = self.claims.update(rule, id, &self.seen, false);
        self.requeue(others);
        self.queue.insert(id);
    }

    /// Starts a reconcile. Returns the request to send, if any.
    fn begin(&mut self, rule: Rule, id: Id) -> Option<Request> {
        if self.claims.is_unverified(id) {
            return Some(Request::Read);
        }
        let request = self.decide(rule, id);
        if rule != Rule::NoRead && matches!(request, Some(Request::Create(_) | Request::Apply { .. })) {
            self.claims.begin_write(id);
        }
        request
    }

    fn release(&mut self, rule: Rule, id: Id) {
        let others = self.claims.update(rule, id, &self.seen, true);
        self.requeue(others);
    }

    /// Returns the write that is needed, if any.
    fn decide(&mut self, rule: Rule, id: Id) -> Option<Request> {
        let app = self.seen.apps[id].filter(|app| !app.deleting)?;
        let reserved = self.claims.reserve(rule, id);
        let may_have = reserved.is_some();
        self.requeue(reserved.unwrap_or_default());
        let own = self.seen.ingresses[id];
        let Some(own) = own else {
            return may_have.then_some(Request::Create(Ingress {
                host: app.host,
                owner: app.created,
                held: false,
                deleting: false,
            }));
        };
        // The Ingress of a deleted app, or one that is being deleted, must be gone first.
        if own.owner != app.created || own.deleting {
            return None;
        }
        if !may_have {
            let comes_first = |other: Id| {
                let serves = self.seen.ingresses[other].is_some_and(|other| other.host == own.host);
                let older = |other: App| other.created < app.created && !other.deleting;
                let is_neighbour = other != id && APPS[other].0 == APPS[id].0;
                let is_owner = is_default(other, own.host);
                let asks = self.seen.apps[other].filter(|app| app.host == own.host);
                asks.is_some_and(|asks| is_owner || is_neighbour && serves && older(asks))
            };
            self.breach |= own.host == app.host && !(0..APPS.len()).any(comes_first);
            return Some(Request::Delete { owner: own.owner });
        }
        (own.host != app.host).then_some(Request::Apply {
            owner: own.owner,
            host: app.host,
        })
    }

    fn commit(&mut self, id: Id, request: Request) -> Option<Ingress> {
        let stored = &mut self.store.ingresses[id];
        match request {
            Request::Read => {}
            Request::Create(new) => {
                stored.get_or_insert(new);
            }
            Request::Apply { owner, host } => {
                if let Some(own) = stored.as_mut().filter(|own| own.owner == owner) {
                    own.host = host;
                }
            }
            Request::Delete { owner } => delete(stored, |own| own.owner == owner),
        }
        *stored
    }

    /// Returns the host that an app asks for.
    fn asks(&self, id: Id) -> Option<Host> {
        let app = self.store.apps[id].filter(|app| !app.deleting);
        app.map(|app| app.host)
    }

    /// Returns the app that gets a host that no Ingress has.
    fn first(&self, host: Host) -> Option<Id> {
        let asking = (0..APPS.len()).filter(|id| self.asks(*id) == Some(host));
        asking.min_by_key(|id| (!is_default(*id, host), self.store.apps[*id].map(|app| app.created)))
    }

    /// Whether the Ingress of an app is being deleted. Until then, no other one can be created.
    fn waits(&self, id: Id) -> bool {
        self.store.ingresses[id].is_some_and(|own| own.deleting)
    }

    fn is_quiet(&self) -> bool {
        let garbage = |id: Id| {
            let orphan = |own: Ingress| self.store.apps[id].is_none_or(|app| app.created != own.owner) && !own.deleting;
            self.store.ingresses[id].is_some_and(orphan)
        };
        self.queue.is_empty()
            && self.flights == [None; APPS.len()]
            && self.seen == self.store
            && !(0..APPS.len()).any(garbage)
    }
}

fn delete(stored: &mut Option<Ingress>, is: impl Fn(&Ingress) -> bool) {
    match stored {
        Some(own) if is(own) && own.held => own.deleting = true,
        Some(own) if is(own) => *stored = None,
        _ => {}
    }
}

impl Model for Cluster {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.start.clone()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (id, (namespace, _)) in APPS.iter().enumerate() {
            let (app, ingress) = (world.store.apps[id], world.store.ingresses[id]);
            let admitted = |host: Host| {
                let has_host = |other: Id| {
                    let elsewhere = APPS[other].0 != *namespace;
                    elsewhere && world.store.apps[other].is_some_and(|other| other.host == host)
                };
                self.rule != Rule::ByAge || app.is_some_and(|app| app.deleting) || !(0..APPS.len()).any(has_host)
            };
            if world.changes > 0 {
                match app {
                    None => actions.extend(
                        (0..HOSTS.len())
                            .flat_map(|host| [false, true].map(|deleting| Action::Create { id, host, deleting })),
                    ),
                    Some(app) => {
                        let others = (0..HOSTS.len()).filter(|host| *host != app.host && admitted(*host));
                        actions.extend(others.map(|host| Action::Change { id, host }));
                        if !app.deleting {
                            actions.extend([false, true].map(|held| Action::Delete { id, held }));
                        }
                    }
                }
                if ingress.is_some_and(|own| !own.held && !own.deleting) {
                    actions.push(Action::HoldIngress(id));
                }
            }
            if app.is_some_and(|app| app.deleting) {
                actions.push(Action::RemoveFinalizer(id));
            }
            if ingress.is_some_and(|own| own.held && own.deleting) {
                actions.push(Action::ReleaseIngress(id));
            }
            if ingress.is_some_and(|own| app.is_none_or(|app| app.created != own.owner) && !own.deleting) {
                actions.push(Action::Collect(id));
            }
            if world.seen.apps[id] != app {
                actions.push(Action::ShowApp(id));
            }
            if world.seen.ingresses[id] != ingress {
                actions.push(Action::ShowIngress(id));
            }
            match world.flights[id] {
                None if world.queue.contains(&id) => actions.push(Action::Reconcile(id)),
                None => {}
                Some(Flight { result: None, .. }) => {
                    actions.push(Action::Commit(id));
                    if world.faults > 0 {
                        actions.push(Action::LoseResponse(id));
                    }
                }
                Some(_) => {
                    actions.push(Action::Respond(id));
                    if world.faults > 0 {
                        actions.push(Action::LoseResponse(id));
                    }
                }
            }
        }
        if world.faults > 0 {
            actions.push(Action::Restart);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        let rule = self.rule;
        match action {
            Action::Create { id, host, deleting } => {
                next.changes -= 1;
                next.store.apps[id] = Some(App {
                    host,
                    created: next.now,
                    deleting,
                });
                next.now += 1;
            }
            Action::Change { id, host } => {
                next.changes -= 1;
                next.store.apps[id].as_mut()?.host = host;
            }
            Action::Delete { id, held } => {
                next.changes -= 1;
                if held {
                    next.store.apps[id].as_mut()?.deleting = true;
                } else {
                    next.store.apps[id] = None;
                }
            }
            Action::RemoveFinalizer(id) => next.store.apps[id] = None,
            Action::HoldIngress(id) => {
                next.changes -= 1;
                next.store.ingresses[id].as_mut()?.held = true;
            }
            Action::ReleaseIngress(id) => next.store.ingresses[id] = None,
            Action::Collect(id) => delete(&mut next.store.ingresses[id], |_| true),
            Action::ShowApp(id) => {
                next.seen.apps[id] = next.store.apps[id];
                next.learn(rule, id);
            }
            Action::ShowIngress(id) => {
                next.seen.ingresses[id] = next.store.ingresses[id];
                if let Some(flight) = &mut next.flights[id] {
                    flight.outdated = flight.result.is_some();
                }
                next.learn(rule, id);
            }
            Action::Reconcile(id) => {
                next.queue.remove(&id);
                match next.begin(rule, id) {
                    Some(request) => {
                        next.flights[id] = Some(Flight {
                            request,
                            result: None,
                            outdated: false,
                        });
                    }
                    None => next.release(rule, id),
                }
            }
            Action::Commit(id) => {
                let request = next.flights[id]?.request;
                let result = next.commit(id, request);
                next.flights[id].as_mut()?.result = Some(Stored(result));
            }
            Action::Respond(id) => {
                let flight = next.flights[id].take()?;
                let stored = flight.result?.0;
                next.claims.end_write(id);
                let reads = flight.request == Request::Read;
                if !flight.outdated && (stored.is_some() || !reads) {
                    next.seen.ingresses[id] = stored;
                }
                if reads {
                    next.learn(rule, id);
                } else {
                    next.release(rule, id);
                }
                // The result is compared with the current spec.
                next.queue.insert(id);
            }
            // The reconcile is retried, and the reservation is kept until the result is known.
            Action::LoseResponse(id) => {
                next.faults -= 1;
                next.flights[id] = None;
                next.queue.insert(id);
            }
            Action::Restart => {
                next.faults -= 1;
                next.flights = [None; APPS.len()];
                next.seen = next.store;
                next.claims = Table::new(rule);
                for id in 0..APPS.len() {
                    next.learn(rule, id);
                }
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSIVE, |_, world: &World| {
                let of = |id: Id| world.store.ingresses[id].map(|own| (own.host, APPS[id].0));
                let all: BTreeSet<_> = (0..APPS.len()).filter_map(of).collect();
                let hosts: BTreeSet<_> = all.iter().map(|(host, _)| host).collect();
                all.len() == hosts.len()
            }),
            Property::always(KEPT, |_, world: &World| !world.breach),
            Property::always(SERVED, |_, world: &World| {
                let served = |host: Host| world.store.ingresses.iter().flatten().any(|own| own.host == host);
                let is_met = |host: Host| served(host) || world.first(host).is_none_or(|first| world.waits(first));
                !world.is_quiet() || (0..HOSTS.len()).all(is_met)
            }),
            Property::always(DEFAULT, |_, world: &World| {
                let is_met = |id: Id| {
                    let Some(host) = world.asks(id).filter(|host| is_default(id, *host)) else {
                        return true;
                    };
                    let serves = |id: Id| world.store.ingresses[id].is_some_and(|own| own.host == host);
                    let keeps = |id: &Id| world.waits(*id) || world.store.apps[*id].is_some_and(|app| app.deleting);
                    serves(id) || world.waits(id) || (0..APPS.len()).filter(keeps).any(serves)
                };
                !world.is_quiet() || (0..APPS.len()).all(is_met)
            }),
        ]
    }
}

/// Returns an empty cluster, or one in which the first app is older than the second and both serve their own host.
fn world(rule: Rule, settled: bool, changes: u8, faults: u8) -> World {
    let mut world = World {
        store: Objects::default(),
        seen: Objects::default(),
        claims: Table::new(rule),
        queue: BTreeSet::new(),
        flights: [None; APPS.len()],
        changes,
        faults,
        now: 1,
        breach: false,
    };
    if settled {
        for id in [0, 1] {
            let created = world.now;
            world.now += 1;
            world.store.apps[id] = Some(App {
                host: id,
                created,
                deleting: false,
            });
            world.store.ingresses[id] = Some(Ingress {
                host: id,
                owner: created,
                held: false,
                deleting: false,
            });
        }
        world.seen = world.store;
        for id in [0, 1] {
            world.claims.update(rule, id, &world.seen, false);
        }
    }
    world
}

fn check(
    rule: Rule,
    settled: bool,
    changes: u8,
    faults: u8,
    until: HasDiscoveries,
) -> (usize, BTreeMap<&'static str, String>) {
    let cluster = Cluster {
        rule,
        start: world(rule, settled, changes, faults),
    };
    // Depth-first search needs less memory for a complete search.
    let breadth_first = rule != Rule::Current;
    let builder = cluster.checker().finish_when(until);
    if breadth_first {
        report(builder.spawn_bfs().join(), rule)
    } else {
        report(builder.spawn_dfs().join(), rule)
    }
}

fn report(checker: impl Checker<Cluster>, rule: Rule) -> (usize, BTreeMap<&'static str, String>) {
    let stories = checker.discoveries().into_iter().map(|(property, path)| {
        let mut story = String::new();
        for action in path.into_actions() {
            let _ = writeln!(story, "  {action:?}");
        }
        (property, story)
    });
    let stories = stories.collect();
    println!("{rule:?}: {} states", checker.unique_state_count());
    (checker.unique_state_count(), stories)
}

fn holds(settled: bool, changes: u8, faults: u8, at_least: usize) {
    let (states, stories) = check(Rule::Current, settled, changes, faults, HasDiscoveries::AnyFailures);
    assert!(stories.is_empty(), "{stories:#?}");
    assert!(states >= at_least, "{states} states");
}

fn breaks(rule: Rule, settled: bool, changes: u8, faults: u8, property: &'static str) {
    let (_, stories) = check(rule, settled, changes, faults, HasDiscoveries::AllOf([property].into()));
    let story = stories.get(property);
    assert!(
        story.is_some(),
        "{rule:?}: this property holds: {property}: {stories:#?}"
    );
    println!("{}", story.map_or("", |story| story));
}

#[test]
fn hosts_are_safe_in_a_new_cluster() {
    holds(false, 3, 0, 1000);
}

#[test]
fn hosts_are_safe_with_existing_apps() {
    holds(true, 3, 0, 250_000);
}

#[test]
fn hosts_are_safe_with_lost_responses_and_restarts() {
    holds(true, 2, 1, 40_000);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn hosts_are_safe_in_larger_clusters() {
    holds(true, 2, 2, 100_000);
    holds(true, 3, 1, 1_500_000);
}

/// The attack: the older app is deleted with a finalizer, and then its spec gets the host of the younger one.
#[test]
fn rule_by_age_gives_a_host_to_an_app_that_is_being_deleted() {
    breaks(Rule::ByAge, true, 2, 0, KEPT);
}

#[test]
fn rule_by_age_lets_two_namespaces_serve_a_host() {
    breaks(Rule::ByAge, false, 2, 0, EXCLUSIVE);
}

#[test]
fn without_reservations_two_namespaces_serve_a_host() {
    breaks(Rule::NoReservation, false, 3, 0, EXCLUSIVE);
}

/// The app has the default host of another one, and the watch has not shown its Ingress yet.
#[test]
fn without_a_read_after_a_lost_response_two_namespaces_serve_a_host() {
    breaks(Rule::NoRead, true, 2, 1, EXCLUSIVE);
}

#[test]
fn app_that_is_being_deleted_and_asks_for_a_host_blocks_it() {
    breaks(Rule::DeletingAsks, false, 2, 0, SERVED);
}

#[test]
fn without_orphaned_ingresses_two_namespaces_serve_a_host() {
    breaks(Rule::OrphansIgnored, false, 3, 0, EXCLUSIVE);
}

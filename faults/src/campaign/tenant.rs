//! A hostile tenant: a user who may write apps in one namespace, and attacks an app of another namespace between the
//! steps of a scenario.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::history::{ObjectVersion, existing, text};
use super::kind::{APP, DEPLOYMENT, INGRESS, SERVICE};
use super::scenario::{self, Scenario, Step, UserAction};

/// The suffix of the tenant's namespace.
const SUFFIX: &str = "-tenant";
/// The host of the attacked app.
const HOST: &str = "shop.example.com";
/// A finalizer that blocks the deletion of an object until the tenant removes it.
const FINALIZER: &str = "tenant.example.com/hold";
/// The app in forged owner references.
pub const OWNER: &str = "web";
/// The name of objects with a forged owner reference.
const FORGED: &str = "forged";
/// A condition that another program writes.
const CONDITION: &str = "Audited";
/// The maximum number of versions of one app or pod set in a run. The longest fault-free run has a fifth of it.
const VERSIONS: usize = 100;

/// Returns the tenant's namespace in a run.
#[must_use]
pub fn namespace(run: &str) -> String {
    format!("{run}{SUFFIX}")
}

/// Returns the namespace of the run to which a namespace belongs.
#[must_use]
pub fn run_of(namespace: &str) -> &str {
    namespace.strip_suffix(SUFFIX).unwrap_or(namespace)
}

fn is_tenants(seen: &ObjectVersion) -> bool {
    text(&seen.object, "/metadata/namespace").ends_with(SUFFIX)
}

/// Returns the scenarios, with webhooks and without.
pub(super) fn scenarios() -> Vec<Scenario> {
    let attacks = || {
        [
            Scenario::new("tenant-host", takes_a_host_while_being_deleted()),
            Scenario::new("tenant-born", is_born_in_deletion()),
            Scenario::new("tenant-forge", forges()),
            Scenario::new("tenant-own", forges_owner_references()),
        ]
    };
    let guarded = ["guarded-host", "guarded-born", "guarded-forge", "guarded-own"];
    let with_webhooks = attacks().into_iter().zip(guarded).map(|(scenario, name)| Scenario {
        name,
        ..scenario.with_webhooks()
    });
    let all = attacks().into_iter().chain(with_webhooks);
    all.map(Scenario::with_tenant).collect()
}

/// An app that is older than the victim, and whose deletion is blocked, is changed to the victim's host.
fn takes_a_host_while_being_deleted() -> Vec<Step> {
    let claim = json!({"host": HOST});
    let mut evil = scenario::app("evil", json!({"host": "evil.example.com"}));
    if let UserAction::Create(_, object) = &mut evil.user_action {
        object["metadata"]["finalizers"] = json!([FINALIZER]);
    }
    vec![
        by_tenant(evil),
        scenario::app("web", claim.clone()),
        by_tenant(scenario::delete(APP, "evil", is_in_deletion)),
        attempt(UserAction::Patch(APP, "evil", json!({"spec": {"host": HOST}}))),
        attempt(scenario::app("evil-too", claim).user_action),
        scenario::change(APP, "web", json!({"replicas": 3})),
        by_tenant(Step {
            user_action: UserAction::Patch(APP, "evil", json!({"metadata": {"finalizers": null}})),
            settled: is_deleted_with_children,
        }),
        scenario::change(APP, "web", json!({"image": "nginx:1.28"})),
    ]
}

/// An app is created with a deletion timestamp and a finalizer, which some admission rules mistake for a deletion.
fn is_born_in_deletion() -> Vec<Step> {
    let claim = json!({"host": HOST});
    let spec = json!({"image": "nginx:1.27", "port": 80, "host": HOST});
    let metadata = json!({"name": "born", "finalizers": [FINALIZER], "deletionTimestamp": "2020-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0});
    vec![
        scenario::app("web", claim.clone()),
        attempt(UserAction::Apply(APP, json!({"metadata": metadata, "spec": spec}))),
        attempt(UserAction::Delete(APP, "born")),
        scenario::delete(APP, "web", only_the_tenant_is_left),
        scenario::app("web", claim),
        attempt(UserAction::Patch(
            APP,
            "born",
            json!({"metadata": {"finalizers": null}}),
        )),
        scenario::change(APP, "web", json!({"replicas": 1})),
    ]
}

/// Labels, annotations and conditions are forged: of the tenant's own objects, and of the victim's, as a user with rights
/// in the victim's namespace could.
fn forges() -> Vec<Step> {
    let labels = json!({
        crd::label::APP: "web", crd::label::MANAGED_BY: crd::label::MANAGED_BY_VALUE, crd::label::NAME: "web",
    });
    let annotations = json!({
        crd::annotation::DESIRED_HASH: "0123456789abcdef", crd::annotation::REVISION_SPEC: "{\"image\":\"evil\"}",
    });
    let forged = json!({"name": FORGED, "labels": labels, "annotations": annotations});
    let selector = json!({crd::label::APP: "web"});
    let condition = json!({"type": CONDITION, "status": "True", "reason": "Audited", "message": "by another program",
        "lastTransitionTime": "2020-01-01T00:00:00Z"});
    vec![
        // A Service with all of the operator's fields except the owner.
        by_tenant(Step {
            user_action: UserAction::Create(
                SERVICE,
                json!({"metadata": forged, "spec": {"ports": [{"port": 80}], "selector": selector}}),
            ),
            settled: immediately,
        }),
        scenario::app("web", json!({"host": HOST})),
        Step {
            user_action: UserAction::ApplyStatus(
                APP,
                json!({"metadata": {"name": "web"}, "status": {"conditions": [condition]}}),
            ),
            settled: immediately,
        },
        // Not the annotations of the Deployment: Kubernetes copies them to a ReplicaSet only if it is faster than their
        // repair.
        Step {
            user_action: UserAction::Patch(
                DEPLOYMENT,
                "web",
                json!({"metadata": {"labels": {crd::label::MANAGED_BY: "evil"}}}),
            ),
            settled: scenario::is_rewritten,
        },
        Step {
            user_action: UserAction::Patch(
                SERVICE,
                "web",
                json!({"metadata": {"annotations": {crd::annotation::DESIRED_HASH: "0"}, "labels": {crd::label::APP: "evil"}},
                    "spec": {"selector": {crd::label::APP: "evil"}}}),
            ),
            settled: scenario::is_rewritten,
        },
        scenario::change(APP, "web", json!({"image": "nginx:1.28"})),
    ]
}

/// Objects name the victim's app as their controller: in the tenant's namespace, where the owner does not exist, so the
/// garbage collector deletes them, and in the victim's, where they stay until the app is deleted.
fn forges_owner_references() -> Vec<Step> {
    let labels = json!({crd::label::APP: OWNER, crd::label::MANAGED_BY: crd::label::MANAGED_BY_VALUE});
    let service = |name: &str| {
        json!({"metadata": {"name": name, "labels": labels},
            "spec": {"ports": [{"port": 80}], "selector": {crd::label::APP: OWNER}}})
    };
    let backend = json!({"service": {"name": OWNER, "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    let ingress = json!({"metadata": {"name": FORGED, "labels": labels},
        "spec": {"rules": [{"host": HOST, "http": {"paths": [path]}}]}});
    let owned = |kind, object, settled| Step {
        user_action: UserAction::CreateOwned(kind, object),
        settled,
    };
    vec![
        scenario::app(OWNER, json!({"host": HOST})),
        by_tenant(owned(SERVICE, service(OWNER), is_deleted)),
        by_tenant(owned(INGRESS, ingress.clone(), is_deleted)),
        owned(SERVICE, service(FORGED), immediately),
        owned(INGRESS, ingress, immediately),
        scenario::change(APP, OWNER, json!({"image": "nginx:1.28"})),
        scenario::delete(APP, OWNER, only_the_tenant_is_left),
    ]
}

fn by_tenant(step: Step) -> Step {
    Step {
        user_action: UserAction::ByTenant(Box::new(step.user_action)),
        ..step
    }
}

/// The tenant tries an action that may be rejected.
fn attempt(user_action: UserAction) -> Step {
    Step {
        user_action: UserAction::Attempt(Box::new(UserAction::ByTenant(Box::new(user_action)))),
        settled: immediately,
    }
}

fn immediately(_: &[ObjectVersion], _: &Value) -> bool {
    true
}

fn is_in_deletion(history: &[ObjectVersion], left: &Value) -> bool {
    let existing = existing(history);
    let seen = existing.get(text(left, "/metadata/uid"));
    seen.is_some_and(|seen| !text(&seen.object, "/metadata/deletionTimestamp").is_empty())
}

fn is_deleted(history: &[ObjectVersion], left: &Value) -> bool {
    !existing(history).contains_key(text(left, "/metadata/uid"))
}

/// Returns whether the object and its children are deleted. The garbage collector deletes children some time after their
/// owner.
fn is_deleted_with_children(history: &[ObjectVersion], left: &Value) -> bool {
    let uid = text(left, "/metadata/uid");
    let is_owned = |seen: &&ObjectVersion| seen.controllers().iter().any(|owner| text(owner, "/uid") == uid);
    is_deleted(history, left) && !existing(history).values().any(is_owned)
}

fn only_the_tenant_is_left(history: &[ObjectVersion], _: &Value) -> bool {
    let existing = existing(history);
    existing
        .values()
        .all(|seen| is_tenants(seen) || seen.name() == super::invariant::THIRD_PARTY)
}

/// Returns what the tenant has gained, and what others have lost.
#[must_use]
pub fn gains(history: &[ObjectVersion]) -> BTreeSet<String> {
    let mut found = hosts(history);
    found.extend(conditions(history));
    found.extend(storms(history));
    found
}

/// The operator never creates Ingresses of two namespaces for one host or an Ingress of the tenant for the victim's host,
/// and deletes no Ingress of an existing app.
fn hosts(history: &[ObjectVersion]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let has_tenant = history.iter().any(is_tenants);
    let mut ordered: Vec<&ObjectVersion> = history.iter().collect();
    // A deletion has its own resource version, after that of the object.
    ordered.sort_by_key(|seen| seen.version());
    let mut serving: BTreeMap<&str, (String, &str)> = BTreeMap::new();
    let mut ending: BTreeSet<&str> = BTreeSet::new();
    for seen in ordered {
        let is_ending = seen.deleted || !text(&seen.object, "/metadata/deletionTimestamp").is_empty();
        if seen.resource == APP.plural() && is_ending {
            ending.insert(seen.uid());
        }
        let owner = seen.controllers().first().map(|owner| text(owner, "/uid"));
        let (Some(owner), "ingresses") = (owner, seen.resource) else {
            continue;
        };
        if seen.name() == FORGED {
            continue;
        }
        if seen.deleted {
            serving.remove(seen.uid());
            if has_tenant && !is_tenants(seen) && !ending.contains(owner) {
                found.insert(format!("{} was deleted although its app exists", seen.title()));
            }
            continue;
        }
        let namespace = text(&seen.object, "/metadata/namespace");
        let host = text(&seen.object, "/spec/rules/0/host");
        if is_tenants(seen) && host == HOST {
            found.insert(format!("the tenant serves {HOST} by {}", seen.title()));
        }
        let is_elsewhere = |(other, place): &(String, &str)| other == host && *place != namespace;
        if serving.values().any(is_elsewhere) {
            found.insert(format!("{host} is served by two namespaces"));
        }
        serving.insert(seen.uid(), (host.to_owned(), namespace));
    }
    found
}

/// A condition that another program wrote is kept.
fn conditions(history: &[ObjectVersion]) -> BTreeSet<String> {
    let mut ordered: Vec<&ObjectVersion> = history.iter().collect();
    ordered.sort_by_key(|seen| seen.version());
    let mut written: BTreeSet<&str> = BTreeSet::new();
    let mut found = BTreeSet::new();
    for seen in ordered.into_iter().filter(|seen| !seen.deleted) {
        let all = seen.object.pointer("/status/conditions").and_then(Value::as_array);
        let is_there = all.is_some_and(|all| all.iter().any(|condition| condition["type"] == CONDITION));
        if is_there {
            written.insert(seen.uid());
        } else if written.contains(seen.uid()) {
            found.insert(format!("{} lost a condition of another program", seen.title()));
        }
    }
    found
}

/// The operator does not write a status in a loop.
fn storms(history: &[ObjectVersion]) -> BTreeSet<String> {
    let mut versions: BTreeMap<&str, (usize, &ObjectVersion)> = BTreeMap::new();
    for seen in history
        .iter()
        .filter(|seen| matches!(seen.resource, "appdeploys" | "podsets"))
    {
        versions.entry(seen.uid()).or_insert((0, seen)).0 += 1;
    }
    let many = versions.into_values().filter(|(count, _)| *count > VERSIONS);
    many.map(|(count, seen)| format!("{} had {count} versions", seen.title()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ingress(namespace: &str, version: u64, host: &str, deleted: bool) -> ObjectVersion {
        ObjectVersion {
            resource: "ingresses",
            object: json!({"metadata": {"name": "web", "namespace": namespace, "uid": format!("ingress-{namespace}"),
                "resourceVersion": version.to_string(),
                "ownerReferences": [{"uid": format!("app-{namespace}"), "controller": true}]},
                "spec": {"rules": [{"host": host}]}}),
            deleted,
        }
    }

    fn app(version: u64, conditions: Value) -> ObjectVersion {
        ObjectVersion {
            resource: "appdeploys",
            object: json!({"metadata": {"name": "web", "namespace": "run", "uid": "app-run",
                "resourceVersion": version.to_string()}, "status": {"conditions": conditions}}),
            deleted: false,
        }
    }

    #[test]
    fn host_served_by_two_namespaces_is_reported() {
        let quiet = [ingress("run", 1, "a", false), ingress("run-tenant", 2, "b", false)];
        assert_eq!(gains(&quiet), BTreeSet::new());
        let both = [ingress("run", 1, "a", false), ingress("run-tenant", 2, "a", false)];
        assert_eq!(gains(&both), ["a is served by two namespaces".to_owned()].into());
        let stolen = [
            ingress("run", 1, HOST, false),
            ingress("run", 2, HOST, true),
            ingress("run-tenant", 3, HOST, false),
        ];
        assert_eq!(gains(&stolen).len(), 2, "{:?}", gains(&stolen));
    }

    #[test]
    fn lost_condition_and_status_loop_are_reported() {
        let theirs = json!([{"type": CONDITION}]);
        assert_eq!(
            gains(&[app(1, theirs.clone()), app(2, theirs.clone())]),
            BTreeSet::new()
        );
        assert_eq!(gains(&[app(1, theirs), app(2, json!([]))]).len(), 1);
        let storm: Vec<ObjectVersion> = (0..=VERSIONS as u64).map(|version| app(version, json!([]))).collect();
        assert_eq!(gains(&storm).len(), 1);
    }
}

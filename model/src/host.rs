//! Decides which app gets a host. Two Ingresses with the same host would get each other's requests, and a user who may create
//! an AppDeploy could get those of another namespace.
//!
//! The decision depends on the specs of apps ([`Claim::wants`]) and on existing Ingresses ([`Claim::has`]). A host that an
//! Ingress serves is not given to another namespace before that Ingress no longer serves it, even if its app was deleted.

mod claims;

use std::collections::BTreeSet;

use crd::AppDeploy;

pub use self::claims::Claims;
use crate::ingress_path::IngressPath;
use crate::{Child, Failure, Valid, validate};

/// The host and path that an app asks for, and those that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, which decides between two apps of the same age. Empty after the app was deleted.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The path that its spec asks for. `None` if it has no Ingress, is being deleted, or was deleted.
    pub wants: Option<IngressPath>,
    /// The paths of its Ingress, while that exists.
    pub has: Vec<IngressPath>,
    /// The path that a reconcile may write to its Ingress.
    pub reserved: Option<IngressPath>,
    /// Whether a write with the reserved path was sent whose result is not known.
    pub sent: bool,
}

impl Claim {
    /// Reads an app and the Ingress of its name. Returns `None` if neither has a host.
    ///
    /// An app that is being deleted asks for nothing: its children are no longer written, and its author must not get a
    /// host by changing the spec while a finalizer keeps the app. It keeps the paths of its Ingress while that exists.
    #[must_use]
    pub fn read(namespace: &str, name: &str, app: Option<&AppDeploy>, ingress: Option<&Child>) -> Option<Self> {
        let meta = app.map(|app| &app.metadata);
        let deleting = meta.is_some_and(|meta| meta.deletion_timestamp.is_some());
        let wanted = app
            .filter(|_| !deleting)
            .and_then(|app| IngressPath::of(&validate(app).ok()?));
        let created = meta.and_then(|meta| meta.creation_timestamp.as_ref());
        let claim = Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: meta.and_then(|meta| meta.uid.clone()).unwrap_or_default(),
            created: created.map_or(i64::MAX, |time| time.0.as_second()),
            deleting,
            wants: wanted,
            // Also the Ingress of a deleted app of the same name, which serves until the garbage collector deletes it.
            has: ingress
                .filter(|child| child.is_of_app(name))
                .map_or_else(Vec::new, |child| child.paths().to_vec()),
            reserved: None,
            sent: false,
        };
        (claim.wants.is_some() || !claim.has.is_empty()).then_some(claim)
    }

    fn wants_host(&self, host: &str) -> bool {
        self.wants.as_ref().is_some_and(|path| path.host == host)
    }

    fn has_host(&self, host: &str) -> bool {
        self.has.iter().chain(&self.reserved).any(|path| path.host == host)
    }

    /// Whether its Ingress, which has these paths according to the cache, may also have the reserved one.
    fn is_unverified_by(&self, has: &[IngressPath]) -> bool {
        self.sent && self.reserved.as_ref().is_some_and(|path| !has.contains(path))
    }

    /// Returns all hosts in the claim.
    fn hosts(&self) -> impl Iterator<Item = &str> {
        let paths = self.wants.iter().chain(&self.has).chain(&self.reserved);
        paths.map(|path| path.host.as_str())
    }

    /// Returns the sort key by which a host is given; the smallest gets it. First comes the app whose default host it is,
    /// because that app has no other. Then apps that ask for it and serve it, then those that ask for it and have reserved
    /// it. Then those that still serve it without asking, because they are being deleted, were deleted, or move to another
    /// host: they do not block the ones before, and block the ones after. Then, by age, those that only ask for it.
    fn rank(&self, host: &str) -> (bool, Standing, i64, &str) {
        let serves = self.has.iter().any(|path| path.host == host);
        let standing = match (self.wants_host(host), self.has_host(host)) {
            (true, true) if serves => Standing::Serving,
            // It may have reserved the host before its spec changed, or for a deleted app of the same name.
            (true, true) => Standing::Reserved,
            (_, true) => Standing::Releasing,
            _ => Standing::Requested,
        };
        let is_default = self.wants_host(host) && host == format!("{}.{}", self.name, self.namespace);
        (!is_default, standing, self.created, &self.uid)
    }

    /// Returns the parts that other claims depend on.
    fn effect(&self) -> impl PartialEq + use<'_> {
        let has: BTreeSet<&IngressPath> = self.has.iter().chain(&self.reserved).collect();
        (self.wants.as_ref(), has, self.deleting, self.created, self.uid.as_str())
    }

    fn is(&self, other: &Self) -> bool {
        (&self.namespace, &self.name) == (&other.namespace, &other.name)
    }
}

/// How firmly an app has a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Its spec asks for the host, and its Ingress serves it.
    Serving,
    /// Its spec asks for the host, and it has reserved it.
    Reserved,
    /// Its Ingress serves the host, and its spec does not ask for it any more.
    Releasing,
    /// Its spec asks for the host.
    Requested,
}

/// Returns the claim that prevents another one from getting its host; `None` if it can have the host.
///
/// A host belongs to one namespace. In the namespace, apps share it by path, and a path belongs to one app. An app that
/// serves a host loses it only to the app whose default host it is, and that one waits until no other namespace has an
/// Ingress with the host. `others` are the claims with the host.
#[must_use]
pub fn blocking_claim<'a>(claim: &Claim, others: impl Iterator<Item = &'a Claim> + Clone) -> Option<&'a Claim> {
    let path = claim.wants.as_ref()?;
    let host = path.host.as_str();
    let (mine, serves) = (claim.rank(host), claim.has_host(host));
    let others = others.filter(|other| !other.is(claim) && (other.wants_host(host) || other.has_host(host)));
    let before = others.clone().filter(|other| other.rank(host) < mine);
    let first = before.clone().min_by_key(|other| other.rank(host));
    if first.is_some_and(|first| first.namespace != claim.namespace) {
        return first;
    }
    let has_it_elsewhere = |other: &&Claim| !serves && other.namespace != claim.namespace && other.has_host(host);
    let holder = others.filter(has_it_elsewhere).min_by_key(|other| other.rank(host));
    if holder.is_some() {
        return holder;
    }
    // An app of the same namespace that was deleted, or moves to another host, does not block its path.
    let of_the_path = |other: &&Claim| {
        let keeps = other.deleting && other.has.contains(path);
        other.namespace == claim.namespace && (other.wants.as_ref() == Some(path) || keeps)
    };
    before.filter(of_the_path).min_by_key(|other| other.rank(host))
}

/// Returns the failure of a claim that another one blocks.
#[must_use]
pub fn host_conflict(claim: &Claim, blocking: &Claim) -> Failure {
    let is_same_namespace = blocking.namespace == claim.namespace;
    let wanted = claim.wants.as_ref();
    let what = if is_same_namespace {
        wanted.map_or_else(String::new, |path| format!("{}{}", path.host, path.path))
    } else {
        wanted.map(|path| path.host.clone()).unwrap_or_default()
    };
    let owner = if is_same_namespace {
        format!("AppDeploy {}", blocking.name)
    } else {
        // Names of objects in other namespaces must not be disclosed.
        "an AppDeploy of another namespace".to_owned()
    };
    Failure::HostConflict { what, owner }
}

/// Checks the host of an app against the suffixes that an administrator allows. The default host, which is unique, is always
/// allowed.
///
/// # Errors
/// Returns a message with the allowed suffixes.
pub fn allowed(app: &Valid<'_>, suffixes: &[String]) -> Result<(), String> {
    let Some(ingress) = app.route.as_ref().and_then(|route| route.ingress.as_ref()) else {
        return Ok(());
    };
    let host = &ingress.host;
    let fits = |suffix: &String| {
        let suffix = suffix.trim_start_matches('.');
        host.strip_suffix(suffix)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if suffixes.is_empty() || *host == format!("{}.{}", app.name, app.namespace) || suffixes.iter().any(fits) {
        return Ok(());
    }
    Err(format!(
        "spec.host: {host} is not allowed in this cluster; use a host that ends with {}",
        suffixes.join(" or ")
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOST: &str = "shop.example.com";

    fn claim(namespace: &str, name: &str, created: i64, path: &str) -> Claim {
        Claim {
            namespace: namespace.into(),
            name: name.into(),
            uid: format!("{namespace}/{name}"),
            created,
            wants: Some(IngressPath::new(HOST, path)),
            ..Claim::default()
        }
    }

    /// Returns the claim of an app whose Ingress exists.
    fn serving(namespace: &str, name: &str, created: i64, path: &str) -> Claim {
        Claim {
            has: vec![IngressPath::new(HOST, path)],
            ..claim(namespace, name, created, path)
        }
    }

    /// Returns the claim of an app that is being deleted and whose Ingress exists.
    fn deleting(namespace: &str, name: &str, created: i64, path: &str) -> Claim {
        Claim {
            deleting: true,
            wants: None,
            ..serving(namespace, name, created, path)
        }
    }

    fn blocked_by(claims: &[Claim], of: usize) -> Option<&str> {
        blocking_claim(&claims[of], claims.iter()).map(|claim| claim.name.as_str())
    }

    #[test]
    fn host_belongs_to_the_namespace_of_the_oldest_app() {
        let claims = [
            claim("b", "young", 2, "/"),
            claim("a", "old", 1, "/"),
            claim("a", "sister", 3, "/api"),
        ];
        assert_eq!(blocked_by(&claims, 0), Some("old"));
        assert_eq!(blocked_by(&claims, 1), None);
        assert_eq!(blocked_by(&claims, 2), None, "it shares the host by path");
    }

    #[test]
    fn path_belongs_to_the_oldest_app_of_the_namespace() {
        let claims = [claim("a", "old", 1, "/"), claim("a", "young", 2, "/")];
        assert_eq!((blocked_by(&claims, 0), blocked_by(&claims, 1)), (None, Some("old")));
    }

    #[test]
    fn smaller_uid_gets_the_host_if_both_apps_are_of_the_same_second() {
        let claims = [claim("b", "b", 1, "/"), claim("a", "a", 1, "/")];
        assert_eq!((blocked_by(&claims, 0), blocked_by(&claims, 1)), (Some("a"), None));
    }

    #[test]
    fn app_that_serves_a_host_does_not_lose_it_to_an_older_one() {
        let claims = [claim("a", "old", 1, "/"), serving("b", "young", 2, "/")];
        assert_eq!((blocked_by(&claims, 0), blocked_by(&claims, 1)), (Some("young"), None));
    }

    #[test]
    fn app_that_is_being_deleted_keeps_its_host_and_gets_no_other() {
        let claims = [deleting("a", "old", 1, "/"), claim("b", "young", 2, "/")];
        assert_eq!(blocked_by(&claims, 1), Some("old"), "its Ingress still serves");
        // The Ingress of the older app was changed by another client.
        let claims = [deleting("a", "old", 1, "/"), serving("b", "young", 2, "/")];
        assert_eq!(blocked_by(&claims, 1), None);
        // In the namespace, the path is blocked as well.
        let claims = [
            deleting("a", "old", 1, "/"),
            claim("a", "next", 2, "/"),
            claim("a", "other", 3, "/api"),
        ];
        assert_eq!((blocked_by(&claims, 1), blocked_by(&claims, 2)), (Some("old"), None));
    }

    #[test]
    fn ingress_of_a_deleted_app_blocks_other_namespaces() {
        let orphan = Claim {
            deleting: false,
            uid: String::new(),
            created: i64::MAX,
            ..deleting("a", "old", 1, "/")
        };
        let claims = [orphan, claim("b", "heir", 1, "/"), claim("a", "next", 2, "/")];
        assert_eq!(blocked_by(&claims, 1), Some("old"));
        assert_eq!(blocked_by(&claims, 2), None, "the host stays in the namespace");
    }

    #[test]
    fn default_host_belongs_to_its_app() {
        let of = |namespace: &str, name: &str, created: i64| Claim {
            wants: Some(IngressPath::new("shop.team-a", "/")),
            ..claim(namespace, name, created, "/")
        };
        let mut claims = [
            of("team-b", "thief", 1),
            of("team-a", "shop", i64::MAX),
            of("team-a", "late", 2),
        ];
        assert_eq!(blocked_by(&claims, 0), Some("shop"));
        assert_eq!(blocked_by(&claims, 1), None);
        assert_eq!(blocked_by(&claims, 2), Some("shop"));
        claims[0].has = vec![IngressPath::new("shop.team-a", "/")];
        assert_eq!(
            blocked_by(&claims, 0),
            Some("shop"),
            "its Ingress must be deleted first"
        );
        assert_eq!(
            blocked_by(&claims, 1),
            Some("thief"),
            "the default host is blocked until then"
        );
    }

    /// The second app can't have the host, so it does not block the third.
    #[test]
    fn blocked_claim_does_not_block_others() {
        let claims = [
            claim("a", "first", 1, "/x"),
            claim("b", "second", 2, "/"),
            claim("a", "third", 3, "/"),
        ];
        assert_eq!(blocked_by(&claims, 1), Some("first"));
        assert_eq!(blocked_by(&claims, 2), None);
    }

    fn app(host: &str, deleting: bool) -> AppDeploy {
        let mut app = json!({"metadata": {"name": "shop", "namespace": "a", "uid": "u1",
            "creationTimestamp": "1970-01-01T00:00:07Z"}, "spec": {"image": "nginx", "port": 80, "host": host}});
        if deleting {
            app["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(app).unwrap()
    }

    fn ingress(host: &str, controller: &str) -> Child {
        let meta = json!({"name": "shop", "ownerReferences": [
            {"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": controller, "uid": "u1", "controller": true}]});
        let data = json!({"spec": {"rules": [{"host": host, "http": {"paths": [{"path": "/api/"}, {"path": "/b"}]}}]}});
        Child::read(&crate::children::INGRESS, &serde_json::from_value(meta).unwrap(), &data)
    }

    #[test]
    fn claim_has_the_host_of_the_spec_and_the_paths_of_the_ingress() {
        let read = |app: Option<&AppDeploy>, ingress: Option<&Child>| Claim::read("a", "shop", app, ingress);
        let (new, old) = (app("new.example.com", false), ingress("old.example.com", "shop"));
        let claim = read(Some(&new), Some(&old)).unwrap();
        assert_eq!((claim.created, claim.uid.as_str()), (7, "u1"));
        assert_eq!(claim.wants, Some(IngressPath::new("new.example.com", "/")));
        let places = ["/api", "/b"].map(|path| IngressPath::new("old.example.com", path));
        assert_eq!(claim.has, places);

        let deleted = app("new.example.com", true);
        let claim = read(Some(&deleted), Some(&old)).unwrap();
        assert_eq!((claim.wants, claim.has), (None, places.to_vec()));
        assert_eq!(read(Some(&deleted), None), None, "it never had an Ingress");
        assert_eq!(read(None, Some(&old)).unwrap().has, places, "its app was deleted");
        assert_eq!(
            read(None, Some(&ingress("old.example.com", "blog"))),
            None,
            "another app's"
        );
        assert_eq!(read(Some(&app("*", false)), None), None, "an invalid host");
    }

    #[test]
    fn blocked_app_is_returned_when_its_host_becomes_free() {
        let mut claims = Claims::default();
        let [old, young] = ["old", "young"];
        assert_eq!(claims.update(&young, Some(claim("b", "young", 2, "/"))), [""; 0]);
        assert_eq!(claims.conflict(&young), None);
        assert_eq!(claims.update(&old, Some(claim("a", "old", 1, "/"))), [young]);
        assert_eq!(claims.conflict(&young).unwrap().1.name, "old");
        assert_eq!(
            claims.update(&old, Some(claim("a", "old", 1, "/"))),
            [""; 0],
            "nothing is new"
        );
        let mut moved = claim("a", "old", 1, "/");
        moved.wants = Some(IngressPath::new("other.example.com", "/"));
        assert_eq!(claims.update(&old, Some(moved)), [young]);
        assert_eq!(claims.conflict(&young), None);
        assert_eq!(claims.update(&young, None), [""; 0]);
    }

    #[test]
    fn only_one_of_two_concurrent_writes_gets_the_host() {
        let mut claims = Claims::default();
        claims.update(&"young", Some(claim("b", "young", 2, "/")));
        assert_eq!(claims.reserve(&"young"), Ok(vec![]));
        claims.update(&"old", Some(claim("a", "old", 1, "/")));
        assert_eq!(claims.reserve(&"old").unwrap_err().1.name, "young");
        // The write failed.
        assert_eq!(claims.release(&"young", Some(claim("b", "young", 2, "/"))), ["old"]);
        assert_eq!(claims.reserve(&"old"), Ok(vec![]));
        let done = claims.release(&"old", Some(serving("a", "old", 1, "/")));
        assert_eq!(done, [""; 0], "the reservation had the same effect");
        assert_eq!(claims.reserve(&"young").unwrap_err().1.name, "old");
    }

    #[test]
    fn apps_that_share_a_host_do_not_requeue_each_other() {
        let mut claims = Claims::default();
        for (name, path) in [("one", "/"), ("two", "/api")] {
            claims.update(&name, Some(claim("a", name, 1, path)));
        }
        for (name, path) in [("one", "/"), ("two", "/api"), ("one", "/")] {
            assert_eq!(claims.reserve(&name), Ok(vec![]));
            assert_eq!(claims.release(&name, Some(serving("a", name, 1, path))), [""; 0]);
        }
    }

    #[test]
    fn reservation_outlives_its_app_during_a_write() {
        let mut claims = Claims::default();
        claims.update(&"old", Some(claim("a", "old", 1, "/")));
        claims.update(&"heir", Some(claim("b", "heir", 2, "/")));
        assert_eq!(claims.reserve(&"old"), Ok(vec![]));
        claims.update(&"old", None);
        assert!(
            claims.reserve(&"heir").is_err(),
            "the Ingress may be created any moment"
        );
        assert_eq!(claims.release(&"old", None), ["heir"]);
        assert_eq!(claims.reserve(&"heir"), Ok(vec![]));
    }

    /// The response to the write was lost. After that the app is unchanged, has another host, or was deleted.
    #[test]
    fn write_without_a_known_result_blocks_the_host() {
        let asks = |namespace: &str, name: &str| claim(namespace, name, 1, "/");
        let moved = Claim {
            wants: Some(IngressPath::new("other.example.com", "/")),
            ..asks("a", "old")
        };
        for later in [Some(asks("a", "old")), Some(moved), None] {
            let mut claims = Claims::default();
            claims.update(&"old", Some(asks("a", "old")));
            claims.update(&"heir", Some(asks("b", "heir")));
            assert_eq!(claims.reserve(&"old"), Ok(vec![]));
            claims.begin_write(&"old");
            claims.release(&"old", later.clone());
            assert!(claims.is_unverified(&"old") && claims.reserve(&"heir").is_err());
            claims.end_write(&"old");
            assert_eq!(claims.release(&"old", None), ["heir"], "{later:?}");
            assert_eq!(claims.reserve(&"heir"), Ok(vec![]));
        }
    }

    #[test]
    fn watched_ingress_needs_no_read() {
        let mut claims = Claims::default();
        claims.update(&"shop", Some(claim("a", "shop", 1, "/")));
        assert_eq!(claims.reserve(&"shop"), Ok(vec![]));
        claims.begin_write(&"shop");
        assert!(claims.is_unverified(&"shop"));
        claims.update(&"shop", Some(serving("a", "shop", 1, "/")));
        assert!(!claims.is_unverified(&"shop"), "the watch has shown the Ingress");
    }

    #[test]
    fn ingress_that_is_deleted_during_a_reconcile_does_not_free_the_host() {
        let mut claims = Claims::default();
        claims.update(&"young", Some(serving("b", "young", 2, "/")));
        claims.update(&"old", Some(claim("a", "old", 1, "/")));
        assert_eq!(claims.reserve(&"young"), Ok(vec![]));
        claims.update(&"young", Some(claim("b", "young", 2, "/")));
        assert!(claims.reserve(&"old").is_err(), "the Ingress is about to be recreated");
    }

    /// The reservation was made for a deleted app of the same name.
    #[test]
    fn reservation_does_not_outrank_an_ingress() {
        let inherits = Claim {
            reserved: Some(IngressPath::new(HOST, "/")),
            ..claim("a", "again", 1, "/")
        };
        let claims = [inherits, serving("a", "neighbour", 2, "/")];
        assert_eq!(
            (blocked_by(&claims, 0), blocked_by(&claims, 1)),
            (Some("neighbour"), None)
        );
    }

    #[test]
    fn allowed_suffixes_match_whole_labels() {
        let allowed = |host: &str| allowed(&validate(&app(host, false)).unwrap(), &["example.com".into()]).is_ok();
        assert!(allowed("example.com") && allowed("shop.example.com"));
        assert!(allowed("shop.a"), "the default host");
        assert!(!allowed("badexample.com") && !allowed("example.org"));
    }
}

//! Which application a host belongs to. Two Ingresses with one host would take requests from each other, and a user who may
//! create an AppDeploy could take those of another namespace.
//!
//! Two things count: what applications ask for in their spec ([`Claim::wants`]), and which Ingresses exist ([`Claim::has`]).
//! A host that an Ingress serves is not given to another namespace before that Ingress has lost it, whatever has become of
//! its application in the meantime.

mod claims;

use std::collections::BTreeSet;

use crd::AppDeploy;

pub use self::claims::Claims;
use crate::observed::Child;
use crate::{Failure, Valid, validate};

/// A host and the path below which an application answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The host.
    pub host: String,
    /// The path, without a slash at its end: to an Ingress both are the same.
    pub path: String,
}

impl Place {
    /// Names a place.
    #[must_use]
    pub fn new(host: &str, path: &str) -> Self {
        Self {
            host: host.to_owned(),
            path: match path.trim_end_matches('/') {
                "" => "/".to_owned(),
                path => path.to_owned(),
            },
        }
    }

    /// Returns the place that an application asks for, if it is to have an Ingress.
    #[must_use]
    pub fn of(app: &Valid<'_>) -> Option<Self> {
        let ingress = app.route.as_ref()?.ingress.as_ref()?;
        Some(Self::new(&ingress.host, &ingress.path))
    }
}

/// What an application asks for, and what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity, which decides between two of the same age. Empty once the application was deleted.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// It is being deleted.
    pub deleting: bool,
    /// The place that its spec asks for. `None` for one that is being deleted, that can have no Ingress, or that was deleted.
    pub wants: Option<Place>,
    /// The places that its Ingress has, until the Ingress is gone.
    pub has: Vec<Place>,
    /// The place that a reconcile may give its Ingress.
    pub reserved: Option<Place>,
    /// A write with the reserved place was sent, and its result is not known.
    pub sent: bool,
}

impl Claim {
    /// Reads what is known of an application and of the Ingress of its name. Returns `None` if neither concerns a host.
    ///
    /// An application that is being deleted asks for nothing: no child of it is written any more, and its author must not
    /// take a host by changing the spec of one that a finalizer keeps. What its Ingress has it keeps as long as the Ingress
    /// exists. One that was created in deletion never gets an Ingress, and so never stands in the way of another one.
    #[must_use]
    pub fn read(namespace: &str, name: &str, app: Option<&AppDeploy>, ingress: Option<&Child>) -> Option<Self> {
        let meta = app.map(|app| &app.metadata);
        let deleting = meta.is_some_and(|meta| meta.deletion_timestamp.is_some());
        let wanted = app
            .filter(|_| !deleting)
            .and_then(|app| Place::of(&validate(app).ok()?));
        let created = meta.and_then(|meta| meta.creation_timestamp.as_ref());
        let claim = Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: meta.and_then(|meta| meta.uid.clone()).unwrap_or_default(),
            created: created.map_or(i64::MAX, |time| time.0.as_second()),
            deleting,
            wants: wanted,
            // That of a predecessor, too: it serves until the garbage collector has removed it.
            has: ingress
                .filter(|child| child.is_of_app(name))
                .map_or_else(Vec::new, |child| child.places().to_vec()),
            reserved: None,
            sent: false,
        };
        (claim.wants.is_some() || !claim.has.is_empty()).then_some(claim)
    }

    fn wants_host(&self, host: &str) -> bool {
        self.wants.as_ref().is_some_and(|place| place.host == host)
    }

    fn has_host(&self, host: &str) -> bool {
        self.has.iter().chain(&self.reserved).any(|place| place.host == host)
    }

    /// Whether its Ingress, which is known to have these places, may have the reserved one as well.
    fn is_unverified_by(&self, has: &[Place]) -> bool {
        self.sent && self.reserved.as_ref().is_some_and(|place| !has.contains(place))
    }

    /// Returns all hosts that this concerns.
    fn hosts(&self) -> impl Iterator<Item = &str> {
        let places = self.wants.iter().chain(&self.has).chain(&self.reserved);
        places.map(|place| place.host.as_str())
    }

    /// Returns the order in which a host is given. First comes the application whose default host it is, because
    /// it has no other. Then the ones that ask for it and have it; then the ones that ask for it and have reserved it. Then those
    /// that have it without asking, because they are in deletion, were deleted, or are moving to another host: they take nothing
    /// from the ones before, and the ones after wait for them. Then, by age, the ones that ask for it.
    fn rank(&self, host: &str) -> (bool, Standing, i64, &str) {
        let serves = self.has.iter().any(|place| place.host == host);
        let standing = match (self.wants_host(host), self.has_host(host)) {
            (true, true) if serves => Standing::Serves,
            // Perhaps before its spec left the host to a neighbour, or for an app of its name that was deleted.
            (true, true) => Standing::Reserves,
            (_, true) => Standing::Lingers,
            _ => Standing::Asks,
        };
        let is_default = self.wants_host(host) && host == format!("{}.{}", self.name, self.namespace);
        (!is_default, standing, self.created, &self.uid)
    }

    /// Returns what of it can make a difference to others.
    fn effect(&self) -> impl PartialEq + use<'_> {
        let has: BTreeSet<&Place> = self.has.iter().chain(&self.reserved).collect();
        (self.wants.as_ref(), has, self.deleting, self.created, self.uid.as_str())
    }

    fn is(&self, other: &Self) -> bool {
        (&self.namespace, &self.name) == (&other.namespace, &other.name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Serves,
    Reserves,
    Lingers,
    Asks,
}

/// Returns the application that keeps this one from what it asks for; `None` if it can have it.
///
/// A host belongs to one namespace. There, applications share it by path, and a path belongs to one application.
/// An application that serves a host loses it only to the one whose default host it is, and that one waits until no other
/// namespace has an Ingress with the host. `others` are the claims that concern the host.
#[must_use]
pub fn rival<'a>(claim: &Claim, others: impl Iterator<Item = &'a Claim> + Clone) -> Option<&'a Claim> {
    let place = claim.wants.as_ref()?;
    let host = place.host.as_str();
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
    // One that was deleted, or is moving, releases the path to its neighbour right away: nothing is taken from anybody.
    let of_the_path = |other: &&Claim| {
        let keeps = other.deleting && other.has.contains(place);
        other.namespace == claim.namespace && (other.wants.as_ref() == Some(place) || keeps)
    };
    before.filter(of_the_path).min_by_key(|other| other.rank(host))
}

/// Says that an application can't have what it claims.
#[must_use]
pub fn conflict(claim: &Claim, rival: &Claim) -> Failure {
    let what = if rival.namespace == claim.namespace {
        claim
            .wants
            .as_ref()
            .map_or_else(String::new, |place| format!("{}{}", place.host, place.path))
    } else {
        claim.wants.as_ref().map(|place| place.host.clone()).unwrap_or_default()
    };
    let owner = if rival.namespace == claim.namespace {
        format!("AppDeploy {}", rival.name)
    } else {
        // Who it is is nobody's business in another namespace; that there is one shows anyway.
        "an AppDeploy of another namespace".to_owned()
    };
    Failure::HostConflict { what, owner }
}

/// Checks the host against the suffixes that an administrator allows. The default host is always allowed: no two
/// applications share it.
///
/// # Errors
/// Says which hosts are allowed.
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
            wants: Some(Place::new(HOST, path)),
            ..Claim::default()
        }
    }

    /// One whose Ingress exists.
    fn serving(namespace: &str, name: &str, created: i64, path: &str) -> Claim {
        Claim {
            has: vec![Place::new(HOST, path)],
            ..claim(namespace, name, created, path)
        }
    }

    /// One that is being deleted, with its Ingress.
    fn dying(namespace: &str, name: &str, created: i64, path: &str) -> Claim {
        Claim {
            deleting: true,
            wants: None,
            ..serving(namespace, name, created, path)
        }
    }

    fn winner(claims: &[Claim], of: usize) -> Option<&str> {
        rival(&claims[of], claims.iter()).map(|rival| rival.name.as_str())
    }

    #[test]
    fn host_belongs_to_the_namespace_of_the_oldest() {
        let claims = [
            claim("b", "young", 2, "/"),
            claim("a", "old", 1, "/"),
            claim("a", "sister", 3, "/api"),
        ];
        assert_eq!(winner(&claims, 0), Some("old"));
        assert_eq!(winner(&claims, 1), None);
        assert_eq!(winner(&claims, 2), None, "it shares the host by path");
    }

    #[test]
    fn path_belongs_to_the_oldest_of_the_namespace() {
        let claims = [claim("a", "old", 1, "/"), claim("a", "young", 2, "/")];
        assert_eq!((winner(&claims, 0), winner(&claims, 1)), (None, Some("old")));
    }

    #[test]
    fn of_the_same_second_the_smaller_uid_wins_wherever_it_is_asked() {
        let claims = [claim("b", "b", 1, "/"), claim("a", "a", 1, "/")];
        assert_eq!((winner(&claims, 0), winner(&claims, 1)), (Some("a"), None));
    }

    #[test]
    fn app_that_serves_a_host_keeps_it_from_an_older_one() {
        let claims = [claim("a", "old", 1, "/"), serving("b", "young", 2, "/")];
        assert_eq!((winner(&claims, 0), winner(&claims, 1)), (Some("young"), None));
    }

    #[test]
    fn app_in_deletion_keeps_its_host_and_takes_none() {
        let claims = [dying("a", "old", 1, "/"), claim("b", "young", 2, "/")];
        assert_eq!(winner(&claims, 1), Some("old"), "its Ingress still serves");
        // The Ingress of the older one was changed by hand.
        let claims = [dying("a", "old", 1, "/"), serving("b", "young", 2, "/")];
        assert_eq!(winner(&claims, 1), None);
        // Within the namespace a path is waited for as well.
        let claims = [
            dying("a", "old", 1, "/"),
            claim("a", "next", 2, "/"),
            claim("a", "other", 3, "/api"),
        ];
        assert_eq!((winner(&claims, 1), winner(&claims, 2)), (Some("old"), None));
    }

    #[test]
    fn ingress_of_a_deleted_app_keeps_other_namespaces_waiting() {
        let orphan = Claim {
            deleting: false,
            uid: String::new(),
            created: i64::MAX,
            ..dying("a", "old", 1, "/")
        };
        let claims = [orphan, claim("b", "heir", 1, "/"), claim("a", "next", 2, "/")];
        assert_eq!(winner(&claims, 1), Some("old"));
        assert_eq!(winner(&claims, 2), None, "the host stays in the namespace");
    }

    #[test]
    fn default_host_can_not_be_taken() {
        let of = |namespace: &str, name: &str, created: i64| Claim {
            wants: Some(Place::new("shop.team-a", "/")),
            ..claim(namespace, name, created, "/")
        };
        let mut claims = [
            of("team-b", "thief", 1),
            of("team-a", "shop", i64::MAX),
            of("team-a", "late", 2),
        ];
        assert_eq!(winner(&claims, 0), Some("shop"));
        assert_eq!(winner(&claims, 1), None);
        assert_eq!(winner(&claims, 2), Some("shop"));
        claims[0].has = vec![Place::new("shop.team-a", "/")];
        assert_eq!(winner(&claims, 0), Some("shop"), "its Ingress has to go");
        assert_eq!(winner(&claims, 1), Some("thief"), "until then it is waited for");
    }

    /// The one between may not have the host itself, and takes it from nobody.
    #[test]
    fn loser_of_the_host_is_in_nobodys_way() {
        let claims = [
            claim("a", "first", 1, "/x"),
            claim("b", "second", 2, "/"),
            claim("a", "third", 3, "/"),
        ];
        assert_eq!(winner(&claims, 1), Some("first"));
        assert_eq!(winner(&claims, 2), None);
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
    fn claim_is_what_the_spec_names_and_what_the_ingress_has() {
        let read = |app: Option<&AppDeploy>, ingress: Option<&Child>| Claim::read("a", "shop", app, ingress);
        let (new, old) = (app("new.example.com", false), ingress("old.example.com", "shop"));
        let claim = read(Some(&new), Some(&old)).unwrap();
        assert_eq!((claim.created, claim.uid.as_str()), (7, "u1"));
        assert_eq!(claim.wants, Some(Place::new("new.example.com", "/")));
        let places = ["/api", "/b"].map(|path| Place::new("old.example.com", path));
        assert_eq!(claim.has, places);

        let dying = app("new.example.com", true);
        let claim = read(Some(&dying), Some(&old)).unwrap();
        assert_eq!((claim.wants, claim.has), (None, places.to_vec()));
        assert_eq!(read(Some(&dying), None), None, "created in deletion");
        assert_eq!(read(None, Some(&old)).unwrap().has, places, "its app was deleted");
        assert_eq!(
            read(None, Some(&ingress("old.example.com", "blog"))),
            None,
            "another app's"
        );
        assert_eq!(read(Some(&app("*", false)), None), None, "an invalid host");
    }

    #[test]
    fn who_lost_a_host_is_named_when_it_becomes_free() {
        let mut claims = Claims::default();
        let [old, young] = ["old", "young"];
        assert_eq!(claims.note(&young, Some(claim("b", "young", 2, "/"))), [""; 0]);
        assert_eq!(claims.lost_by(&young), None);
        assert_eq!(claims.note(&old, Some(claim("a", "old", 1, "/"))), [young]);
        assert_eq!(claims.lost_by(&young).unwrap().1.name, "old");
        assert_eq!(
            claims.note(&old, Some(claim("a", "old", 1, "/"))),
            [""; 0],
            "nothing is new"
        );
        let mut moved = claim("a", "old", 1, "/");
        moved.wants = Some(Place::new("other.example.com", "/"));
        assert_eq!(claims.note(&old, Some(moved)), [young]);
        assert_eq!(claims.lost_by(&young), None);
        assert_eq!(claims.note(&young, None), [""; 0]);
    }

    #[test]
    fn only_one_of_two_writes_at_the_same_time_gets_the_host() {
        let mut claims = Claims::default();
        claims.note(&"young", Some(claim("b", "young", 2, "/")));
        assert_eq!(claims.reserve(&"young"), Ok(vec![]));
        claims.note(&"old", Some(claim("a", "old", 1, "/")));
        assert_eq!(claims.reserve(&"old").unwrap_err().1.name, "young");
        // The write has failed.
        assert_eq!(claims.release(&"young", Some(claim("b", "young", 2, "/"))), ["old"]);
        assert_eq!(claims.reserve(&"old"), Ok(vec![]));
        let done = claims.release(&"old", Some(serving("a", "old", 1, "/")));
        assert_eq!(done, [""; 0], "it was known since it was announced");
        assert_eq!(claims.reserve(&"young").unwrap_err().1.name, "old");
    }

    #[test]
    fn apps_that_share_a_host_do_not_wake_each_other() {
        let mut claims = Claims::default();
        for (name, path) in [("one", "/"), ("two", "/api")] {
            claims.note(&name, Some(claim("a", name, 1, path)));
        }
        for (name, path) in [("one", "/"), ("two", "/api"), ("one", "/")] {
            assert_eq!(claims.reserve(&name), Ok(vec![]));
            assert_eq!(claims.release(&name, Some(serving("a", name, 1, path))), [""; 0]);
        }
    }

    #[test]
    fn write_under_way_outlives_its_app() {
        let mut claims = Claims::default();
        claims.note(&"old", Some(claim("a", "old", 1, "/")));
        claims.note(&"heir", Some(claim("b", "heir", 2, "/")));
        assert_eq!(claims.reserve(&"old"), Ok(vec![]));
        claims.note(&"old", None);
        assert!(
            claims.reserve(&"heir").is_err(),
            "the Ingress may be created any moment"
        );
        assert_eq!(claims.release(&"old", None), ["heir"]);
        assert_eq!(claims.reserve(&"heir"), Ok(vec![]));
    }

    /// The answer to the write was lost. In the meantime the app is unchanged, names another host, or was deleted.
    #[test]
    fn write_without_a_known_result_keeps_its_host() {
        let asks = |namespace: &str, name: &str| claim(namespace, name, 1, "/");
        let moved = Claim {
            wants: Some(Place::new("other.example.com", "/")),
            ..asks("a", "old")
        };
        for later in [Some(asks("a", "old")), Some(moved), None] {
            let mut claims = Claims::default();
            claims.note(&"old", Some(asks("a", "old")));
            claims.note(&"heir", Some(asks("b", "heir")));
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
    fn ingress_that_is_seen_needs_no_read() {
        let mut claims = Claims::default();
        claims.note(&"shop", Some(claim("a", "shop", 1, "/")));
        assert_eq!(claims.reserve(&"shop"), Ok(vec![]));
        claims.begin_write(&"shop");
        assert!(claims.is_unverified(&"shop"));
        claims.note(&"shop", Some(serving("a", "shop", 1, "/")));
        assert!(!claims.is_unverified(&"shop"), "the watch has shown the Ingress");
    }

    #[test]
    fn ingress_that_is_deleted_during_a_reconcile_does_not_free_the_host() {
        let mut claims = Claims::default();
        claims.note(&"young", Some(serving("b", "young", 2, "/")));
        claims.note(&"old", Some(claim("a", "old", 1, "/")));
        assert_eq!(claims.reserve(&"young"), Ok(vec![]));
        claims.note(&"young", Some(claim("b", "young", 2, "/")));
        assert!(claims.reserve(&"old").is_err(), "the Ingress is about to be recreated");
    }

    /// The reservation is for an app of the same name that was deleted while its Ingress was written.
    #[test]
    fn reservation_does_not_outrank_an_ingress() {
        let inherits = Claim {
            reserved: Some(Place::new(HOST, "/")),
            ..claim("a", "again", 1, "/")
        };
        let claims = [inherits, serving("a", "neighbour", 2, "/")];
        assert_eq!((winner(&claims, 0), winner(&claims, 1)), (Some("neighbour"), None));
    }

    #[test]
    fn hosts_are_allowed_by_whole_labels() {
        let allowed = |host: &str| allowed(&validate(&app(host, false)).unwrap(), &["example.com".into()]).is_ok();
        assert!(allowed("example.com") && allowed("shop.example.com"));
        assert!(allowed("shop.a"), "the default host");
        assert!(!allowed("badexample.com") && !allowed("example.org"));
    }
}

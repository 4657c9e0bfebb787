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
                .filter(|child| child.is_of_app(name, name))
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
mod tests;

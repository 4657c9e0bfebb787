//! The claims of all apps, by host.

use std::collections::{BTreeMap, BTreeSet};

use super::{Claim, blocking_claim};

/// The claims of all apps. `K` is the key of an app.
///
/// An app reserves its host with [`Claims::reserve`] before its Ingress is written, so that only one of two apps that are
/// reconciled concurrently gets the host. [`Claims::release`] ends the reservation, unless the result of a write is
/// unknown: see [`Claims::is_unverified`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claims<K: Ord> {
    claims: BTreeMap<K, Box<Claim>>,
    /// The apps that ask for a host or have it, sorted. Most hosts have one.
    by_host: BTreeMap<String, Vec<K>>,
}

impl<K: Ord> Default for Claims<K> {
    fn default() -> Self {
        Self {
            claims: BTreeMap::new(),
            by_host: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Claims<K> {
    /// Stores the current claim of an app; `None` if it has no host. Returns the other apps that may get or lose a host
    /// because of it, to be reconciled.
    pub fn update(&mut self, app: &K, now: Option<Claim>) -> Vec<K> {
        let reserving = self.of(app).filter(|known| known.reserved.is_some());
        let Some(Claim {
            namespace,
            name,
            reserved,
            sent,
            ..
        }) = reserving.cloned()
        else {
            return self.replace(app, now);
        };
        // A write that was sent may still succeed after the app was deleted.
        let now = now.unwrap_or(Claim {
            namespace,
            name,
            created: i64::MAX,
            ..Claim::default()
        });
        self.replace(app, Some(Claim { reserved, sent, ..now }))
    }

    /// Returns the claim of an app and the one that blocks it, if any.
    #[must_use]
    pub fn conflict(&self, app: &K) -> Option<(&Claim, &Claim)> {
        let claim = self.of(app)?;
        Some((claim, self.blocking(claim)?))
    }

    /// Returns the claim that would block this one.
    #[must_use]
    pub fn blocking(&self, claim: &Claim) -> Option<&Claim> {
        let keys = self.by_host.get(&claim.wants.as_ref()?.host)?;
        blocking_claim(claim, keys.iter().filter_map(|key| self.of(key)))
    }

    /// Reserves the path that an app asks for, before its Ingress is written. It counts as the app's until
    /// [`Claims::release`], even if an Ingress with this path is deleted in the meantime. Returns the other apps that may
    /// get what the app had reserved before. Must not be called while [`Claims::is_unverified`].
    ///
    /// # Errors
    /// Returns the claim and the one that blocks it. Then the Ingress must not be written.
    pub fn reserve(&mut self, app: &K) -> Result<Vec<K>, Box<(Claim, Claim)>> {
        if let Some((claim, blocking)) = self.conflict(app) {
            return Err(Box::new((claim.clone(), blocking.clone())));
        }
        let Some(claim) = self.of(app) else {
            return Ok(Vec::new());
        };
        debug_assert!(
            !claim.is_unverified_by(&claim.has),
            "the Ingress may have the path that was reserved before"
        );
        let reserved = claim.wants.clone();
        let drops = claim.reserved.is_some() && claim.reserved != reserved;
        let now = Claim {
            reserved,
            sent: false,
            ..claim.clone()
        };
        let others = self.replace(app, Some(now));
        Ok(if drops { others } else { Vec::new() })
    }

    /// Records that a request with the reserved path is about to be sent.
    pub fn begin_write(&mut self, app: &K) {
        self.mark(app, true);
    }

    /// Records that the result of the last write is known, from its response or from a read of the Ingress.
    pub fn end_write(&mut self, app: &K) {
        self.mark(app, false);
    }

    fn mark(&mut self, app: &K, sent: bool) {
        if let Some(claim) = self.claims.get_mut(app) {
            claim.sent = sent;
        }
    }

    /// Whether the Ingress of an app may have the reserved path although the cache does not show it, because the response
    /// to the last write was lost. Then the Ingress must be read from the API server first.
    #[must_use]
    pub fn is_unverified(&self, app: &K) -> bool {
        self.claims
            .get(app)
            .is_some_and(|claim| claim.is_unverified_by(&claim.has))
    }

    /// Ends the reservation of an app and stores its current claim. The reservation stays while [`Claims::is_unverified`].
    /// Returns the other apps that may get a host because of it.
    pub fn release(&mut self, app: &K, now: Option<Claim>) -> Vec<K> {
        let has = now.as_ref().map_or(&[][..], |now| &now.has);
        if self.claims.get(app).is_some_and(|claim| claim.is_unverified_by(has)) {
            return self.update(app, now);
        }
        self.replace(app, now)
    }

    /// Returns the claim of an app.
    #[must_use]
    pub fn of(&self, app: &K) -> Option<&Claim> {
        self.claims.get(app).map(Box::as_ref)
    }

    fn replace(&mut self, app: &K, now: Option<Claim>) -> Vec<K> {
        if self.of(app) == now.as_ref() {
            return Vec::new();
        }
        let before = self.claims.remove(app).map(|claim| *claim);
        // A finished write changes nothing for other apps, because the reservation had the same effect. Otherwise two apps
        // that share a host would requeue each other indefinitely.
        let is_changed = before.as_ref().map(Claim::effect) != now.as_ref().map(Claim::effect);
        let mut affected = BTreeSet::new();
        for host in before.iter().flat_map(Claim::hosts) {
            if let Some(keys) = self.by_host.get_mut(host) {
                keys.retain(|key| key != app);
                affected.extend(keys.iter().cloned());
                if keys.is_empty() {
                    self.by_host.remove(host);
                }
            }
        }
        for host in now.iter().flat_map(Claim::hosts) {
            let keys = self.by_host.entry(host.to_owned()).or_default();
            affected.extend(keys.iter().cloned());
            if let Err(place) = keys.binary_search(app) {
                keys.reserve_exact(1);
                keys.insert(place, app.clone());
            }
        }
        if let Some(now) = now {
            self.claims.insert(app.clone(), now.into());
        }
        affected.remove(app);
        affected.into_iter().filter(|_| is_changed).collect()
    }
}

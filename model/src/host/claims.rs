//! The claims of all applications, by host.

use std::collections::{BTreeMap, BTreeSet};

use super::{Claim, rival};

/// The claims of all applications. `K` names an application.
///
/// An application reserves its host with [`Claims::reserve`] before its Ingress is written, so that of two applications that
/// are reconciled at the same time only one gets the host. [`Claims::release`] ends the reservation, but not while the result of
/// a write is unknown: see [`Claims::is_unverified`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claims<K: Ord> {
    claims: BTreeMap<K, Claim>,
    by_host: BTreeMap<String, BTreeSet<K>>,
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
    /// Stores what is known of an application now, `None` if nothing of it concerns a host. Returns the other applications
    /// that may have or not have a host because of it.
    pub fn note(&mut self, app: &K, now: Option<Claim>) -> Vec<K> {
        let reserving = self.claims.get(app).filter(|known| known.reserved.is_some());
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
        // A write that is under way is not undone by the deletion of the application.
        let now = now.unwrap_or(Claim {
            namespace,
            name,
            created: i64::MAX,
            ..Claim::default()
        });
        self.replace(app, Some(Claim { reserved, sent, ..now }))
    }

    /// Returns what an application asks for and who keeps it from it, if it can't have it.
    #[must_use]
    pub fn lost_by(&self, app: &K) -> Option<(&Claim, &Claim)> {
        let claim = self.claims.get(app)?;
        Some((claim, self.rival(claim)?))
    }

    /// Returns who would keep an application from what it asks for, by what is known of all others.
    #[must_use]
    pub fn rival(&self, claim: &Claim) -> Option<&Claim> {
        let keys = self.by_host.get(&claim.wants.as_ref()?.host)?;
        rival(claim, keys.iter().filter_map(|key| self.claims.get(key)))
    }

    /// Reserves the place that an application asks for, before its Ingress is written. Until [`Claims::release`] it counts as
    /// having the place, also if its Ingress, which has the place already, is deleted in the meantime. Returns the other
    /// applications that may have what it had reserved before. Must not be called while it [`Claims::is_unverified`].
    ///
    /// # Errors
    /// Returns what it asks for and who keeps it from it. Then nothing must be written.
    pub fn reserve(&mut self, app: &K) -> Result<Vec<K>, Box<(Claim, Claim)>> {
        if let Some((claim, rival)) = self.lost_by(app) {
            return Err(Box::new((claim.clone(), rival.clone())));
        }
        let Some(claim) = self.claims.get(app) else {
            return Ok(Vec::new());
        };
        debug_assert!(
            !claim.is_unverified_by(&claim.has),
            "the Ingress may have the place that was reserved before"
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

    /// Records that a request is about to be sent that gives the Ingress of an application the reserved place.
    pub fn begin_write(&mut self, app: &K) {
        self.mark(app, true);
    }

    /// Records that the result of the last write is known: it was answered, or the Ingress was read since.
    pub fn end_write(&mut self, app: &K) {
        self.mark(app, false);
    }

    fn mark(&mut self, app: &K, sent: bool) {
        if let Some(claim) = self.claims.get_mut(app) {
            claim.sent = sent;
        }
    }

    /// Whether the Ingress of an application may have a place that is reserved, without being known to have it: the answer to
    /// the last write was lost. Then the Ingress must be read from the API server before anything else is done.
    #[must_use]
    pub fn is_unverified(&self, app: &K) -> bool {
        self.claims
            .get(app)
            .is_some_and(|claim| claim.is_unverified_by(&claim.has))
    }

    /// Ends the reservation of an application, with what is known of the application now. The reservation stays while the
    /// application [`Claims::is_unverified`]. Returns the other applications that may have a host because of it.
    pub fn release(&mut self, app: &K, now: Option<Claim>) -> Vec<K> {
        let has = now.as_ref().map_or(&[][..], |now| &now.has);
        if self.claims.get(app).is_some_and(|claim| claim.is_unverified_by(has)) {
            return self.note(app, now);
        }
        self.replace(app, now)
    }

    /// Returns the claim of an application.
    #[must_use]
    pub fn of(&self, app: &K) -> Option<&Claim> {
        self.claims.get(app)
    }

    fn replace(&mut self, app: &K, now: Option<Claim>) -> Vec<K> {
        if self.claims.get(app) == now.as_ref() {
            return Vec::new();
        }
        let before = self.claims.remove(app);
        // A finished write that was announced wakes no other application: two applications that share a host would else wake each
        // other without end.
        let is_news = before.as_ref().map(Claim::effect) != now.as_ref().map(Claim::effect);
        let mut concerned = BTreeSet::new();
        for host in before.iter().flat_map(Claim::hosts) {
            if let Some(keys) = self.by_host.get_mut(host) {
                keys.remove(app);
                concerned.extend(keys.iter().cloned());
                if keys.is_empty() {
                    self.by_host.remove(host);
                }
            }
        }
        for host in now.iter().flat_map(Claim::hosts) {
            let keys = self.by_host.entry(host.to_owned()).or_default();
            concerned.extend(keys.iter().cloned());
            keys.insert(app.clone());
        }
        if let Some(now) = now {
            self.claims.insert(app.clone(), now);
        }
        concerned.remove(app);
        concerned.into_iter().filter(|_| is_news).collect()
    }
}

//! Which apps claim which host and which have it, so that a waiting app is reconciled when its host becomes free.

use std::sync::{Mutex, MutexGuard, PoisonError};

use model::Valid;
use model::children::INGRESS;
use model::host::{Claim, Claims};
use model::ingress_path::IngressPath;

use super::Stores;
use crate::key::Key;
use crate::primary::Root;

/// The claims of all apps.
#[derive(Debug, Default)]
pub struct Hosts(Mutex<Claims<Key>>);

/// The operator has just started, and does not know all claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotListed;

impl Hosts {
    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Claims<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The caches are read under the lock of the claims: of two threads that store a claim, the second one reads the newer object. No lock
/// of a cache is held while waiting for the claims.
impl Stores {
    /// Updates the claim of an app from the caches. Returns the other apps that may get or lose a host because of it.
    pub fn note_host(&self, app: &Key) -> Vec<Key> {
        let mut claims = self.hosts.lock();
        let now = self.claim(app);
        claims.update(app, now)
    }

    /// Reserves the claimed host and path of an app, before its Ingress is written. Returns the other apps that may get what the
    /// app had reserved before. Must not be called while the host is unverified ([`Stores::host_is_unverified`]).
    ///
    /// # Errors
    /// Returns its claim and the claim that blocks it. Then no Ingress must be written.
    pub fn reserve_host(&self, app: &Key) -> Result<Vec<Key>, Box<(Claim, Claim)>> {
        self.hosts.lock().reserve(app)
    }

    /// Records that an Ingress with the reserved place is about to be written.
    pub fn begin_ingress_write(&self, app: &Key) {
        self.hosts.lock().begin_write(app);
    }

    /// Records that the result of that write is in the cache.
    pub fn end_ingress_write(&self, app: &Key) {
        self.hosts.lock().end_write(app);
    }

    /// Whether the Ingress of an app may have a host that no watch has reported: the answer to the last write was lost. Then the Ingress
    /// must be read first.
    #[must_use]
    pub fn host_is_unverified(&self, app: &Key) -> bool {
        self.hosts.lock().is_unverified(app)
    }

    /// Ends the reservation of an app, unless its host is unverified. Returns the other apps that may have a host because of it.
    pub fn release_host(&self, app: &Key) -> Vec<Key> {
        let mut claims = self.hosts.lock();
        let now = self.claim(app);
        claims.release(app, now)
    }

    /// Returns the claim of an app with its new spec, and the claim that blocks it, if any. Existing claims have precedence, except
    /// over the hosts of the app's Ingress.
    ///
    /// # Errors
    /// Returns an error if apps or Ingresses were not listed yet: one of them may have the host.
    pub fn blocking_claim(&self, app: &Valid<'_>) -> Result<Option<(Claim, Claim)>, NotListed> {
        let Some(wants) = IngressPath::of(app) else {
            return Ok(None);
        };
        if !self.apps.health.is_usable() || !self.children.of(&INGRESS).health.is_usable() {
            return Err(NotListed);
        }
        let claims = self.hosts.lock();
        let key = Key::new(&app.namespace, &app.name);
        let claim = Claim {
            namespace: app.namespace.clone(),
            name: app.name.clone(),
            uid: app.uid.clone(),
            created: i64::MAX,
            wants: Some(wants),
            has: claims.of(&key).map(|claim| claim.has.clone()).unwrap_or_default(),
            ..Claim::default()
        };
        let blocking = claims.blocking(&claim).cloned();
        Ok(blocking.map(|blocking| (claim, blocking)))
    }

    fn claim(&self, app: &Key) -> Option<Claim> {
        let root = self.apps.cache.get(app);
        let object = root.as_ref().and_then(|root| match root {
            Root::Readable(object) => Some(&**object),
            Root::Unreadable { .. } => None,
        });
        let ingress = self.children.of(&INGRESS).cache.get(app);
        Claim::read(&app.namespace, &app.name, object, ingress.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use serde_json::json;

    use super::*;
    use crate::cache::Item;

    fn item(version: u64, host: &str) -> Item<Root<crd::AppDeploy>> {
        let app = json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "shop", "namespace": "a", "uid": "u1"},
            "spec": {"image": "nginx", "port": 80, "host": host},
        });
        let key = Key::new("a", "shop");
        Item {
            owners: [key.clone()].into(),
            key,
            version: version.to_string(),
            value: Root::Readable(Arc::new(serde_json::from_value(app).unwrap())),
        }
    }

    /// A watch and the answer to a write report an app concurrently.
    #[test]
    fn claims_are_never_older_than_the_cache() {
        let (stores, key) = (Stores::default(), Key::new("a", "shop"));
        for round in 1..2000 {
            thread::scope(|scope| {
                for version in [2 * round, 2 * round + 1] {
                    let (stores, key) = (&stores, &key);
                    scope.spawn(move || {
                        stores
                            .apps
                            .cache
                            .upsert(item(version, &format!("host-{version}.example.com")));
                        stores.note_host(key);
                    });
                }
            });
            let known = stores
                .hosts
                .lock()
                .of(&key)
                .and_then(|claim| claim.wants.clone())
                .unwrap();
            assert_eq!(known.host, format!("host-{}.example.com", 2 * round + 1));
        }
    }
}

//! Which applications claim which host, so that whoever loses one learns when it becomes free.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crd::AppDeploy;
use model::host::{Claim, rival};
use model::validate;

use crate::key::Key;
use crate::primary::Root;
use crate::seeded::{self, Bug};

/// The claims of all applications.
#[derive(Debug, Default)]
pub struct Hosts(Mutex<Claims>);

#[derive(Debug, Default)]
struct Claims {
    by_host: HashMap<String, BTreeMap<Key, Claim>>,
    hosts: HashMap<Key, String>,
}

impl Hosts {
    /// Takes in what is known of an application: nothing, if it is gone. Returns the others whom the change concerns.
    pub fn note(&self, app: &Key, root: Option<&Root<AppDeploy>>) -> Vec<Key> {
        if root.is_none() && seeded::is(Bug::HostKept) {
            return Vec::new();
        }
        let claim = root.and_then(claim);
        let mut claims = self.lock();
        let before = claims.of(app).cloned();
        if before == claim {
            return Vec::new();
        }
        let mut concerned = claims.withdraw(app);
        if let Some(claim) = claim {
            concerned.extend(claims.make(app, claim));
        }
        concerned
    }

    /// Returns what an application claims and who has it, if it is another one.
    #[must_use]
    pub fn lost_by(&self, app: &Key) -> Option<(Claim, Claim)> {
        let claims = self.lock();
        let claim = claims.of(app)?;
        Some((claim.clone(), claims.rival(claim)?.clone()))
    }

    /// Returns who has what would be claimed, if it is another one.
    #[must_use]
    pub fn rival(&self, claim: &Claim) -> Option<Claim> {
        self.lock().rival(claim).cloned()
    }

    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Claims> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claims {
    fn of(&self, app: &Key) -> Option<&Claim> {
        self.by_host.get(self.hosts.get(app)?)?.get(app)
    }

    fn rival(&self, claim: &Claim) -> Option<&Claim> {
        rival(claim, self.by_host.get(&claim.host)?.values())
    }

    fn withdraw(&mut self, app: &Key) -> Vec<Key> {
        let Some(host) = self.hosts.remove(app) else {
            return Vec::new();
        };
        let Some(claims) = self.by_host.get_mut(&host) else {
            return Vec::new();
        };
        claims.remove(app);
        let others = claims.keys().cloned().collect();
        if claims.is_empty() {
            self.by_host.remove(&host);
        }
        others
    }

    fn make(&mut self, app: &Key, claim: Claim) -> Vec<Key> {
        self.hosts.insert(app.clone(), claim.host.clone());
        let claims = self.by_host.entry(claim.host.clone()).or_default();
        let others = claims.keys().cloned().collect();
        claims.insert(app.clone(), claim);
        others
    }
}

fn claim(root: &Root<AppDeploy>) -> Option<Claim> {
    let Root::Readable(app) = root else { return None };
    let created = app
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(0, |time| time.0.as_second());
    Claim::of(&validate(app).ok()?, created)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn root(name: &str, created: &str, host: &str) -> Root<AppDeploy> {
        let app = json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": name, "namespace": name, "uid": name, "creationTimestamp": created},
            "spec": {"image": "nginx", "port": 80, "host": host},
        });
        Root::Readable(Arc::new(serde_json::from_value(app).unwrap()))
    }

    #[test]
    fn who_lost_a_host_is_told_when_it_becomes_free() {
        let hosts = Hosts::default();
        let (old, young) = (Key::new("old", "old"), Key::new("young", "young"));
        assert!(
            hosts
                .note(&young, Some(&root("young", "2026-01-02T00:00:00Z", "a.b")))
                .is_empty()
        );
        assert_eq!(hosts.lost_by(&young), None);
        let early = root("old", "2026-01-01T00:00:00Z", "a.b");
        assert_eq!(hosts.note(&old, Some(&early)), std::slice::from_ref(&young));
        assert_eq!(hosts.lost_by(&young).unwrap().1.name, "old");
        assert!(hosts.note(&old, Some(&early)).is_empty(), "nothing is new");
        assert_eq!(
            hosts.note(&old, Some(&root("old", "2026-01-01T00:00:00Z", "c.d"))),
            std::slice::from_ref(&young)
        );
        assert_eq!(hosts.lost_by(&young), None);
        assert!(hosts.note(&young, None).is_empty());
    }
}

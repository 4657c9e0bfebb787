//! A Secret and its clients, with a simulated clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};

use crate::webhook::certificate::life::{Action, Next, SecretState, next};
use crate::webhook::certificate::material::{Data, Material, provider};
use crate::webhook::certificate::{Lifetimes, key, names};

pub const BEGIN: i64 = 1_800_000_000;

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(BEGIN + second).unwrap()
}

/// Lifetimes of seconds, in the usual proportions.
pub fn short() -> Lifetimes {
    Lifetimes {
        authority: Duration::from_secs(3000),
        certificate: Duration::from_secs(600),
        overlap: Duration::from_secs(50),
        skew: Duration::from_secs(5),
    }
}

/// A Secret, the authorities that its clients trust, and the actions so far.
pub struct Life {
    lifetimes: Lifetimes,
    pub names: [String; 4],
    pub data: Data,
    pub now: Timestamp,
    /// The current authorities, each with the time since it exists.
    pub trusted: BTreeMap<String, Timestamp>,
    /// The current certificate, and since when.
    pub served: (String, Timestamp),
    before: Option<String>,
    pub done: Vec<Action>,
}

impl Life {
    pub fn new(lifetimes: Lifetimes) -> Self {
        let mut life = Self {
            lifetimes,
            names: names("appdeploy-system"),
            data: Data::new(),
            now: at(0),
            trusted: BTreeMap::new(),
            served: (String::new(), at(0)),
            before: None,
            done: Vec::new(),
        };
        assert_eq!(life.settle(true), [Action::Create]);
        life.before = None;
        life
    }

    pub fn material(&self) -> Material {
        Material::read(&self.data, &self.names)
    }

    pub fn next(&self, is_published: bool) -> Next {
        next(&self.material().state, &self.lifetimes, self.now, is_published)
    }

    /// Carries out the actions that are due, and returns them.
    pub fn settle(&mut self, is_published: bool) -> Vec<Action> {
        let mut done = Vec::new();
        while let Next::Act(action) = self.next(is_published) {
            let SecretState { authorities, leaf, .. } = self.material().state;
            if action == Action::AddAuthority
                && let Some(leaf) = leaf
                && self.now + 4 * self.lifetimes.overlap < authorities[0].end
            {
                assert!(
                    self.now + 2 * self.lifetimes.overlap < leaf.span.end,
                    "the certificate lasts"
                );
            }
            let new = self
                .material()
                .act(action, &self.lifetimes, &self.names, self.now)
                .unwrap();
            self.data.extend(new);
            let now = self.now;
            let bundle = self.material().bundle();
            let all: Vec<String> = pem::parse_many(bundle).unwrap().iter().map(pem::encode).collect();
            self.trusted.retain(|authority, _| all.contains(authority));
            for authority in all {
                self.trusted.entry(authority).or_insert(now);
            }
            let certificate = self.text(key::CERTIFICATE);
            if certificate != self.served.0 {
                self.before = Some(std::mem::replace(&mut self.served, (certificate, now)).0);
            }
            done.push(action);
            assert!(done.len() < 4, "it does not settle: {done:?}");
        }
        self.done.extend(&done);
        done
    }

    pub fn text(&self, key: &str) -> String {
        String::from_utf8(self.data[key].0.clone()).unwrap()
    }

    pub fn put(&mut self, key: &str, text: &str) {
        self.data.insert(key.to_owned(), ByteString(text.into()));
    }

    pub fn wait(&self, is_published: bool) -> Timestamp {
        let Next::Wait(until) = self.next(is_published) else {
            panic!()
        };
        assert!(until > self.now);
        until
    }

    /// Whether a client that trusts the authorities since this time trusts a certificate.
    pub fn is_trusted(&self, certificate: &str, since: Timestamp) -> bool {
        let mut roots = RootCertStore::empty();
        for (authority, _) in self.trusted.iter().filter(|(_, begin)| **begin <= since) {
            roots
                .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
                .unwrap();
        }
        let Ok(verifier) = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build() else {
            return false;
        };
        let leaf = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(self.now.as_second().unsigned_abs()));
        self.names.iter().all(|name| {
            let name = name.as_str().try_into().unwrap();
            verifier.verify_server_cert(&leaf, &[], &name, &[], now).is_ok()
        })
    }

    /// Checks the invariants at each moment without an injected fault.
    pub fn check(&self) {
        let since = self.now - self.lifetimes.overlap;
        assert!(
            self.is_trusted(&self.served.0, since.max(at(0))),
            "{:?}: by clients whose authorities are older than the overlap",
            self.done
        );
        if let Some(before) = &self.before
            && self.now < self.served.1 + self.lifetimes.overlap
        {
            assert!(
                self.is_trusted(before, self.now),
                "{:?}: for a server that has not changed yet",
                self.done
            );
        }
    }
}

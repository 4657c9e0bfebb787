//! The whole life of the certificates, by a clock that is not the machine's.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use proptest::prelude::*;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};

use super::life::{Action, Next, next};
use super::material::{Data, Material, provider};
use super::*;

const BEGIN: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(BEGIN + second).unwrap()
}

/// Terms in seconds, in proportions that they are to have.
fn short() -> Terms {
    Terms {
        authority: Duration::from_secs(3000),
        certificate: Duration::from_secs(600),
        overlap: Duration::from_secs(50),
        skew: Duration::from_secs(5),
    }
}

/// A Secret, what those who trust it were told, and what happened.
struct Life {
    terms: Terms,
    names: [String; 4],
    data: Data,
    now: Timestamp,
    /// All authorities of now, each with the time since which it is there.
    trusted: BTreeMap<String, Timestamp>,
    /// The certificate of now, and since when.
    served: (String, Timestamp),
    before: Option<String>,
    done: Vec<Action>,
}

impl Life {
    fn new(terms: Terms) -> Self {
        let mut life = Self {
            terms,
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

    fn material(&self) -> Material {
        Material::read(&self.data, &self.names)
    }

    fn next(&self, told: bool) -> Next {
        next(&self.material().facts, &self.terms, self.now, told)
    }

    /// Does what is to be done now, and returns what it was.
    fn settle(&mut self, told: bool) -> Vec<Action> {
        let mut done = Vec::new();
        while let Next::Act(action) = self.next(told) {
            let new = self.material().act(action, &self.terms, &self.names, self.now).unwrap();
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
            assert!(done.len() < 4, "it does not come to rest: {done:?}");
        }
        self.done.extend(&done);
        done
    }

    fn text(&self, key: &str) -> String {
        String::from_utf8(self.data[key].0.clone()).unwrap()
    }

    fn put(&mut self, key: &str, text: &str) {
        self.data.insert(key.to_owned(), ByteString(text.into()));
    }

    fn wait(&self, told: bool) -> Timestamp {
        let Next::Wait(until) = self.next(told) else { panic!() };
        assert!(until > self.now);
        until
    }

    /// Whether who trusts the authorities that were there by then, and are now, trusts a certificate.
    fn is_trusted(&self, certificate: &str, since: Timestamp) -> bool {
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

    /// What holds at each moment at which nothing was broken.
    fn check(&self) {
        let told_by = self.now - self.terms.overlap;
        assert!(
            self.is_trusted(&self.served.0, told_by.max(at(0))),
            "{:?}: by those who have heard nothing for the overlap",
            self.done
        );
        if let Some(before) = &self.before
            && self.now < self.served.1 + self.terms.overlap
        {
            assert!(
                self.is_trusted(before, self.now),
                "{:?}: of one that has not changed yet",
                self.done
            );
        }
    }
}

#[test]
fn four_years_pass_without_a_moment_of_distrust() {
    let mut life = Life::new(Terms::default());
    while life.now < at(4 * 365 * 24 * 60 * 60) {
        let until = life.wait(true);
        for now in [
            life.now,
            life.now + life.now.duration_until(until) / 2,
            until - Duration::from_secs(1),
            until,
        ] {
            life.now = now;
            life.check();
        }
        life.settle(true);
        life.check();
    }
    let count = |action| life.done.iter().filter(|done| **done == action).count();
    assert_eq!(count(Action::Create), 1);
    assert_eq!(
        (count(Action::AddAuthority), count(Action::DropAuthorities)),
        (6, 6),
        "each eight months"
    );
    assert_eq!(
        count(Action::Sign),
        30,
        "each two months, and for each new authority: {:?}",
        life.done
    );
}

#[test]
fn an_authority_is_replaced_in_three_steps() {
    let mut life = Life::new(short());
    let first = life.material().bundle();
    let mut steps = Vec::new();
    while steps.last().map(|(_, action)| *action) != Some(Action::DropAuthorities) {
        life.now = life.wait(true);
        let done = life.settle(true);
        steps.extend(done.into_iter().map(|action| (life.now.as_second() - BEGIN, action)));
    }
    let [.., added, signed, dropped] = &*steps else {
        panic!("{steps:?}")
    };
    assert_eq!(
        [*added, *signed, *dropped],
        [
            (1998, Action::AddAuthority),
            (2049, Action::Sign),
            (2099, Action::DropAuthorities)
        ],
    );
    assert!(!life.material().bundle().contains(&first));
}

#[test]
fn a_new_authority_is_not_used_before_it_was_told() {
    let mut life = Life::new(short());
    while !life.done.contains(&Action::AddAuthority) {
        life.now = life.wait(true);
        life.settle(true);
    }
    let served = life.served.0.clone();
    life.now += Duration::from_secs(100);
    assert_eq!(life.settle(false), []);
    assert_eq!(life.served.0, served);
    assert_eq!(life.settle(true), [Action::Sign]);

    life.now = at(1_000_000);
    assert_eq!(
        life.settle(false),
        [Action::Create],
        "but nothing waits once nothing is valid"
    );
}

#[test]
fn what_is_broken_is_made_good_at_once() {
    let other = Life::new(short());
    let stranger = {
        let mut life = Life::new(short());
        life.names = names("elsewhere");
        life.data.clear();
        life.settle(true);
        life
    };
    let key = |life: &Life, name| life.text(name);
    let cases: [(&str, &str, String, &[Action]); 9] = [
        ("no certificate", key::CERTIFICATE, String::new(), &[Action::Sign]),
        ("no key", key::CERTIFICATE_KEY, "?".into(), &[Action::Sign]),
        (
            "another's key",
            key::CERTIFICATE_KEY,
            key(&other, key::CERTIFICATE_KEY),
            &[Action::Sign],
        ),
        (
            "another's certificate",
            key::CERTIFICATE,
            key(&other, key::CERTIFICATE),
            &[Action::Sign],
        ),
        (
            "a key for a certificate",
            key::CERTIFICATE,
            key(&other, key::CERTIFICATE_KEY),
            &[Action::Sign],
        ),
        (
            "no authority's key",
            key::AUTHORITY_KEY,
            "?".into(),
            &[Action::AddAuthority],
        ),
        (
            "another authority's key",
            key::AUTHORITY_KEY,
            key(&other, key::AUTHORITY_KEY),
            &[Action::AddAuthority],
        ),
        ("no authority", key::AUTHORITIES, "\u{0}".into(), &[Action::Create]),
        (
            "another authority",
            key::AUTHORITIES,
            key(&other, key::AUTHORITIES),
            &[Action::Create],
        ),
    ];
    for (what, key, text, repair) in cases {
        let mut life = Life::new(short());
        life.now += Duration::from_secs(100);
        life.put(key, &text);
        assert_eq!(life.settle(true), repair, "{what}");
        assert!(life.is_trusted(&life.served.0, life.now), "{what}");
    }

    let mut life = Life::new(short());
    life.data = stranger.data.clone();
    assert_eq!(life.settle(true), [Action::Sign], "the names of another namespace");
    life.data.insert(key::AUTHORITIES.into(), ByteString(vec![0xff, 0xfe]));
    assert_eq!(life.settle(true), [Action::Create], "no text at all");
    life.now = at(-1_000);
    assert_eq!(life.settle(true), [Action::Create], "of the future");
    life.now = at(1_000_000);
    assert_eq!(life.settle(true), [Action::Create], "of the past");
}

#[test]
fn what_others_put_among_the_authorities_is_taken_out() {
    let mut life = Life::new(short());
    let other = Life::new(short());
    life.put(
        key::AUTHORITIES,
        &format!(
            "{}# ours\n{}",
            life.text(key::AUTHORITIES),
            other.text(key::AUTHORITIES)
        ),
    );
    life.now += Duration::from_secs(100);
    assert_eq!(life.settle(true), [Action::DropAuthorities]);
    assert_eq!(life.trusted.len(), 1);
}

#[test]
fn keys_are_not_printed() {
    let life = Life::new(short());
    let printed = format!("{:?}", life.material());
    assert!(printed.contains("facts") && !printed.contains("key"), "{printed}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Operators come late by whatever time they were away, and API servers are told late.
    #[test]
    fn it_comes_to_rest_and_is_trusted_whoever_is_late(
        steps in prop::collection::vec((0_i64..400, any::<bool>()), 1..40),
        fraction in 0_u32..1_000_000_000,
    ) {
        let mut life = Life::new(short());
        let mut told_before = true;
        for (late, told) in steps {
            let due = life.wait(told_before);
            // They look when something is due, or for another reason before.
            let now = if late < 100 { due + Duration::from_secs(late.unsigned_abs()) } else { life.now + Duration::from_secs(late.unsigned_abs()) };
            life.now = now + Duration::new(0, fraction);
            let broken = !life.is_trusted(&life.served.0, life.now);
            let done = life.settle(told);
            told_before = told;
            prop_assert!(life.is_trusted(&life.served.0, life.now));
            prop_assert!(!done.contains(&Action::Create) || broken);
            if let Some(place) = done.iter().position(|action| *action == Action::Sign)
                && !broken && place == 0 && told
            {
                life.check();
            }
        }
    }
}

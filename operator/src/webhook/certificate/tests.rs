//! The lifetime of certificates, with a simulated clock.

mod virtual_life;

use k8s_openapi::ByteString;
use proptest::prelude::*;

use super::life::Action;
use super::*;
use virtual_life::{BEGIN, Life, at, short};

#[test]
fn certificates_are_always_trusted_in_four_simulated_years() {
    let mut life = Life::new(Lifetimes::default());
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
fn ca_is_replaced_in_three_steps() {
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
fn new_authority_is_not_used_before_it_was_published() {
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
        "without a valid certificate, no action waits"
    );
}

#[test]
fn broken_parts_are_replaced_immediately() {
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
fn foreign_authorities_are_removed() {
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
    assert!(printed.contains("state") && !printed.contains("key"), "{printed}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Replicas and API servers are late by any time.
    #[test]
    fn certificate_is_trusted_after_any_delay(
        steps in prop::collection::vec((0_i64..400, any::<bool>()), 1..40),
        fraction in 0_u32..1_000_000_000,
    ) {
        let mut life = Life::new(short());
        let mut was_published = true;
        for (late, is_published) in steps {
            let due = life.wait(was_published);
            // They check when an action is due, or before.
            let now = if late < 100 { due + Duration::from_secs(late.unsigned_abs()) } else { life.now + Duration::from_secs(late.unsigned_abs()) };
            life.now = now + Duration::new(0, fraction);
            let broken = !life.is_trusted(&life.served.0, life.now);
            let done = life.settle(is_published);
            was_published = is_published;
            prop_assert!(life.is_trusted(&life.served.0, life.now));
            prop_assert!(!done.contains(&Action::Create) || broken);
            if let Some(place) = done.iter().position(|action| *action == Action::Sign)
                && !broken && place == 0 && is_published
            {
                life.check();
            }
        }
    }
}

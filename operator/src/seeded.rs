//! Seeded bugs, to check that the campaign finds them (docs/reliability.md, `make seeded`).
//!
//! A program that is built without the feature `seeded-bugs` has none of them: [`is`] is `false` when it is compiled. One
//! that is built with it has the one whose name is in `APPDEPLOY_SEEDED_BUG`.

use std::borrow::Cow;

use serde_json::Value;

use crate::lease::{Fence, Leadership};

/// The bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Objects that a new list lacks do not wake their owners.
    LostOnRelist,
    /// A third-party object is changed if it has the name of a child.
    TakesForeign,
    /// Pods get names that the API server generates.
    GeneratedNames,
    /// The owner reference of a child is not a controller reference.
    NoController,
    /// A child is created in another namespace.
    WrongNamespace,
    /// A failed reconcile is not retried.
    GivesUp,
    /// A write without an answer counts as done.
    LostIsDone,
    /// A failed write of a status is not retried.
    StatusOnce,
    /// Each conflict counts as a deletion of the object.
    ForgetsOnConflict,
    /// A deleted child is created again without reading its owner, which may have been deleted.
    OwnerNotRead,
    /// The first lists of an operator are trusted.
    StaleTrusted,
    /// An unexpected answer causes a panic.
    Panics,
    /// An error of the server ends the operator.
    Exits,
    /// Changes of other clients are not undone.
    DriftIgnored,
    /// A deleted app keeps its host.
    HostKept,
    /// A pod that has lost its label is not released.
    NotLetGo,
    /// A follower also writes.
    WritesUnled,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Self; 17] = [
        Self::LostOnRelist,
        Self::TakesForeign,
        Self::GeneratedNames,
        Self::NoController,
        Self::WrongNamespace,
        Self::GivesUp,
        Self::LostIsDone,
        Self::StatusOnce,
        Self::ForgetsOnConflict,
        Self::OwnerNotRead,
        Self::StaleTrusted,
        Self::Panics,
        Self::Exits,
        Self::DriftIgnored,
        Self::HostKept,
        Self::NotLetGo,
        Self::WritesUnled,
    ];
}

/// Returns whether this program has the bug.
#[cfg(not(feature = "seeded-bugs"))]
#[must_use]
pub const fn is(_: Bug) -> bool {
    false
}

/// Returns whether this program has the bug.
#[cfg(feature = "seeded-bugs")]
#[must_use]
pub fn is(bug: Bug) -> bool {
    static CHOSEN: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("APPDEPLOY_SEEDED_BUG").ok());
    CHOSEN.as_ref().is_some_and(|chosen| *chosen == format!("{bug:?}"))
}

/// Returns the object that is created instead of this one.
#[must_use]
pub fn created(object: &Value) -> Cow<'_, Value> {
    let mut object = Cow::Borrowed(object);
    if is(Bug::GeneratedNames) && object["kind"] == "Pod" {
        let metadata = &mut object.to_mut()["metadata"];
        metadata["name"] = Value::Null;
        metadata["generateName"] = "set-".into();
    }
    if is(Bug::NoController) {
        object.to_mut()["metadata"]["ownerReferences"][0]["controller"] = Value::Null;
    }
    if is(Bug::WrongNamespace) {
        object.to_mut()["metadata"]["namespace"] = Value::Null;
    }
    object
}

/// Returns the namespace in which the children of an app in this namespace are written.
#[must_use]
pub fn namespace(of_app: &str) -> &str {
    if is(Bug::WrongNamespace) { "default" } else { of_app }
}

/// Returns what keeps a follower from writing.
#[must_use]
pub fn restraint(fence: Fence, leadership: Leadership) -> (Fence, Leadership) {
    if is(Bug::WritesUnled) {
        (Fence::open(), Leadership::alone())
    } else {
        (fence, leadership)
    }
}

/// Panics or exits at an answer with this code, if the bug is seeded.
///
/// # Panics
/// Only with the bug.
pub fn answered(code: u16) {
    assert!(!is(Bug::Panics) || code != 410, "unexpected answer: {code}");
    if is(Bug::Exits) && code == 500 {
        #[expect(clippy::exit, reason = "it is the bug")]
        std::process::exit(1);
    }
}

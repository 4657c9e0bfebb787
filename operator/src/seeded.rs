//! Bugs on purpose, to see that the campaign finds them (docs/reliability.md, `make seeded`).
//!
//! A program that is built without the feature `seeded-bugs` has none of them: [`is`] is `false` when it is compiled. One
//! that is built with it has the one whose name is in `APPDEPLOY_SEEDED_BUG`.

use std::borrow::Cow;

use serde_json::Value;

use crate::lease::{Fence, Leadership};

/// What somebody might get wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// What is no longer ours to see in a list wakes nobody.
    LostOnRelist,
    /// A name that is taken is taken over.
    TakesForeign,
    /// Pods get names that the API server makes up.
    GeneratedNames,
    /// A child refers to its owner, and not as to its controller.
    NoController,
    /// A child is made in another namespace.
    WrongNamespace,
    /// What has failed is not tried again.
    GivesUp,
    /// A write without an answer is taken for done.
    LostIsDone,
    /// A status that could not be written is not written again.
    StatusOnce,
    /// Any conflict is taken to say that the object is gone.
    ForgetsOnConflict,
    /// What somebody has taken is made again for whoever owned it, who may be gone.
    OwnerNotRead,
    /// What an operator is given when it starts is taken for what is so.
    StaleTrusted,
    /// An answer that was not thought of is a panic.
    Panics,
    /// An error of the server ends the operator.
    Exits,
    /// What somebody else has changed stays so.
    DriftIgnored,
    /// An app that is gone keeps its host.
    HostKept,
    /// A pod that has lost its label is not let go.
    NotLetGo,
    /// An operator that stands by writes, too.
    WritesUnled,
}

impl Bug {
    /// All of them.
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

/// Returns what is created in the place of what should be.
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

/// Returns where a child is created and changed, of an application in this namespace.
#[must_use]
pub fn namespace(of_app: &str) -> &str {
    if is(Bug::WrongNamespace) { "default" } else { of_app }
}

/// Returns what keeps an operator from writing that does not lead.
#[must_use]
pub fn restraint(fence: Fence, leadership: Leadership) -> (Fence, Leadership) {
    if is(Bug::WritesUnled) {
        (Fence::open(), Leadership::alone())
    } else {
        (fence, leadership)
    }
}

/// Does to the operator what an answer with this code does to one that was not thought through.
///
/// # Panics
/// With a bug alone.
pub fn answered(code: u16) {
    assert!(
        !is(Bug::Panics) || code != 410,
        "an answer that nobody has thought of: {code}"
    );
    if is(Bug::Exits) && code == 500 {
        #[expect(clippy::exit, reason = "it is the bug")]
        std::process::exit(1);
    }
}

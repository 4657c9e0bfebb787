//! The rules of a simulation.

use crate::flaw::Flaw;
use crate::spec::Spec;

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The versions of the spec, one after the other.
    pub specs: Vec<Spec>,
    pub lag: Lag,
    pub clock: Clock,
    /// Whether nothing fails, so that the operator must not cause an outage.
    pub is_calm: bool,
    pub flaws: Vec<Flaw>,
}

/// How a cache receives changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// One change after the other, arbitrarily late.
    Steps,
    /// All changes together, at any time.
    Jumps,
    /// All changes together, only before a decision. This has far fewer states and is nearly the same, because a later
    /// decision with the same cache is one whose requests arrive later. It does not include caches that receive some of the
    /// changes between a request and its response.
    Looks,
    /// The cache is always current, and requests are processed immediately.
    Never,
}

/// Whether time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The clock stands, and everything is old enough.
    Stands,
    /// Time passes when there is nothing else to do.
    Runs,
}

/// How often faults and actions of users may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// A user deletes a pod.
    pub deletions: u8,
    /// A pod fails or succeeds.
    pub failures: u8,
    /// A container crashes, and is restarted.
    pub crashed: u8,
    /// A pod is deleted and its deletion does not finish: its node is lost, or a finalizer blocks it.
    pub strandings: u8,
    /// Such a deletion finishes after all.
    pub returns: u8,
    /// A user removes the label of a pod, or adds it again.
    pub relabels: u8,
    /// A user creates a pod with the name of a slot.
    pub namesakes: u8,
    /// A user creates a pod with the label.
    pub orphans: u8,
    /// An operator crashes and starts again.
    pub crashes: u8,
    /// A response is lost. The request may still be processed.
    pub losses: u8,
}

//! The rules of a simulation.

use crate::flaw::Flaw;
use crate::wish::Wish;

/// What does not change.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The versions of the set, one after the other.
    pub wishes: Vec<Wish>,
    pub lag: Lag,
    pub clock: Clock,
    /// Nothing fails, so the operator must not cause an outage.
    pub is_calm: bool,
    pub flaws: Vec<Flaw>,
}

/// How a cache comes to know what is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// By each change, one after the other, as late as it may be.
    Steps,
    /// All at once: it is as things were at some time.
    Jumps,
    /// All at once, and only where a decision follows. Far fewer states, and nearly the same: a decision that is made
    /// later of the same knowledge is one whose requests arrive later. What is left out is an operator that hears, but
    /// not all, between a request and its answer.
    Looks,
    /// It is never behind, and what is asked for is done at once.
    Never,
}

/// What time it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// It stands, and everything is as old as it needs to be.
    Stands,
    /// It runs when there is nothing else to do.
    Runs,
}

/// How much may still happen that does not happen by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// A person deletes a pod.
    pub deletions: u8,
    /// A pod ends for good.
    pub failures: u8,
    /// A container crashes, and is restarted.
    pub crashed: u8,
    /// A pod is deleted and stays: its node is lost, or a finalizer holds it.
    pub strandings: u8,
    /// A pod that has stayed goes after all.
    pub returns: u8,
    /// A person takes the label from a pod, or gives it back.
    pub relabels: u8,
    /// A person creates a pod that has the name of a slot.
    pub namesakes: u8,
    /// A person creates a pod that has the label.
    pub orphans: u8,
    /// An operator crashes and starts again.
    pub crashes: u8,
    /// An operator gives up waiting. What it has asked for may still be done.
    pub losses: u8,
}

//! What is done to both sets: drawn from a seed, so that it can be drawn again.

use std::fmt;

use fastrand::Rng;

/// The most pods that are wanted.
const MOST: u8 = 8;

/// What happens to a set. Pods are named by a rank among those that were there when the burst began, since their names
/// differ from set to set.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// So many pods are wanted.
    Scale(u8),
    /// A pod is deleted.
    Delete(usize),
    /// A pod fails, as one that was evicted.
    Fail(usize),
    /// A pod loses the label.
    Strip(usize),
    /// A pod that lost the label in an earlier burst gets it back.
    Restore(usize),
    /// A pod loses the label and gets it back.
    Flap(usize),
    /// A pod with the label is created by another client, perhaps with a name that the set would give.
    Orphan(OrphanName),
}

/// What a person calls the pod that they add.
#[derive(Clone, Copy, Debug)]
pub enum OrphanName {
    /// A name of its own.
    Own,
    /// The name of a slot.
    Slot(u8),
}

/// What is done to a set, from the start to the end.
pub struct Schedule {
    pub seed: u64,
    /// How many pods are wanted at the start.
    pub replicas: u8,
    /// What is done without waiting in between; after each burst the sets come to rest.
    pub bursts: Vec<Burst>,
}

/// What is done at a time, and what is to come of it.
#[derive(Debug)]
pub struct Burst {
    pub acts: Vec<Act>,
    /// How many pods are wanted in the end.
    pub replicas: u8,
    /// Whether a pod may lose the label while one too many is deleted: then it is a matter of luck, and of the set's
    /// choice, whether it is released or deleted.
    pub races: bool,
}

impl Schedule {
    /// Draws a schedule of five to eight bursts of one to three acts. In the end no pod is wanted.
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let replicas = rng.u8(0..=MOST);
        let mut now = replicas;
        let mut bursts: Vec<Burst> = (0..rng.usize(5..=8))
            .map(|_| {
                let acts = (0..rng.usize(1..=3)).map(|_| Act::draw(&mut rng)).collect();
                let burst = Burst::new(acts, now);
                now = burst.replicas;
                burst
            })
            .collect();
        bursts.push(Burst::new(vec![Act::Scale(0)], now));
        Self { seed, replicas, bursts }
    }
}

impl Act {
    fn draw(rng: &mut Rng) -> Self {
        let rank = rng.usize(0..usize::from(MOST));
        match rng.u8(0..14) {
            0..=3 => Self::Scale(rng.u8(0..=MOST)),
            4..=5 => Self::Delete(rank),
            6..=7 => Self::Fail(rank),
            8..=9 => Self::Strip(rank),
            10 => Self::Restore(rank),
            11 => Self::Flap(rank),
            12 => Self::Orphan(OrphanName::Own),
            _ => Self::Orphan(OrphanName::Slot(rng.u8(0..=MOST))),
        }
    }
}

impl Burst {
    fn new(acts: Vec<Act>, before: u8) -> Self {
        let mut replicas = before;
        let (mut strips, mut surplus) = (false, false);
        for act in &acts {
            match *act {
                Act::Scale(to) => {
                    surplus |= to < replicas;
                    replicas = to;
                }
                Act::Strip(_) => strips = true,
                Act::Restore(_) | Act::Flap(_) | Act::Orphan(_) => surplus = true,
                Act::Delete(_) | Act::Fail(_) => {}
            }
        }
        Self {
            acts,
            replicas,
            races: strips && surplus,
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {} replicas", self.seed, self.replicas)?;
        self.bursts.iter().try_for_each(|burst| write!(f, ", {:?}", burst.acts))
    }
}

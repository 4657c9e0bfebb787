//! What a PodSet *means*: which pod to create, delete, update, adopt or let go next.
//!
//! ```text
//! Wanted::of -> next_step -> (perform) -> status
//!   SetPod  ------^                        ^--- SetPod, PodState
//! ```
//!
//! [`next_step`] is the whole decision. The operator runs it, property tests drive it until it settles, and a
//! model checker runs it in two operators at once, with caches that lag, crashes and lost answers: the very
//! same function (docs/adr/0009).

mod adoption;
mod ended;
#[cfg(test)]
mod fixtures;
mod image;
mod object;
mod pod;
mod rank;
mod slot;
mod status;
mod step;
mod visits;
mod wanted;

pub use adoption::adopted;
pub use ended::{EARLY, early_ends};
pub use image::{ImageChange, Reported};
pub use object::{pod, released, updated};
pub use pod::{Controller, Phase, SetPod};
pub use slot::Taken;
pub use status::{Knowledge, Marks, PodError, Verb, asks, changes_in, conflicts, marks, obituary, status};
pub use step::{Creation, PodRef, Removal, Seen, Step, Update, Why, looks_again_at, next_step, next_step_despite};
pub use wanted::Wanted;

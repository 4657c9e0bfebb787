//! The decisions about a PodSet: which pods to create, delete, update, adopt or release next, and its status.
//!
//! ```text
//! ValidPodSet::of -> next_step -> (apply) -> status
//!   SetPod  ------^                      ^--- SetPod, PodState
//! ```
//!
//! [`next_step`] is the whole decision. The operator calls it, property tests repeat it until it is settled, and a model
//! checker runs it in two concurrent operators, with stale caches, crashes and lost responses (docs/adr/0009).

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
mod summary;
mod valid;
mod visits;

pub use adoption::adoption_patch;
pub use ended::{EARLY, early_ends};
pub use image::{ImageChange, Reported};
pub use object::{pod, release_patch, update_patch};
pub use pod::{Controller, Phase, SetPod};
pub use slot::NameHolder;
pub use status::{
    PodError, StatusInput, Verb, changes_in, conflicts, describe_dropped, describe_end, event_query, progress_counts,
    status,
};
pub use step::{
    Creation, Deletion, DeletionReason, PodRef, Step, StepInput, Update, next_change_at, next_step, next_step_despite,
};
pub use summary::ProgressCounts;
pub use valid::ValidPodSet;

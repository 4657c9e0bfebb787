//! Carries out plans: the only place that writes what belongs to our objects.

pub mod children;
pub mod pods;

/// What became of one write.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// The world was not as it was believed to be. What is known was set right: look again.
    Again,
}

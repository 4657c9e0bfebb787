//! Parses values of which there are a few, and whose upper and lower case are the same on a command line.

use crd::RolloutType;

/// Returns the value with this name.
pub fn one_of<T: Copy, const N: usize>(all: [T; N], name: fn(T) -> &'static str, text: &str) -> Option<T> {
    all.into_iter().find(|value| name(*value).eq_ignore_ascii_case(text))
}

/// Parses the type of a rollout, such as `recreate`.
pub fn rollout_type(text: &str) -> Result<RolloutType, String> {
    one_of(RolloutType::ALL, RolloutType::as_str, text).ok_or_else(|| "must be RollingUpdate or Recreate".to_owned())
}

//! The type of rollouts as it is written on a command line, in any case.

use crd::RolloutType;

/// Reads a type, such as `recreate`.
pub fn parse(text: &str) -> Result<RolloutType, String> {
    let mut all = RolloutType::ALL.into_iter();
    all.find(|type_| type_.as_str().eq_ignore_ascii_case(text))
        .ok_or_else(|| "must be RollingUpdate or Recreate".to_owned())
}

//! Rules for the keys of labels, annotations and taints.

macro_rules! pattern {
    () => {
        "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
    };
}

/// The rule for a key.
pub(super) const KEY: &str = concat!("self.matches('", pattern!(), "')");
/// The rule for the keys of a map.
pub(super) const KEYS: &str = concat!("self.all(key, size(key) <= 317 && key.matches('", pattern!(), "'))");

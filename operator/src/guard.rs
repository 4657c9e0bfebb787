//! Contains panics that one object causes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::error;

use crate::key::Key;

/// Reads an object of the cluster. A panic is a bug of the operator, and is logged with the object's name. Otherwise it would end the
/// watch, and with it the operator, again after each restart. Returns `None` after a panic.
pub fn guarded<T>(resource: &'static str, key: &Key, read: impl FnOnce() -> T) -> Option<T> {
    // Code that can panic changes no shared data.
    let read = catch_unwind(AssertUnwindSafe(read)).ok();
    if read.is_none() {
        let Key { namespace, name } = key;
        error!(resource, %namespace, %name, "an object can't be read; this is a bug, please report it");
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_returns_none() {
        let key = Key::new("shop", "web");
        assert_eq!(guarded("pods", &key, || 7), Some(7));
        assert_eq!(guarded::<u8>("pods", &key, || panic!("a bug")), None);
    }
}

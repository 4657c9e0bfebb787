//! What keeps one object that we can't cope with from ending more than the look at it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::error;

use crate::key::Key;

/// Reads an object of the cluster. A panic is a bug of ours, and is logged with the object's name. Else it would end the
/// watch, and with it the operator, which would read the same object again when it is started anew. `None` after a panic.
pub fn guarded<T>(resource: &'static str, key: &Key, read: impl FnOnce() -> T) -> Option<T> {
    // Nothing that is shared is changed by what can panic.
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
    fn a_panic_is_nothing_read() {
        let key = Key::new("shop", "web");
        assert_eq!(guarded("pods", &key, || 7), Some(7));
        assert_eq!(guarded::<u8>("pods", &key, || panic!("a bug")), None);
    }
}

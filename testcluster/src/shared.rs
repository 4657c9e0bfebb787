//! Values that concurrent tests of one program share.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A value that is created for the first test that needs it, and dropped with the last one. A plain static would never be
/// dropped, and would leave its processes behind.
#[derive(Debug)]
pub struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    /// Returns an empty one, for a static.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    /// Returns the value, which `create` creates if there is none.
    pub fn get(&self, create: impl FnOnce() -> T) -> Arc<T> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.upgrade().unwrap_or_else(|| {
            let new = Arc::new(create());
            *known = Arc::downgrade(&new);
            new
        })
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_created_again_after_its_last_user() {
        static SHARED: Shared<u8> = Shared::new();
        let first = SHARED.get(|| 1);
        assert_eq!(*SHARED.get(|| 2), 1);
        drop(first);
        assert_eq!(*SHARED.get(|| 3), 3);
    }
}

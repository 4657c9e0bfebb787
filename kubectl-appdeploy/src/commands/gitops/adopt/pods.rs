//! What an adoption does with pods.

/// What becomes of the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// There are none but those of the app.
    Own,
    /// They run on: their Deployment selects them as ours does.
    Kept,
    /// New ones take their place.
    Replaced,
}

impl Pods {
    /// Whether new ones take their place.
    pub const fn are_replaced(self) -> bool {
        matches!(self, Self::Replaced)
    }
}

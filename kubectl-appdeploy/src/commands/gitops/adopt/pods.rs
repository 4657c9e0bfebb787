//! Whether an adoption keeps or replaces pods.

/// What an adoption does with the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// All pods already belong to the app.
    Own,
    /// The pods are kept, because their Deployment has the selector that the app's Deployment has.
    Kept,
    /// New pods replace them.
    Replaced,
}

impl Pods {
    /// Whether new pods replace them.
    pub const fn are_replaced(self) -> bool {
        matches!(self, Self::Replaced)
    }
}

//! What several commands show of an app: its request path, its children, its events, and whether it becomes ready.

pub mod events;
pub mod probe;
pub mod queue;
pub mod readiness;
pub mod request_path;
pub mod tree;

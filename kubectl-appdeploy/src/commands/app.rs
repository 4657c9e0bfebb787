//! Commands that create and change apps and pod sets.

pub mod apply;
pub mod choice;
pub mod create;
pub mod delete;
pub mod edit;
pub mod replace;
pub mod scale;
pub mod set;
pub mod toleration;
pub mod volume;

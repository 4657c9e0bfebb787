//! The terminal: styles, prompts, the alternate screen, and what a panic prints.

pub mod panic;
pub mod prompt;
pub mod ui;
pub mod warnings;

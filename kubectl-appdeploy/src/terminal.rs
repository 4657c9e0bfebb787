//! The terminal: styles, prompts, the alternate screen.

pub mod prompt;
pub mod ui;
pub mod warnings;

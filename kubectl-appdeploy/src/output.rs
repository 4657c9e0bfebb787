//! Output formats.

pub mod age;
pub mod description;
pub mod duration;
pub mod formats;
pub mod quantity;
pub mod redactor;
pub mod table;
pub mod yaml;

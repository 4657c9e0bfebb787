//! One look at one object of a primary kind, as a sentence. What differs between the kinds is in a file for each;
//! how a look begins and ends, and what is told of it, is the [`teller`]'s.

pub mod app;
mod asker;
pub mod dependents;
mod memory;
pub mod podset;
pub mod teller;

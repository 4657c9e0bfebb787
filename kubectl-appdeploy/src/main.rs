//! `kubectl appdeploy`: the person's side of AppDeploy.
//!
//! A verb is a file with `Args` and `run`; it speaks through [`ui::Ui`] alone and fails with an
//! [`error::Error`], from which the exit code follows. What a verb shows or decides is a function of values.
//!
//! There are two kinds, apps and pod sets, and each verb is written once for both: a
//! [`connection::Cluster`] knows which kind it is asked about, a [`workload::Workload`] is one object of either,
//! [`words::Words`] are what a person calls it, and a [`create::Spec`] is the flags that describe one.

mod adopt;
mod age;
mod apply;
mod asking;
mod autoscaler;
mod certificate;
mod change;
mod check;
mod checks;
mod children;
mod cli;
mod completion;
mod connection;
mod consent;
mod create;
mod delete;
mod describe;
mod diff;
mod duration;
mod edit;
mod eject;
mod error;
mod events;
mod exec;
mod export;
mod files;
#[cfg(test)]
mod fuzz;
mod history;
mod install;
mod interrupt;
mod logs;
mod manifests;
mod open;
mod operator;
mod options;
mod output;
mod pages;
mod pause;
mod plain;
mod pod;
mod port_forward;
mod quantity;
#[cfg(test)]
mod reference;
mod replace;
mod report;
mod restart;
mod route;
mod scale;
mod schema;
mod selection;
mod set;
mod status;
mod table;
mod target;
mod top;
mod tree;
mod ui;
mod undo;
mod uninstall;
mod usage;
mod version;
mod wait;
mod words;
mod workload;
mod yaml;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}

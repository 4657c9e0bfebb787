//! `kubectl appdeploy`: the command line of AppDeploy.
//!
//! A command is a file below [`commands`] with `Args` and `run`. It prints through [`terminal::ui::Ui`] and fails with an
//! [`error::Error`], which determines the exit code. What a command shows or decides is a function of values.
//!
//! There are two kinds, apps and pod sets, and each command is written once for both: a [`cluster::connection::Cluster`] has the
//! kind of its requests, a [`resource::workload::Workload`] is one object of either kind,
//! [`cluster::kind_info::KindInfo`] has their names in texts, and a [`commands::app::create::Spec`] has the flags that describe one.
//!
//! Queues outside the cluster are a third kind, without pods: they share selections, changes and waits, and have commands of
//! their own in [`commands::queue`].
//!
//! Folders import only those below: `cli`, `commands`, `diagnosis`, `installation`, `resource`, `cluster`, `output`, `terminal`,
//! `error`.

mod cli;
mod cluster;
mod commands;
mod diagnosis;
mod error;
#[cfg(test)]
mod fuzz;
mod installation;
mod output;
mod resource;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}

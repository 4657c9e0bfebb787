//! Compares the rights in the operator's roles with those that its tests used: `rights config/rbac target/rights`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use tests::rights::Rights;

/// Check whether the operator is granted exactly the rights that it uses.
#[derive(Debug, Parser)]
struct Args {
    /// The folder with the roles.
    roles: PathBuf,
    /// The folder that `APPDEPLOY_RIGHTS` named in the tests.
    asked: PathBuf,
}

fn main() -> ExitCode {
    match check(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; the exit code is still right.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check(args: &Args) -> Result<()> {
    let rights = Rights::read(&args.roles, &args.asked)?;
    let faults = rights.faults();
    if !faults.is_empty() {
        bail!(
            "the operator's rights are not what it uses\n  {}\n\
             A right that is not used is taken out of {}, or wants a test that uses it; \
             what is denied is granted, or not asked for.",
            faults.join("\n  "),
            args.roles.display()
        );
    }
    writeln!(
        std::io::stdout(),
        "The operator is granted {} rights; the tests used each of them, and it was denied nothing.",
        rights.granted.len()
    )?;
    Ok(())
}

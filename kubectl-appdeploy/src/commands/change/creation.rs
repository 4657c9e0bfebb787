//! Common steps of the commands that create an object.

use std::time::Duration;

use kube::api::DynamicObject;

use crate::cluster::connection::{Cluster, MANAGER};
use crate::cluster::wait::Deadline;
use crate::diagnosis::readiness;
use crate::error::Result;
use crate::output::duration;
use crate::output::formats::{ChangeArgs, DryRun};
use crate::terminal::ui::Ui;

/// The flags that every creation has.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Flags {
    /// Wait until the {one} is ready; exit code 3 if it will not become ready without a change, 4 on timeout
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, action = clap::ArgAction::Set, hide_possible_values = true
    )]
    pub wait: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    pub timeout: Duration,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Creates an object and has the server refuse, instead of drop, a field that its schema is too old for.
pub async fn post(cluster: &Cluster, body: String, dry_run: DryRun) -> kube::Result<DynamicObject> {
    let path = cluster.objects(Some(&cluster.namespace)).resource_url().to_owned();
    let dry = if dry_run == DryRun::Server { "&dryRun=All" } else { "" };
    let request = http::Request::post(format!("{path}?fieldManager={MANAGER}&fieldValidation=Strict{dry}"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.into_bytes())
        .map_err(kube::Error::HttpError)?;
    cluster.client.request(request).await
}

/// Waits for the created object with `--wait`, and otherwise prints how to see its state. Nothing after a dry run.
pub async fn follow(cluster: &Cluster, name: &str, flags: Flags, ui: &mut Ui) -> Result<()> {
    if !flags.change.dry_run.is_real() {
        return Ok(());
    }
    if flags.wait {
        return readiness::report_ready(cluster, name, Deadline::after(flags.timeout), ui).await;
    }
    if flags.change.output.is_none() {
        ui.next(cluster.kind_info().verb("status", name).and(cluster.flag()));
    }
    Ok(())
}

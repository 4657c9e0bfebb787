//! Common steps of the commands that delete objects: select, confirm, delete, wait and print.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use model::{NextCommand, command};

use crate::cluster::confirm;
use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::kind_info::KindInfo;
use crate::cluster::wait::Deadline;
use crate::error::{Error, Result};
use crate::output::duration;
use crate::output::formats::{self, ChangeArgs, Done, DryRun};
use crate::resource::selection::{self, Selection};
use crate::terminal::ui::Ui;

/// The flags that every deletion has.
#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    which: Selection,
    /// Do not ask for confirmation with -l or --all
    #[arg(short, long)]
    yes: bool,
    /// Ignore {many} that do not exist
    #[arg(long)]
    ignore_not_found: bool,
    /// Wait until the {many} are deleted
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "true", action = clap::ArgAction::Set, hide_possible_values = true
    )]
    wait: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    change: ChangeArgs,
}

/// How objects of a kind are deleted.
pub trait Method {
    /// Returns the flags of this method, for a command that repeats it.
    fn flags(&self) -> NextCommand;

    /// Returns what the deletion of these objects does outside the cluster, to be printed before.
    fn notes(&self, found: &[&DynamicObject]) -> Vec<String>;

    /// Requests the deletion of an object, by its UID: another object may have been created with the same name.
    async fn delete(&self, cluster: &Cluster, object: &DynamicObject, dry_run: DryRun) -> Result<()>;

    /// Waits until an object is deleted.
    async fn wait(&self, cluster: &Cluster, object: &DynamicObject, deadline: Deadline, ui: &mut Ui) -> Result<()>;

    /// Whether the deletion has a step after the request, so that it also waits without `--wait`.
    fn always_waits(&self) -> bool {
        false
    }
}

/// Runs a deletion of all selected objects: a failure does not stop the others.
pub async fn run(
    flags: &Flags,
    method: &impl Method,
    kind: &'static KindInfo,
    kube: &KubeArgs,
    ui: &mut Ui,
) -> Result<()> {
    flags.which.require(kind, "delete {name}")?;
    let cluster = kube.connect().await?.about(kind);
    let found = match flags.which.resolve(&cluster, "delete {name}").await {
        Err(error) if flags.ignore_not_found && error.is_not_found() => Vec::new(),
        other => other?,
    };
    if found.is_empty() && flags.which.names.is_empty() {
        selection::nothing(&cluster, ui);
    }
    for note in method.notes(&found.iter().flatten().collect::<Vec<_>>()) {
        ui.note(&note);
    }
    if flags.is_asked() {
        consent(flags, method, &cluster, &found)?;
    }
    let (mut gone, mut failures) = (Vec::new(), Vec::new());
    // The deletion of all is requested before the first is waited for.
    let mut requested = Vec::new();
    for object in found {
        match request(flags, method, &cluster, object).await {
            Ok(object) => requested.push(object),
            Err(error) if flags.ignore_not_found && error.is_not_found() => {}
            Err(error) => failures.push(error),
        }
    }
    let deadline = Deadline::after(flags.timeout);
    for object in requested {
        if let Err(error) = wait(flags, method, &cluster, &object, deadline, ui).await {
            failures.push(error);
            continue;
        }
        gone.push(Done {
            title: cluster.title(&object.name_any()),
            word: "deleted",
            is_held: false,
            object: formats::presentable(&object),
        });
    }
    flags.change.print_results(ui, &gone)?;
    selection::conclude(failures, ui)
}

impl Flags {
    /// Whether objects would be deleted that the command line does not name.
    const fn is_asked(&self) -> bool {
        self.change.dry_run.is_real() && !self.yes && self.which.names.is_empty()
    }
}

/// Prompts before selected objects are deleted. Each is deleted by its UID, so no other object is deleted after the prompt.
fn consent(flags: &Flags, method: &impl Method, cluster: &Cluster, found: &[Result<DynamicObject>]) -> Result<()> {
    let names: Vec<String> = found.iter().flatten().map(kube::ResourceExt::name_any).collect();
    if names.is_empty() {
        return Ok(());
    }
    let words = cluster.kind_info();
    let what = format!("{} ({})", words.count(names.len()), formats::some(&names));
    let selected = match &flags.which.selector {
        Some(selector) => command!("delete -l {}", selector),
        None => NextCommand::from("delete --all"),
    };
    let again = NextCommand::from(words.command)
        .and(selected)
        .and(method.flags())
        .and("--yes")
        .and(cluster.flag());
    let unasked = Error::usage(format!("this deletes {what}: nothing was deleted")).next(again.remark("to confirm"));
    confirm::ask(
        cluster,
        Some(&cluster.namespace),
        &format!("Delete {what}?"),
        unasked,
        "nothing was deleted",
    )
}

async fn request(
    flags: &Flags,
    method: &impl Method,
    cluster: &Cluster,
    object: Result<DynamicObject>,
) -> Result<DynamicObject> {
    let object = object?;
    if flags.change.dry_run != DryRun::Client {
        method.delete(cluster, &object, flags.change.dry_run).await?;
    }
    Ok(object)
}

async fn wait(
    flags: &Flags,
    method: &impl Method,
    cluster: &Cluster,
    object: &DynamicObject,
    deadline: Deadline,
    ui: &mut Ui,
) -> Result<()> {
    if !flags.change.dry_run.is_real() || !(flags.wait || method.always_waits()) {
        return Ok(());
    }
    match method.wait(cluster, object, deadline, ui).await {
        // As kubectl: it is deleted, and only watching it is not allowed.
        Err(error) if error.is_forbidden() && !method.always_waits() => {
            ui.warn(&format!(
                "{} was not waited for: {}",
                cluster.title(&object.name_any()),
                error.reasons()
            ));
            Ok(())
        }
        other => other,
    }
}

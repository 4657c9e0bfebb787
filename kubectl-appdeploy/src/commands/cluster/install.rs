//! `kubectl appdeploy install`: applies `config/` and returns when it works.

mod api;
mod api_server_egress;
mod downgrade;
mod grants;
mod namespaces;
mod prepared;
mod protection;
mod prune;

use std::time::Duration;

use futures::future::join_all;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use model::command;

use crate::cluster::connection::{Cluster, KubeArgs, MANAGER};
use crate::cluster::wait::{self, Deadline};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::installation::manifests::{self, Kind};
use crate::installation::rollout;
use crate::installation::settings;
use crate::installation::webhook_ready;
use crate::output::formats::{self, ChangeArgs, DryRun, Format};
use crate::output::{duration, yaml};
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Install or upgrade, and wait until the operator runs
  kubectl appdeploy install

  # Write the manifests to a file, for review or git
  kubectl appdeploy install --dry-run=client -o yaml > appdeploy.yaml

  # Manage only two namespaces, with your own image
  kubectl appdeploy install --watch-namespace=shop,blog \\
    --image=registry.example.com/appdeploy-operator:v1";

/// The flags of `install`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Image of the operator; default: the release with the version of the plugin
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    image: Option<String>,
    /// Wait until the operator runs
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "true", action = clap::ArgAction::Set, hide_possible_values = true
    )]
    wait: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = duration::parse)]
    timeout: Duration,
    /// Port of a queue service that the NetworkPolicy of the operator allows, in addition to 443
    #[arg(long, value_name = "PORT", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    queue_port: Vec<u16>,
    /// Overwrite fields that other field managers have set
    #[arg(long)]
    force_conflicts: bool,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    settings: settings::Settings,
}

/// Reads the name of an image. An invalid one would replace an operator that works.
fn image(text: &str) -> std::result::Result<String, String> {
    let is_valid = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/:@".contains(c));
    is_valid
        .then(|| text.to_owned())
        .ok_or_else(|| "must be like registry.example.com/appdeploy-operator:v1".to_owned())
}

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    kube.refuse_namespace()?;
    let options = manifests::Options {
        image: args.image.clone(),
        flags: args.settings.flags(),
        ..args.settings.scope.options()
    };
    let mut objects = manifests::objects(&options)?;
    api_server_egress::allow_all(&mut objects, &args.queue_port);
    if args.change.dry_run == DryRun::Client {
        // Manifests in git must allow the operator to reach the API server of this cluster.
        api_server_egress::allow_in_dry_run(kube, &mut objects, ui).await;
        let done = objects
            .into_iter()
            .map(|object| (object, "created"))
            .collect::<Vec<_>>();
        return print_results(&args, &done, ui);
    }
    let cluster = kube.connect().await?;
    let deadline = Deadline::after(args.timeout);
    api_server_egress::open(&cluster, &mut objects).await?;
    protection::drop_impossible(&cluster, &options.namespaces, &mut objects, ui).await?;
    namespaces::exist(&cluster, &options.namespaces).await?;
    let before = survey(&cluster, &objects, deadline, ui).await?;
    prepared::refuse(&cluster, &objects, &before).await?;
    grants::refuse_missing(&cluster, &objects, &before, &options.namespaces).await?;
    downgrade::refuse_loss(&cluster, &objects, &before).await?;
    protection::allow_older(&mut objects, &before);
    prune::warn_of_age(&before, &objects, ui);
    let former = prune::objects(&cluster, &objects).await?;
    // Webhooks must not be called any more when the operator stops answering.
    let (asking, former): (Vec<_>, Vec<_>) = former
        .into_iter()
        .partition(|(kind, _)| Kind::webhooks().contains(kind));
    if options.namespaces.is_empty() {
        prune::warn_of_more(&before, ui);
    }
    prune::remove(&cluster, &asking, &args, ui).await?;
    let mut done = Vec::new();
    let mut is_running = !args.wait || !args.change.dry_run.is_real();
    // The namespace is the first of them.
    let before_namespace = before.first().and_then(Option::as_ref);
    for (object, before) in objects.iter().zip(&before) {
        let kind = Kind::of(object);
        if Kind::webhooks().contains(&kind) && !is_running {
            // Until the operator answers, API servers would reject all apps.
            rollout::wait(&cluster, deadline, ui).await?;
            is_running = true;
        }
        let is_at_home = object.metadata.namespace.as_deref() == Some(crd::OPERATOR_NAMESPACE);
        let homeless = is_at_home && before.is_none() && before_namespace.is_none();
        if args.change.dry_run == DryRun::Server && homeless {
            // The server refuses an object in a namespace that exists only in a dry run.
            if args.change.output.is_none() {
                let title = kind.title(&object.name_any());
                ui.print(&format!(
                    "{title} created (not checked: its namespace does not exist yet)"
                ))?;
            }
            done.push((object.clone(), "created"));
            continue;
        }
        let applied = apply(&args, &cluster, &kind, object).await?;
        if args.change.dry_run.is_real() {
            protection::renew(&cluster, &kind, &applied).await?;
        }
        let word = match before {
            None => "created",
            Some(before) if is_same(object, before, &applied) => "unchanged",
            Some(_) => "configured",
        };
        if args.change.output.is_none() {
            ui.print(&format!(
                "{} {word}{}{}",
                kind.title(&object.name_any()),
                manifests::place("in", object),
                args.change.dry_run.suffix()
            ))?;
        }
        done.push((applied, word));
        if kind == Kind::crd() && args.change.dry_run.is_real() {
            api::served(&cluster, &object.name_any(), deadline, ui).await?;
        }
    }
    if args.change.output.is_some() {
        print_results(&args, &done, ui)?;
    }
    // Last, so that the operator that runs is never without rights.
    prune::remove(&cluster, &former, &args, ui).await?;
    if !args.change.dry_run.is_real() {
        return Ok(());
    }
    if args.wait {
        if !is_running {
            rollout::wait(&cluster, deadline, ui).await?;
        }
        if options.webhooks {
            webhook_ready::wait(&cluster, deadline, ui).await?;
            webhook_ready::answered(&cluster, &options.namespaces, deadline, ui).await?;
        }
        ui.eprintln("AppDeploy is ready.");
    }
    ui.next("kubectl appdeploy create");
    Ok(())
}

/// Reads existing objects of the same names, before anything is written.
async fn survey(
    cluster: &Cluster,
    objects: &[DynamicObject],
    deadline: Deadline,
    ui: &mut Ui,
) -> Result<Vec<Option<DynamicObject>>> {
    let looks = objects.iter().map(|object| async move {
        let kind = Kind::of(object);
        cluster
            .call(kind.api_of(&cluster.client, object).get_opt(&object.name_any()))
            .await
    });
    let mut found = Vec::new();
    for (object, before) in objects.iter().zip(join_all(looks).await) {
        let (kind, name) = (Kind::of(object), object.name_any());
        let mut before = before?;
        if let Some(existing) = &before
            && !manifests::is_ours(existing)
        {
            return Err(foreign(&kind, object));
        }
        if let Some(existing) = &before
            && existing.metadata.deletion_timestamp.is_some()
        {
            let title = kind.title(&name);
            ui.progress(&format!("waiting until {title} is deleted"));
            if wait::until_deleted(
                cluster,
                kind.api_of(&cluster.client, object),
                &name,
                existing.metadata.uid.as_deref(),
                deadline,
                ui,
            )
            .await?
            .is_some()
            {
                return Err(Error::new(
                    ErrorKind::TimedOut,
                    format!("{title} is still being deleted after {}", deadline.text()),
                )
                .why("it was deleted earlier, and a finalizer or an owned object blocks it")
                .next(command!("kubectl get {} -o yaml", title)));
            }
            before = None;
        }
        found.push(before);
    }
    Ok(found)
}

fn foreign(kind: &Kind, object: &DynamicObject) -> Error {
    let title = kind.title(&object.name_any());
    let scope = object
        .namespace()
        .map(|name| command!("-n {}", name))
        .unwrap_or_default();
    Error::failed(format!(
        "{title} exists and is not part of AppDeploy: nothing was changed"
    ))
    .why(format!(
        "it lacks the label {}={}",
        crd::label::PART_OF,
        crd::label::PART_OF_VALUE
    ))
    .next(command!("kubectl get {}", title).and(scope.clone()).and("-o yaml"))
    .next(
        command!("if AppDeploy may have it: kubectl label {}", title)
            .and(scope)
            .and(command!("{}={}", crd::label::PART_OF, crd::label::PART_OF_VALUE)),
    )
}

async fn apply(args: &Args, cluster: &Cluster, kind: &Kind, object: &DynamicObject) -> Result<DynamicObject> {
    let params = PatchParams {
        dry_run: args.change.dry_run == DryRun::Server,
        force: args.force_conflicts,
        ..PatchParams::apply(MANAGER).validation_strict()
    };
    let name = object.name_any();
    cluster
        .call(
            kind.api_of(&cluster.client, object)
                .patch(&name, &params, &Patch::Apply(object)),
        )
        .await
        .map_err(|error| error.about(&kind.title(&name)))
}

/// Whether an apply changed nothing that is wanted. The resourceVersion does not show it: controllers write too.
fn is_same(wanted: &DynamicObject, before: &DynamicObject, after: &DynamicObject) -> bool {
    let content = |object: &DynamicObject| {
        let mut data = object.data.clone();
        data.as_object_mut().and_then(|fields| fields.remove("status"));
        data
    };
    let noted = |object: &DynamicObject, key: &String| object.annotations().get(key).cloned();
    content(before) == content(after)
        && before.labels() == after.labels()
        && wanted
            .annotations()
            .keys()
            .all(|key| noted(before, key) == noted(after, key))
}

fn print_results(args: &Args, done: &[(DynamicObject, &'static str)], ui: &mut Ui) -> Result<()> {
    let values: Vec<_> = done.iter().map(|(object, _)| formats::presentable(object)).collect();
    match args.change.output {
        Some(Format::Yaml) => ui.print(&yaml::write_all(&values)?),
        Some(Format::Json) => ui.print(&formats::json(&formats::list(values))?),
        Some(Format::Name) => done
            .iter()
            .try_for_each(|(object, _)| ui.print(&Kind::of(object).title(&object.name_any()))),
        None => done.iter().try_for_each(|(object, word)| {
            ui.print(&format!(
                "{} {word}{}{}",
                Kind::of(object).title(&object.name_any()),
                manifests::place("in", object),
                args.change.dry_run.suffix()
            ))
        }),
    }
}

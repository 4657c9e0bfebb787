//! `kubectl appdeploy eject`: deletes an app and keeps its children, which keep serving.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use crd::{Kind, annotation, label};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use model::{CHILDREN, ChildId, NextCommand, command};
use serde_json::{Value, json};

use crate::cluster::confirm;
use crate::cluster::connection::{Cluster, KubeArgs, MANAGER};
use crate::cluster::wait::{self, Deadline};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::output::duration;
use crate::output::formats::{self, ChangeArgs, Done, DryRun};
use crate::resource::live_children;
use crate::resource::live_children::Live;
use crate::resource::selection::{self, Selection};
use crate::resource::{autoscaler, children};
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Show what would be deleted and what would stay
  {command} eject {name} --dry-run=client

  # Delete the AppDeploy; its Deployment, Service and Ingress keep serving
  {command} eject {name}

No operator needs to run. If the command is interrupted, run it again to
continue.";

/// The flags of `eject`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    change: ChangeArgs,
}

/// An app to eject, and its children.
struct Ejection {
    name: String,
    /// The app; `None` if only the rest of an interrupted command is left.
    app: Option<DynamicObject>,
    /// The children that stay, with their UIDs.
    stays: Vec<(ChildId, String)>,
    /// Autoscalers that target the app, and will have no target.
    scalers: Vec<String>,
}

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    args.which.require(Kind::AppDeploy, "eject {name}")?;
    let cluster = kube.connect().await?.about(Kind::AppDeploy);
    let (leaving, mut failures) = find(&args, &cluster, ui).await?;
    let plan: Vec<String> = leaving.iter().map(Ejection::plan).collect();
    let is_asked = args.change.dry_run.is_real() && !args.yes && leaving.iter().any(|one| one.app.is_some());
    // A prompt always shows the plan.
    if (args.change.output.is_none() || is_asked) && !leaving.is_empty() {
        ui.eprintln(&plan.join("\n"));
    }
    if is_asked {
        let names: Vec<&str> = leaving.iter().map(|one| one.name.as_str()).collect();
        let names = names.join(" ");
        let again = leaving.iter().fold(
            NextCommand::from(cluster.kind_info().command).and("eject"),
            |command, one| command.and(command!("{}", one.name)),
        );
        let unasked = Error::usage(format!(
            "{names} is ejected only after confirmation: nothing was changed"
        ))
        .next(again.clone().and("--yes").and(cluster.flag()).remark("to confirm"));
        let question = format!("Eject {names}?");
        confirm::ask(
            &cluster,
            Some(&cluster.namespace),
            &question,
            unasked,
            "nothing was changed",
        )?;
        let (now, _) = find(&args, &cluster, ui).await?;
        if now.iter().map(Ejection::shape).ne(leaving.iter().map(Ejection::shape)) {
            return Err(confirm::outdated(again.and(cluster.flag())));
        }
    }
    let deadline = Deadline::after(args.timeout);
    let mut done = Vec::new();
    for one in leaving {
        match eject(&args, &cluster, &one, deadline, ui).await {
            Ok(object) => done.push(Done {
                title: cluster.title(&one.name),
                word: "ejected",
                object,
                is_held: false,
            }),
            Err(error) => failures.push(error),
        }
    }
    args.change.print_results(ui, &done)?;
    selection::conclude(failures, ui)
}

async fn find(args: &Args, cluster: &Cluster, ui: &mut Ui) -> Result<(Vec<Ejection>, Vec<Error>)> {
    // Each object once, in the order of the arguments.
    let typed = args.which.names.iter().map(|text| selection::name(cluster.kind, text));
    let mut known = BTreeSet::new();
    let mut typed = typed.collect::<Result<Vec<_>>>()?;
    typed.retain(|name| known.insert(*name));
    let found = match args.which.resolve(cluster, "eject {name}").await {
        // All that were named are missing: an interrupted command may have left something to do.
        Err(error) if error.is_not_found() => typed.iter().map(|_| Err(error.clone())).collect(),
        other => other?,
    };
    if found.is_empty() {
        selection::nothing(cluster, ui);
    }
    let (mut leaving, mut failures) = (Vec::new(), Vec::new());
    for (index, object) in found.into_iter().enumerate() {
        let (name, app) = match object {
            Ok(object) => (object.name_any(), Ok(object)),
            Err(error) if error.is_not_found() => ((*typed.get(index).unwrap_or(&"")).to_owned(), Err(error)),
            Err(error) => {
                failures.push(error);
                continue;
            }
        };
        let live = Live::fetch(cluster, &cluster.namespace, &name, CHILDREN).await?;
        match app {
            Ok(app) => leaving.push(Ejection {
                // The garbage collector may already have released children of an app that is being deleted.
                stays: of(&live, |object| {
                    live_children::is_of(object, app.metadata.uid.as_deref())
                        || app.metadata.deletion_timestamp.is_some() && is_half_free(object)
                }),
                scalers: Vec::new(),
                app: Some(app),
                name,
            }),
            Err(error) => {
                let stays = of(&live, is_half_free);
                if stays.is_empty() {
                    failures.push(error);
                } else {
                    leaving.push(Ejection {
                        name,
                        app: None,
                        stays,
                        scalers: Vec::new(),
                    });
                }
            }
        }
    }
    if leaving.iter().any(|one| one.app.is_some()) {
        let all = ListParams::default();
        // Without the right to list them, apps can still be ejected.
        let scalers = children::list::<HorizontalPodAutoscaler>(cluster, &cluster.namespace, &all).await?;
        for one in &mut leaving {
            let of = scalers
                .iter()
                .flatten()
                .filter(|scaler| autoscaler::is_for(scaler, cluster.kind, &one.name));
            one.scalers = of.map(kube::ResourceExt::name_any).collect();
        }
    }
    Ok((leaving, failures))
}

fn of(live: &Live, is_meant: impl Fn(&Value) -> bool) -> Vec<(ChildId, String)> {
    let meant = live.iter().filter(|(_, object)| is_meant(object));
    meant
        .filter_map(|(id, object)| Some((id.clone(), object["metadata"]["uid"].as_str()?.to_owned())))
        .collect()
}

/// Whether an object has lost its owner and still has our labels.
fn is_half_free(object: &Value) -> bool {
    let metadata = &object["metadata"];
    metadata["labels"][label::MANAGED_BY] == label::MANAGED_BY_VALUE
        && metadata["ownerReferences"].as_array().is_none_or(Vec::is_empty)
}

impl Ejection {
    /// Returns the state that the plan was made for.
    fn shape(&self) -> (Option<Value>, &[(ChildId, String)]) {
        let app = self.app.as_ref().map(|app| {
            let app = serde_json::to_value(app).unwrap_or_default();
            confirm::shape(&app)
        });
        (app, &self.stays)
    }

    /// Returns the plan: what is deleted and what is kept.
    fn plan(&self) -> String {
        let stays: Vec<String> = self
            .stays
            .iter()
            .map(|(id, _)| format!("{}/{}", id.kind.as_str().to_lowercase(), id.name))
            .collect();
        let stays = if stays.is_empty() {
            "nothing: it has no children".to_owned()
        } else {
            format!("{} and the pods, which keep serving", stays.join(", "))
        };
        let goes = match self.app {
            Some(_) => format!("AppDeploy {}; drift of its children is no longer repaired", self.name),
            None => "the labels that an interrupted eject has left".to_owned(),
        };
        let mut plan = format!("goes:  {goes}\nstays: {stays}");
        for scaler in &self.scalers {
            let _ = write!(
                plan,
                "\nnote:  horizontalpodautoscaler/{scaler} scales AppDeploy {name}, which is deleted: set its scaleTargetRef to Deployment {name}",
                name = self.name
            );
        }
        plan
    }
}

/// Ejects an app. Each step can be repeated.
async fn eject(args: &Args, cluster: &Cluster, one: &Ejection, deadline: Deadline, ui: &mut Ui) -> Result<Value> {
    let dry_run = args.change.dry_run;
    let shown = one.app.as_ref().map(formats::presentable).unwrap_or_default();
    if dry_run == DryRun::Client {
        return Ok(shown);
    }
    if let Some(app) = &one.app {
        let params = DeleteParams {
            dry_run: dry_run == DryRun::Server,
            // The garbage collector removes the owner references before the app is deleted. The operator does not write for an app
            // that is being deleted, and does not change objects without its owner reference.
            propagation_policy: Some(PropagationPolicy::Orphan),
            preconditions: Some(Preconditions {
                uid: app.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let api = cluster.objects(Some(&cluster.namespace));
        cluster.call(api.delete(&one.name, &params)).await?;
        if dry_run.is_real() {
            ui.progress(&format!("waiting until AppDeploy {} is deleted", one.name));
            let left = wait::until_deleted(cluster, api, &one.name, app.metadata.uid.as_deref(), deadline, ui).await?;
            if left.is_some() {
                return Err(held(cluster, one, deadline));
            }
        }
    }
    for (id, uid) in &one.stays {
        free(cluster, id, uid, one.app.as_ref(), dry_run).await?;
    }
    Ok(shown)
}

/// Removes our labels and annotations from an object. A later app of the same name then reports a name conflict.
async fn free(cluster: &Cluster, id: &ChildId, uid: &str, app: Option<&DynamicObject>, dry_run: DryRun) -> Result<()> {
    let mut patch = json!({"metadata": {
        "uid": uid,
        "labels": {label::MANAGED_BY: null},
        "annotations": {annotation::DESIRED_HASH: null, annotation::REVISION_SPEC: null},
    }});
    if let Some(owner) = app.and_then(|app| app.metadata.uid.as_deref()) {
        // A child that was made while the garbage collector went through them would have kept it.
        patch["metadata"]["ownerReferences"] = json!([{"$patch": "delete", "uid": owner}]);
    }
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        dry_run: dry_run == DryRun::Server,
        ..PatchParams::default()
    };
    let api = live_children::api(cluster, id.kind, &cluster.namespace);
    let patched = cluster
        .attempt(api.patch(&id.name, &params, &Patch::Strategic(&patch)))
        .await?;
    match patched {
        // It was deleted, and so has no owner.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(source) => Err(cluster
            .explain(source)
            .about(&format!("{}/{}", id.kind.plural, id.name))),
        Ok(_) => Ok(()),
    }
}

fn held(cluster: &Cluster, one: &Ejection, deadline: Deadline) -> Error {
    Error::new(
        ErrorKind::TimedOut,
        format!(
            "{} is not deleted after {}; it may still be",
            cluster.title(&one.name),
            deadline.text()
        ),
    )
    .why("Kubernetes' garbage collector has not released its children: is the kube-controller-manager running?")
    .next(
        cluster
            .kind_info()
            .verb("eject", &one.name)
            .and(cluster.flag())
            .remark("continues"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_lists_what_is_deleted_and_what_stays() {
        let app = serde_json::from_value(json!({"metadata": {"name": "shop"}})).ok();
        let all: Vec<_> = CHILDREN
            .iter()
            .map(|kind| (ChildId::new(kind, "shop"), "u".to_owned()))
            .collect();
        let plan = |app: Option<DynamicObject>, stays: &[(ChildId, String)]| {
            let stays = stays.to_vec();
            let name = "shop".to_owned();
            Ejection {
                name,
                scalers: app.iter().map(|_| "shop".to_owned()).collect(),
                app,
                stays,
            }
            .plan()
        };
        let plans = [plan(app.clone(), &all), plan(app, &[]), plan(None, &all[1..2])];
        insta::assert_snapshot!(plans.join("\n\n"));
    }
}

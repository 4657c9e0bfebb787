//! `kubectl appdeploy delete`.

use std::time::Duration;

use clap::ValueEnum;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, DynamicObject, Preconditions, PropagationPolicy};

use crate::children::{self, Children};
use crate::connection::{Cluster, KubeArgs};
use crate::error::{Error, Kind, Result};
use crate::output::{self, ChangeArgs, Done, DryRun};
use crate::selection::{self, Selection};
use crate::ui::Ui;
use crate::wait::{self, Deadline};
use crate::{app, duration};

const EXAMPLES: &str = "\
Examples:
  # Delete an app; returns when its Deployment, Service, Ingress and pods are gone
  kubectl appdeploy delete shop

  # Delete two, and do not mind if one is already gone
  kubectl appdeploy delete shop blog --ignore-not-found

  # Delete the AppDeploy and leave what belongs to it running
  kubectl appdeploy delete shop --cascade=orphan";

/// What happens to what belongs to a deleted app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Cascade {
    /// It goes first, and the app last.
    #[default]
    Foreground,
    /// The app goes first, the rest follows.
    Background,
    /// It stays.
    Orphan,
}

/// The flags of `delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    apps: Selection,
    /// An app that does not exist is no error
    #[arg(long)]
    ignore_not_found: bool,
    /// What happens to what belongs to the app: foreground deletes it first, background later, orphan keeps it
    #[arg(long, value_name = "HOW", default_value = "foreground", hide_possible_values = true)]
    cascade: Cascade,
    /// Return when the apps are gone
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

/// Runs the verb.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?;
    let apps = match args.apps.resolve(&cluster, "kubectl appdeploy delete shop").await {
        Err(error) if args.ignore_not_found && is_not_found(&error) => Vec::new(),
        other => other?,
    };
    if apps.is_empty() && args.apps.names.is_empty() {
        ui.say(&format!("No apps found in {} namespace.", cluster.namespace));
    }
    let (mut gone, mut failures) = (Vec::new(), Vec::new());
    // All are asked to go before the first is waited for.
    let mut asked = Vec::new();
    for object in apps {
        match ask(&args, &cluster, object).await {
            Ok(object) => asked.push(object),
            Err(error) if args.ignore_not_found && is_not_found(&error) => {}
            Err(error) => failures.push(error),
        }
    }
    let deadline = Deadline::after(args.timeout);
    for object in asked {
        if args.wait && args.change.dry_run.is_real() {
            ui.progress(&format!(
                "waiting until {} and what belongs to it are gone",
                object.name_any()
            ));
            if let Err(error) = until_gone(&cluster, &object, deadline).await {
                failures.push(error);
                continue;
            }
        }
        gone.push(Done {
            title: app::title(&object.name_any()),
            word: "deleted",
            object: output::presentable(&object),
        });
    }
    args.change.tell_all(ui, &gone)?;
    selection::conclude(failures, ui)
}

fn is_not_found(error: &Error) -> bool {
    error.sentence().starts_with("Error from server (NotFound)")
}

async fn ask(args: &Args, cluster: &Cluster, object: Result<DynamicObject>) -> Result<DynamicObject> {
    let object = object?;
    if args.change.dry_run == DryRun::Client {
        return Ok(object);
    }
    let params = DeleteParams {
        dry_run: args.change.dry_run == DryRun::Server,
        propagation_policy: Some(match args.cascade {
            Cascade::Foreground => PropagationPolicy::Foreground,
            Cascade::Background => PropagationPolicy::Background,
            Cascade::Orphan => PropagationPolicy::Orphan,
        }),
        // The one that was looked at, not another that took its name meanwhile.
        preconditions: Some(Preconditions {
            uid: object.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let api = app::api(&cluster.client, Some(&cluster.namespace));
    cluster.call(api.delete(&object.name_any(), &params)).await?;
    Ok(object)
}

/// Waits until an app is gone, and says what holds it when it is not.
pub async fn until_gone(cluster: &Cluster, object: &DynamicObject, deadline: Deadline) -> Result<()> {
    let (namespace, name) = selection::place(object);
    let api = app::api(&cluster.client, Some(&namespace));
    let Some(last) = wait::gone(cluster, api, &name, object.metadata.uid.as_deref(), deadline).await? else {
        return Ok(());
    };
    let children = children::fetch(cluster, &namespace, &name).await?;
    Err(held(&last, &children, deadline))
}

/// Returns what keeps an app from going, by name.
fn held(object: &DynamicObject, children: &Children, deadline: Deadline) -> Error {
    const FOREGROUND: &str = "foregroundDeletion";
    let name = object.name_any();
    let error = Error::new(
        Kind::TimedOut,
        format!("{} is not gone after {}", app::title(&name), deadline.text()),
    );
    let namespace = object.namespace().unwrap_or_default();
    let guards: Vec<&str> = object
        .finalizers()
        .iter()
        .map(String::as_str)
        .filter(|guard| *guard != FOREGROUND)
        .collect();
    if !guards.is_empty() {
        return error
            .why(format!(
                "the finalizer {} holds it: whoever set it has not finished",
                guards.join(", ")
            ))
            .next(format!("kubectl get appdeploy {name} -n {namespace} -o yaml"));
    }
    let blocking = blocking(children);
    if blocking.is_empty() {
        return error
            .why("Kubernetes' garbage collector has not removed it: is the kube-controller-manager running?")
            .next(format!("kubectl appdeploy status {name} -n {namespace}"));
    }
    let first = blocking.first().map_or_else(String::new, |(child, _)| child.clone());
    blocking
        .into_iter()
        .fold(error, |error, (child, guards)| {
            error.why(if guards.is_empty() {
                format!("{child} is still there")
            } else {
                format!("{child} is still there, held by the finalizer {guards}")
            })
        })
        .next(format!("kubectl describe {first} -n {namespace}"))
}

/// Returns the children that are still there, with their finalizers.
fn blocking(children: &Children) -> Vec<(String, String)> {
    fn of<'a, K: kube::Resource + 'a>(
        kind: &'a str,
        section: &'a children::Section<K>,
    ) -> impl Iterator<Item = (String, String)> + 'a {
        section.iter().flatten().map(move |child| {
            let guards = child
                .finalizers()
                .iter()
                .filter(|guard| *guard != "foregroundDeletion")
                .cloned()
                .collect::<Vec<_>>();
            (format!("{kind}/{}", child.name_any()), guards.join(", "))
        })
    }
    let mut all: Vec<_> = of("ingress", &children.ingresses)
        .chain(of("service", &children.services))
        .chain(of("deployment", &children.deployments))
        .chain(of("replicaset", &children.replica_sets))
        .chain(of("pod", &children.pods))
        .collect();
    // What a finalizer holds is the cause; the rest waits for it.
    if all.iter().any(|(_, guards)| !guards.is_empty()) {
        all.retain(|(_, guards)| !guards.is_empty());
    }
    all.truncate(5);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Look;
    use serde_json::json;

    #[test]
    fn what_holds_an_app_is_named() {
        let object: DynamicObject = serde_json::from_value(
            json!({"metadata": {"name": "shop", "namespace": "a", "finalizers": ["foregroundDeletion"]}}),
        )
        .unwrap();
        let children = Children {
            ingresses: Ok(vec![]),
            services: Ok(vec![
                serde_json::from_value(json!({"metadata": {"name": "shop", "finalizers": ["lb.example.com/guard"]}}))
                    .unwrap(),
            ]),
            deployments: Ok(vec![
                serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap(),
            ]),
            replica_sets: Ok(vec![]),
            pods: Err("n/a (forbidden)".to_owned()),
        };
        insta::assert_snapshot!(held(&object, &children, Deadline::after(Duration::from_secs(90))).text(&Look::default()), @r"
        error: appdeploy.appdeploy.dev/shop is not gone after 1m30s
          why:  service/shop is still there, held by the finalizer lb.example.com/guard
          next: kubectl describe service/shop -n a
        ");
    }
}

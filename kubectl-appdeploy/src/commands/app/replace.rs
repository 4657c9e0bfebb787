//! `kubectl appdeploy podset replace`: starts a new pod, then deletes the named one.

mod progress;

use std::time::Duration;

use crd::{Kind, PodReference, PodSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use model::command;
use serde_json::json;

use crate::cluster::connection::{Cluster, KubeArgs, MANAGER};
use crate::cluster::wait::Deadline;
use crate::error::{Error, Result};
use crate::output::duration;
use crate::output::formats::{self, ChangeArgs, DryRun, some};
use crate::resource::workload::Workload;
use crate::resource::{children, selection};
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Start a new pod, and delete this one when the new one is available
  {command} replace {name} --pod={name}-0

  # Replace two, one after the other; wait until the {one} is ready again
  {command} replace {name} --wait \\
    --pod={name}-0 --pod={name}-2

  # Show the change without making it
  {command} replace {name} --pod={name}-0 \\
    --dry-run=client -o yaml";

/// The flags of `replace`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of the {one}
    name: String,
    /// Pod to replace; can be repeated
    #[arg(long = "pod", value_name = "POD", required = true, value_delimiter = ',')]
    pods: Vec<String>,
    /// Wait until these pods are deleted and the {one} is ready; exit code 3 if it will not become ready without a
    /// change, 4 on timeout
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, action = clap::ArgAction::Set, hide_possible_values = true
    )]
    wait: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    change: ChangeArgs,
}

/// A pod set with pods to replace.
struct Report {
    object: DynamicObject,
    /// All its pods.
    pods: Vec<Pod>,
    /// Whether they were already named.
    again: bool,
}

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?.about(Kind::PodSet);
    let name = selection::name(Kind::PodSet, &args.name)?;
    let mut named: Vec<String> = Vec::new();
    for pod in &args.pods {
        let pod = pod.strip_prefix("pod/").unwrap_or(pod).to_owned();
        if !named.contains(&pod) {
            named.push(pod);
        }
    }
    let told = match send(&args, &cluster, name, &named).await? {
        // Another client wrote in between, so it is checked again, once.
        Err(source) if is_conflict(&source) => send(&args, &cluster, name, &named).await?,
        other => other,
    };
    let told = told.map_err(|source| cluster.explain(source))?;
    let done = if told.again {
        format!("unchanged: already marked for replacement: {}", named.join(", "))
    } else {
        format!("marked {} for replacement", named.join(", "))
    };
    args.change
        .print_result(ui, &cluster.title(name), &done, &formats::presentable(&told.object))?;
    if !args.change.dry_run.is_real() {
        return Ok(());
    }
    if args.wait {
        let deadline = Deadline::after(args.timeout);
        return progress::wait(&cluster, &told.object, &named, told.pods, deadline, ui).await;
    }
    if args.change.output.is_none() {
        let status = cluster.kind_info().verb("status", name);
        ui.next(status.and("-w").and(cluster.flag()));
    }
    Ok(())
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict())
}

/// Checks the pods, and writes their names into the spec if it was not changed since. Returns the response of the API server to the
/// write.
async fn send(args: &Args, cluster: &Cluster, name: &str, named: &[String]) -> Result<kube::Result<Report>> {
    let api = cluster.objects(Some(&cluster.namespace));
    let mut object = cluster.get(name).await?;
    let workload = Workload::read(Kind::PodSet, &object);
    let Workload::PodSet(set) = &workload else {
        return Err(Error::failed(format!("{} is not a PodSet", cluster.title(name))));
    };
    let pods = children::fetch(cluster, &workload).await?.pods.map_err(|why| {
        Error::failed(format!("the pods of {} cannot be seen: {why}", cluster.title(name)))
            .next(command!("kubectl auth can-i list pods -n {}", cluster.namespace))
    })?;
    let missing: Vec<&String> = named
        .iter()
        .filter(|named| !pods.iter().any(|pod| pod.name_any() == **named))
        .collect();
    if !missing.is_empty() {
        return Err(strangers(cluster, name, &pods, &missing).await?);
    }
    let list = list(set, &pods, named);
    let again = list == set.spec.replace_pods;
    if args.change.dry_run == DryRun::Client {
        object.data["spec"]["replacePods"] = json!(list);
    } else if !again {
        let patch = json!({
            "metadata": {"resourceVersion": object.resource_version()},
            "spec": {"replacePods": list},
        });
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            dry_run: args.change.dry_run == DryRun::Server,
            ..PatchParams::default()
        };
        match cluster.attempt(api.patch(name, &params, &Patch::Merge(&patch))).await? {
            Ok(patched) => object = patched,
            Err(source) => return Ok(Err(source)),
        }
    }
    Ok(Ok(Report { object, pods, again }))
}

/// Returns the pods to replace: the existing ones of the spec, then the named ones.
fn list(set: &PodSet, pods: &[Pod], named: &[String]) -> Vec<PodReference> {
    let reference = |pod: &Pod| PodReference {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
    };
    let is_there = |one: &&PodReference| pods.iter().any(|pod| reference(pod) == **one);
    let mut list: Vec<PodReference> = set.spec.replace_pods.iter().filter(is_there).cloned().collect();
    for pod in pods.iter().filter(|pod| named.contains(&pod.name_any())).map(reference) {
        if !list.contains(&pod) {
            list.push(pod);
        }
    }
    list
}

/// Returns the error for pods of other owners.
async fn strangers(cluster: &Cluster, name: &str, pods: &[Pod], missing: &[&String]) -> Result<Error> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut others = Vec::new();
    for one in missing.iter().take(5) {
        // Without the right to get a pod, the message has less detail.
        if let Ok(Some(pod)) = cluster.attempt(api.get_opt(one)).await? {
            others.push(pod);
        }
    }
    Ok(refusal(cluster, name, pods, missing, &others))
}

fn refusal(cluster: &Cluster, name: &str, pods: &[Pod], missing: &[&String], others: &[Pod]) -> Error {
    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let (what, those) = if let [one] = names.as_slice() {
        ("pod", one.clone())
    } else {
        ("pods", names.join(", "))
    };
    let title = cluster.title(name);
    let mut error = Error::failed(format!("{title} has no {what} {those}: nothing was changed"));
    for other in others {
        let owners = other.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| owner.controller == Some(true));
        let whose = owner.map_or_else(
            || "no owner".to_owned(),
            |owner| format!("{} {}", owner.kind, owner.name),
        );
        error = error.why(format!("pod {} is owned by {whose}", other.name_any()));
    }
    let mut own: Vec<String> = pods.iter().map(kube::ResourceExt::name_any).collect();
    own.sort_by_key(|name| (name.len(), name.clone()));
    let error = error.why(if own.is_empty() {
        "it has no pods".to_owned()
    } else {
        format!("its pods are {}", some(&own))
    });
    error.next(cluster.kind_info().verb("status", name).and(cluster.flag()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_deleted_pods_are_dropped_and_none_is_repeated() {
        let pods = ["web-0", "web-1", "web-2"].map(|name| {
            let pod = json!({"metadata": {"name": name, "uid": format!("uid of {name}")}});
            serde_json::from_value::<Pod>(pod).unwrap()
        });
        let entry = |name: &str, uid: &str| PodReference {
            name: name.to_owned(),
            uid: uid.to_owned(),
        };
        let mut set = PodSet::default();
        let (chosen, added) = (entry("web-2", "uid of web-2"), entry("web-0", "uid of web-0"));
        let (deleted, earlier) = (entry("web-7", "uid of web-7"), entry("web-1", "of an earlier pod"));
        set.spec.replace_pods = vec![deleted, earlier, chosen.clone()];
        let named = ["web-0", "web-2"].map(String::from);
        assert_eq!(list(&set, &pods, &named), [chosen, added]);
    }
}

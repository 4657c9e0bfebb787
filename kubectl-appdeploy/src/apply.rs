//! `kubectl appdeploy apply`: apps and pod sets from files, each as its file says.

mod manifest;
mod source;

use std::path::PathBuf;

use kube::api::{DynamicObject, Patch, PatchParams, ValidationDirective};
use serde_json::Value;

use crate::change::{self, Flags, UNCHANGED};
use crate::connection::{Cluster, KubeArgs, MANAGER};
use crate::error::{Error, Result};
use crate::output::{self, Done, DryRun};
use crate::ui::Ui;
use crate::{selection, workload};

pub use manifest::Manifest;
pub use source::read;

const EXAMPLES: &str = "\
Examples:
  # All apps and pod sets of a file, or of a folder with what is below it
  kubectl appdeploy apply -f shop.yaml
  kubectl appdeploy apply -f deploy -R

  # What another command writes; return when all of it is ready
  kubectl appdeploy create shop --image=nginx --dry-run=client -o yaml |
    kubectl appdeploy apply -f - --wait";

/// The flags of `apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// File or folder to apply, - for the standard input; may be given more than once
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Also what is in folders below a folder
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Take over fields that others have set to something else
    #[arg(long)]
    force_conflicts: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Runs the verb. Nothing is written before everything was found to be valid.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let documents = source::read(&args.files, args.recursive)?;
    let cluster = kube.connect().await?;
    let mut manifests = Vec::new();
    let mut failures = Vec::new();
    for document in documents {
        match Manifest::of(document, kube.namespace.as_deref(), &cluster.namespace) {
            Ok(manifest) => manifests.push(manifest),
            Err(error) => failures.push(error),
        }
    }
    if !failures.is_empty() {
        return selection::conclude(failures, ui);
    }
    if manifests.is_empty() {
        return Err(Error::usage(
            "there is no app and no pod set in what was given: nothing was done",
        ));
    }
    let mut done = Vec::new();
    for manifest in manifests {
        let cluster = cluster.clone().about(manifest.kind).within(&manifest.namespace);
        match apply(&args, &cluster, &manifest).await {
            Ok(one) => done.push((cluster, one)),
            Err(error) => failures.push(error),
        }
    }
    let told: Vec<Done> = done.iter().map(|(_, one)| one.clone()).collect();
    args.flags.change.tell_all(ui, &told)?;
    // Those of one kind and namespace are waited for at once.
    while let Some((cluster, _)) = done.first() {
        let cluster = cluster.clone();
        let is_among = |other: &Cluster| other.kind == cluster.kind && other.namespace == cluster.namespace;
        let (these, others): (Vec<_>, Vec<_>) = done.into_iter().partition(|(other, _)| is_among(other));
        done = others;
        let these: Vec<Done> = these.into_iter().map(|(_, one)| one).collect();
        failures.extend(change::follow(&cluster, None, args.flags, &these, ui).await?);
    }
    selection::conclude(failures, ui)
}

async fn apply(args: &Args, cluster: &Cluster, manifest: &Manifest) -> Result<Done> {
    let api = cluster.objects(Some(&manifest.namespace));
    let before = cluster.call(api.get_opt(&manifest.name)).await?;
    let done = |object: Value, is_changed: bool| Done {
        title: cluster.title(&manifest.name),
        word: match (&before, is_changed) {
            (None, _) => "created",
            (Some(_), true) => "configured",
            (Some(_), false) => UNCHANGED,
        },
        object,
    };
    if args.flags.change.dry_run == DryRun::Client {
        let is_changed = before.as_ref().is_none_or(|before| {
            let before = serde_json::to_value(before).unwrap_or_default();
            !says(&before, &manifest.object)
        });
        return Ok(done(manifest.object.clone(), is_changed));
    }
    let send = |force: bool| {
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            dry_run: args.flags.change.dry_run == DryRun::Server,
            force,
            field_validation: Some(ValidationDirective::Strict),
        };
        let api = api.clone();
        async move {
            api.patch(&manifest.name, &params, &Patch::Apply(&manifest.object))
                .await
        }
    };
    let after = match cluster.attempt(send(args.force_conflicts)).await? {
        // What was set by another command of this plugin is not somebody else's.
        Err(kube::Error::Api(status)) if is_our_own(&status) => cluster.call(send(true)).await?,
        other => other.map_err(|source| cluster.explain(source))?,
    };
    let version = |object: &DynamicObject| object.metadata.resource_version.clone();
    let is_changed = before.as_ref().is_none_or(|before| version(before) != version(&after));
    let after = workload::complete(cluster.kind, after);
    Ok(done(output::presentable(&after), is_changed))
}

/// Whether an object says already what a manifest says, and perhaps more.
fn says(object: &Value, manifest: &Value) -> bool {
    match (object, manifest) {
        (Value::Object(object), Value::Object(manifest)) => manifest
            .iter()
            .all(|(field, value)| object.get(field).is_some_and(|object| says(object, value))),
        (object, manifest) => object == manifest,
    }
}

/// Whether all fields about which there is a conflict were set by this plugin.
fn is_our_own(status: &kube::core::Status) -> bool {
    let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
    let ours = format!("conflict with \"{MANAGER}\"");
    status.is_conflict() && !causes.is_empty() && causes.iter().all(|cause| cause.message.starts_with(&ours))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_an_object_says_beside_a_manifest_is_no_change() {
        let live = json!({"metadata": {"name": "shop", "uid": "u"}, "spec": {"image": "a", "replicas": 1}});
        assert!(says(
            &live,
            &json!({"metadata": {"name": "shop"}, "spec": {"image": "a"}})
        ));
        assert!(!says(&live, &json!({"spec": {"image": "b"}})));
        assert!(!says(&live, &json!({"spec": {"port": 80}})));
    }
}

//! `kubectl appdeploy apply`: applies apps, pod sets and queues from files.

mod ownership;

use std::path::PathBuf;

use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams, ValidationDirective};
use serde_json::{Value, json};

use crate::cluster::connection::{Cluster, KubeArgs, MANAGER};
use crate::cluster::kind_info;
use crate::cluster::wait::Deadline;
use crate::commands::change::{self, Flags, UNCHANGED};
use crate::error::{Error, Result};
use crate::output::formats::{self, Done, DryRun};
use crate::resource::fields::put;
use crate::resource::manifest::Manifest;
use crate::resource::manifest_file;
use crate::resource::selection;
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Apply a file, or a folder with its subfolders
  kubectl appdeploy apply -f shop.yaml
  kubectl appdeploy apply -f deploy -R

  # Apply the output of another command; wait until it is ready
  kubectl appdeploy create shop --image=nginx --dry-run=client -o yaml |
    kubectl appdeploy apply -f - --wait";

/// The flags of `apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// File or folder to apply, or - for stdin; can be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Include subfolders
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Overwrite fields that other field managers have set
    #[arg(long)]
    force_conflicts: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Runs the command. Nothing is written before everything was found to be valid.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let documents = manifest_file::read(&args.files, args.recursive)?;
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
            "no app, pod set or queue found in the input: nothing was done",
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
    args.flags.change.print_results(ui, &told)?;
    // The objects of one kind and namespace share a wait and its deadline.
    let deadline = Deadline::after(args.flags.timeout);
    while let Some((cluster, _)) = done.first() {
        let cluster = cluster.clone();
        let is_among =
            |other: &Cluster| other.kind_info() == cluster.kind_info() && other.namespace == cluster.namespace;
        let (these, others): (Vec<_>, Vec<_>) = done.into_iter().partition(|(other, _)| is_among(other));
        done = others;
        let these: Vec<Done> = these.into_iter().map(|(_, one)| one).collect();
        failures.extend(change::follow(&cluster, None, args.flags, &these, deadline, ui).await);
    }
    selection::conclude(failures, ui)
}

async fn apply(args: &Args, cluster: &Cluster, manifest: &Manifest) -> Result<Done> {
    let api = cluster.objects(Some(&manifest.namespace));
    let dry_run = args.flags.change.dry_run;
    let mut before = cluster.call(api.get_opt(&manifest.name)).await?;
    let done = |before: Option<&DynamicObject>, after: &Value, object: Value| Done {
        title: cluster.title(&manifest.name),
        word: word(before, after),
        is_held: before.is_some_and(|before| change::is_held(manifest.kind, &formats::presentable(before), after)),
        object,
    };
    if dry_run == DryRun::Client {
        let after = before
            .as_ref()
            .map_or_else(|| manifest.object.clone(), |before| foreseen(before, manifest));
        return Ok(done(before.as_ref(), &after, manifest.object.clone()));
    }
    if dry_run.is_real()
        && let Some(found) = before
    {
        before = take_over(cluster, manifest, found).await?;
    }
    let send = |force: bool| {
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            dry_run: dry_run == DryRun::Server,
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
        // Fields set by another command of this plugin belong to no other manager.
        Err(kube::Error::Api(status)) if is_our_own(&status) => cluster.call(send(true)).await?,
        other => other.map_err(|source| cluster.explain(source))?,
    };
    let mut after = formats::presentable(&kind_info::complete(manifest.kind, after));
    if let (DryRun::Server, Some(before)) = (dry_run, &before) {
        // A dry run takes over no fields, so these are still in the object.
        ownership::remove(
            &mut after,
            &ownership::dropped(before.managed_fields(), &manifest.object),
        );
    }
    Ok(done(before.as_ref(), &after, after.clone()))
}

/// Moves fields that other commands of the plugin have set to the field manager of `apply`, so that the file can remove them.
/// Returns the updated object if it still exists.
async fn take_over(cluster: &Cluster, manifest: &Manifest, found: DynamicObject) -> Result<Option<DynamicObject>> {
    let api = cluster.objects(Some(&manifest.namespace));
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let mut found = Some(found);
    for again in 1.. {
        let Some(object) = &found else { break };
        let Some(record) = ownership::taken_over(object.managed_fields()) else {
            break;
        };
        // Only if the object has not changed since it was read.
        let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "managedFields": record}});
        match cluster
            .attempt(api.patch(&manifest.name, &params, &Patch::Merge(&patch)))
            .await?
        {
            Ok(object) => return Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.is_conflict() && again < change::TRIES => {
                found = cluster.call(api.get_opt(&manifest.name)).await?;
            }
            Err(source) => return Err(cluster.explain(source)),
        }
    }
    Ok(found)
}

/// Returns the word for the change of an object. The status does not count, since the operator writes it.
fn word(before: Option<&DynamicObject>, after: &Value) -> &'static str {
    match before {
        None => "created",
        Some(before) if written(formats::presentable(before)) == written(after.clone()) => UNCHANGED,
        Some(_) => "configured",
    }
}

/// Returns an object without what the server and the operator write.
fn written(mut object: Value) -> Value {
    put(&mut object, "status", None);
    for field in ["resourceVersion", "generation"] {
        put(&mut object["metadata"], field, None);
    }
    object
}

/// Returns what an object becomes by a manifest, as far as that can be known without the server.
fn foreseen(before: &DynamicObject, manifest: &Manifest) -> Value {
    let mut after = formats::presentable(before);
    ownership::remove(
        &mut after,
        &ownership::dropped(before.managed_fields(), &manifest.object),
    );
    if !says(&after, &manifest.object) {
        overlay(&mut after, &manifest.object);
    }
    after
}

/// Writes the fields of a manifest over an object; lists as a whole.
fn overlay(object: &mut Value, manifest: &Value) {
    match (object, manifest) {
        (Value::Object(object), Value::Object(manifest)) => {
            for (field, value) in manifest {
                overlay(object.entry(field).or_insert(Value::Null), value);
            }
        }
        (object, manifest) => object.clone_from(manifest),
    }
}

/// Whether an object has all fields of a manifest.
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

    fn object(spec: Value, rest: Value) -> DynamicObject {
        let mut object = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "shop", "resourceVersion": "7", "generation": 1}, "spec": spec});
        overlay(&mut object, &rest);
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn only_user_fields_count_as_a_change() {
        let before = object(json!({"image": "a"}), json!({}));
        let of = |after: DynamicObject| word(Some(&before), &formats::presentable(&after));
        let touched = json!({"metadata": {"resourceVersion": "8", "managedFields": []}, "status": {"replicas": 1}});
        assert_eq!(of(object(json!({"image": "a"}), touched)), "unchanged");
        // The response to a dry run has the previous resource version.
        assert_eq!(of(object(json!({"image": "b"}), json!({}))), "configured");
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        assert_eq!(of(object(json!({"image": "a"}), labelled)), "configured");
        assert_eq!(word(None, &json!({})), "created");
    }

    #[test]
    fn client_dry_run_removes_dropped_fields() {
        let applied = json!({"metadata": {"managedFields": [{"manager": MANAGER, "operation": "Apply",
            "fieldsV1": {"f:spec": {"f:image": {}, "f:port": {}}}}]}});
        let before = object(json!({"image": "a", "port": 80, "replicas": 1}), applied);
        let foreseen = |spec: Value| {
            let manifest = Manifest {
                kind: crd::Kind::AppDeploy.into(),
                namespace: "default".to_owned(),
                name: "shop".to_owned(),
                object: json!({"metadata": {"name": "shop"}, "spec": spec}),
            };
            let after = foreseen(&before, &manifest);
            (word(Some(&before), &after), after["spec"].clone())
        };
        let same = json!({"image": "a", "port": 80, "replicas": 1});
        assert_eq!(foreseen(json!({"image": "a", "port": 80})), ("unchanged", same));
        let less = json!({"image": "a", "replicas": 1});
        assert_eq!(foreseen(json!({"image": "a"})), ("configured", less));
        let other = json!({"image": "b", "port": 80, "replicas": 1});
        assert_eq!(foreseen(json!({"image": "b", "port": 80})), ("configured", other));
    }

    #[test]
    fn fields_that_a_manifest_does_not_name_are_no_change() {
        let live = json!({"metadata": {"name": "shop", "uid": "u"}, "spec": {"image": "a", "replicas": 1}});
        assert!(says(
            &live,
            &json!({"metadata": {"name": "shop"}, "spec": {"image": "a"}})
        ));
        assert!(!says(&live, &json!({"spec": {"image": "b"}})));
        assert!(!says(&live, &json!({"spec": {"port": 80}})));
    }
}

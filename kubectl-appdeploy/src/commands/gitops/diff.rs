//! `kubectl appdeploy diff`: prints what the operator would change.

use crd::{AppDeploy, Kind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{DynamicObject, PostParams};
use model::children::Prune;
use model::merge::merged;
use model::{CHILDREN, ChildId, Desired, Digest, defaults, deferred_defaults};

use crate::cluster::connection::{Cluster, KubeArgs, MANAGER};
use crate::cluster::kind_info;
use crate::commands::change;
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::resource::files::Files;
use crate::resource::live_children::{Live, is_of, kinds_of};
use crate::resource::object_diff::{Pair, show};
use crate::resource::selection::{self, Selection};
use crate::resource::workload::Workload;
use crate::terminal::ui::{Ui, tolerate_closed};

const EXAMPLES: &str = "\
Examples:
  # Show drift: children that differ from the spec of the app
  {command} diff {name}

  # Show what applying a file would change
  {command} diff -f {name}.yaml

  # Show the drift of all apps of the namespace
  {command} diff --all

Compares the Deployment, Service and Ingress of the app. To compare the
AppDeploy itself, use kubectl diff -f {name}.yaml. KUBECTL_EXTERNAL_DIFF sets
another diff program.

Exit codes: 0 no difference, 1 a difference, more than 1 an error.";

/// The flags of `diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
    #[command(flatten)]
    files: Files,
}

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    compare(args, kube, ui).await.map_err(Error::of_a_comparison)
}

async fn compare(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    if args.files.is_empty() {
        args.which.require(Kind::AppDeploy, "diff {name}")?;
    }
    let cluster = kube.connect().await?.about(Kind::AppDeploy);
    let wishes = if args.files.is_empty() {
        let found = args.which.resolve(&cluster, "diff {name}").await?;
        if found.is_empty() {
            selection::nothing(&cluster, ui);
        }
        found.into_iter().map(|object| object.map(Comparison::of_now)).collect()
    } else if args.which.is_empty() {
        let mut wishes = Vec::new();
        let objects = args
            .files
            .read(Kind::AppDeploy, kube.namespace.as_deref(), &cluster.namespace)?;
        for object in objects {
            wishes.push(Comparison::of_file(&cluster, object).await);
        }
        wishes
    } else {
        return Err(Error::usage("-f and names, -l or --all exclude each other"));
    };
    let (mut pairs, mut failures) = (Vec::new(), Vec::new());
    for wish in wishes {
        let compared: Result<()> = async {
            let wish = wish?;
            let kinds = kinds_of(wish.before.iter().chain([&wish.now]));
            let live = Live::fetch(&cluster, &wish.namespace, &wish.name, &kinds).await?;
            pairs.extend(wish.pairs(&live, ui)?);
            Ok(())
        }
        .await;
        failures.extend(compared.err());
    }
    pairs.retain(Pair::differs);
    let differs = !pairs.is_empty();
    // Whether there is a difference does not depend on a reader.
    tolerate_closed(show(&pairs, ui))?;
    let failures = failures.into_iter().map(Error::of_a_comparison).collect();
    selection::conclude(failures, ui)?;
    if differs {
        return Err(Error::new(ErrorKind::Differs, ""));
    }
    Ok(())
}

/// An app and what it is compared with.
struct Comparison {
    namespace: String,
    name: String,
    /// The app before the change.
    before: Option<AppDeploy>,
    now: AppDeploy,
}

impl Comparison {
    fn of_now(object: DynamicObject) -> Self {
        let (namespace, name) = selection::place(&object);
        Self {
            namespace,
            name,
            before: None,
            now: app(&object),
        }
    }

    /// Returns the app with the spec of the file from a dry run, which validates it and sets defaults.
    async fn of_file(cluster: &Cluster, object: DynamicObject) -> Result<Self> {
        let (namespace, name) = selection::place(&object);
        let api = cluster.objects(Some(&namespace));
        let mut before = cluster.call(api.get_opt(&name)).await?;
        let params = PostParams {
            dry_run: true,
            field_manager: Some(MANAGER.to_owned()),
        };
        let mut tries = 0;
        let now = loop {
            let Some(found) = &before else {
                let mut now = app(&cluster.call(api.create(&params, &object)).await?);
                // The UID of a dry run is not of an object.
                now.metadata.uid = None;
                break now;
            };
            match cluster
                .attempt(api.replace(&name, &params, &over(&object, found)))
                .await?
            {
                Ok(changed) => break app(&changed),
                // The operator has written its status.
                Err(kube::Error::Api(status)) if status.is_conflict() && tries < change::TRIES => {
                    tries += 1;
                    before = cluster.call(api.get_opt(&name)).await?;
                }
                Err(source) => return Err(cluster.explain(source)),
            }
        };
        Ok(Self {
            namespace,
            name,
            before: before.as_ref().map(app),
            now,
        })
    }

    /// Returns each child before and after the change.
    fn pairs(&self, live: &Live, ui: &mut Ui) -> Result<Vec<Pair>> {
        let title = kind_info::title(Kind::AppDeploy, &self.name);
        let invalid = |invalid: model::Invalid| {
            let error = Error::failed(format!("{title} is not valid, so nothing is written for it"));
            invalid.0.into_iter().fold(error, Error::why)
        };
        let now = live.desired(&live.validate(&self.now).map_err(invalid)?);
        let before = self.before.as_ref().and_then(|before| live.validate(before).ok());
        let before = before.map(|before| live.desired(&before));
        let uid = self.now.metadata.uid.as_deref();
        let mut pairs = Vec::new();
        for id in ids(&now, live) {
            let wanted = now.get(&id);
            let there = live.get(&id);
            if there.is_some_and(|there| !is_of(there, uid)) {
                if wanted.is_none() {
                    continue;
                }
                ui.warn(&format!(
                    "{}/{} is not a child of the app, so the operator does not change it",
                    id.kind.as_str().to_lowercase(),
                    id.name
                ));
            }
            let before = before.as_ref().and_then(|before| {
                let (object, there) = (before.get(&id)?, there.map(Digest::of).unwrap_or_default());
                Some(deferred_defaults::previous(object, &there))
            });
            let becomes = match (there, wanted) {
                (Some(there), Some(wanted)) => {
                    // Fields that older children get with their next pods are not a difference.
                    let deferred = deferred_defaults::defer(wanted, &Digest::of(there));
                    Some(defaults::filled(id.kind, &merged(there, before.as_ref(), &deferred)))
                }
                (None, wanted) => wanted.cloned(),
                // The operator keeps it.
                (Some(there), None) if id.kind.prune == Prune::Keep => Some(there.clone()),
                (Some(_), None) => None,
            };
            pairs.push(Pair::of(id.kind, &self.namespace, &id.name, there, becomes.as_ref()));
        }
        Ok(pairs)
    }
}

/// Returns the children that are wanted or exist, in the order of the table.
fn ids(wanted: &Desired, live: &Live) -> Vec<ChildId> {
    let mut ids: Vec<ChildId> = wanted.iter().map(|one| one.id.clone()).collect();
    let others = live.iter().map(|(id, _)| id).filter(|id| !wanted.contains(id));
    ids.extend(others.cloned());
    ids.sort_by_key(|id| CHILDREN.iter().position(|kind| *kind == id.kind));
    ids
}

/// Returns an existing object with the content of a file. Fields that neither this nor an earlier file names are kept: the
/// number of replicas from a scale, and a pause.
fn over(object: &DynamicObject, before: &DynamicObject) -> DynamicObject {
    let owns = |entry: &ManagedFieldsEntry, field: &str| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields["f:spec"][format!("f:{field}")].is_object())
    };
    let record = || before.metadata.managed_fields.iter().flatten();
    let is_scaled = record().any(|entry| entry.subresource.as_deref() == Some("scale") && owns(entry, "replicas"));
    let is_of_a_file = |entry: &ManagedFieldsEntry| {
        entry.operation.as_deref() == Some("Apply") || entry.manager.as_deref() == Some("kubectl-client-side-apply")
    };
    let is_ordered = !record().any(|entry| is_of_a_file(entry) && owns(entry, "paused"));
    let mut changed = DynamicObject {
        metadata: before.metadata.clone(),
        ..object.clone()
    };
    for (field, stays) in [("replicas", is_scaled), ("paused", is_ordered)] {
        let value = &before.data["spec"][field];
        if stays && !value.is_null() && changed.data["spec"][field].is_null() {
            changed.data["spec"][field] = value.clone();
        }
    }
    changed
}

fn app(object: &DynamicObject) -> AppDeploy {
    match Workload::read(Kind::AppDeploy, object) {
        Workload::App(app) => app,
        Workload::PodSet(_) => AppDeploy::default(),
    }
}

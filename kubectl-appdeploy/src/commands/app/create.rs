//! `kubectl appdeploy create`: an app or a pod set from flags, or from answers.

mod app;
mod ask;
mod env_file;
mod pod;
mod podset;

use std::collections::BTreeMap;

use crd::Kind;
use kube::api::ListParams;
use kube::core::ObjectMeta;
use model::admit;
use serde_json::Value;

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::kind_info;
use crate::commands::change::creation::{self, Flags};
use crate::error::{Error, Result};
use crate::output::formats::{self, DryRun};
use crate::resource::fields::put;
use crate::terminal::ui::Ui;

pub use app::AppArgs;
pub use podset::PodSetArgs;

/// The flags that describe an object of one kind.
pub trait Spec: clap::Args + Clone + Default + PartialEq {
    /// The kind.
    const KIND: Kind;
    /// Whether there is none without an image.
    const NEEDS_IMAGE: bool;
    /// The end of the help.
    const EXAMPLES: &'static str;

    /// Returns the flags about its pods.
    fn pod(&mut self) -> &mut pod::PodArgs;

    /// Returns the object that the flags mean, if it is a valid one.
    fn object(&self, metadata: ObjectMeta) -> Result<Value>;

    /// Prompts for the fields of the object.
    fn ask(&mut self, name: &str, namespace: &str) -> Result<()>;
}

/// The flags of `create`.
#[derive(Debug, clap::Args)]
#[command(after_help = S::EXAMPLES)]
pub struct Args<S: Spec> {
    /// Name of the {one}
    name: Option<String>,
    /// Labels of the {one}, like team=shop,tier=web
    #[arg(short, long, value_name = "LABELS", value_delimiter = ',', value_parser = pod::pair)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    flags: Flags,
    #[command(flatten)]
    spec: S,
}

/// Runs the command.
pub async fn run<S: Spec>(mut args: Args<S>, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let asked = args.is_open() && Ui::can_ask();
    // A dry run on this side needs no cluster, unless it is the only one to know the namespace.
    let cluster = match kube.connect().await {
        Ok(cluster) => Some(cluster.about(S::KIND)),
        Err(_) if args.flags.change.dry_run == DryRun::Client => None,
        Err(error) => return Err(error),
    };
    if asked {
        if let Some(cluster) = &cluster
            && args.flags.change.dry_run != DryRun::Client
        {
            // A failure is reported before the prompts.
            check(cluster).await?;
        }
        let namespace = cluster.as_ref().map_or("default", |cluster| cluster.namespace.as_str());
        let name = ask::name::<S>(args.name.as_deref(), namespace)?;
        args.spec.ask(&name, namespace)?;
        args.name = Some(name);
    }
    let namespace = cluster.as_ref().map(|cluster| cluster.namespace.clone());
    let name = args.complete()?;
    let mut object = args.object(&name, namespace.or_else(|| kube.namespace.clone()))?;
    if args.flags.change.dry_run == DryRun::Client && kube.namespace.is_none() {
        // As with kubectl: the namespace of the context is for this command only, a file is for any.
        put(&mut object["metadata"], "namespace", None);
    }
    for warning in tiny_amounts(S::KIND, &object) {
        ui.add_warning(warning);
    }
    if asked && !ask::confirm(&object, args.flags.change.dry_run)? {
        ui.eprintln("Nothing was created.");
        return Ok(());
    }
    let (Some(cluster), true) = (&cluster, args.flags.change.dry_run != DryRun::Client) else {
        let title = kind_info::title(S::KIND, &name);
        return args.flags.change.print_result(ui, &title, "created", &object);
    };
    create(&args, cluster, &name, &object, ui).await
}

impl<S: Spec> Args<S> {
    /// Whether the flags are so few that the user is prompted.
    fn is_open(&self) -> bool {
        self.labels.is_empty() && self.spec == S::default() && (S::NEEDS_IMAGE || self.name.is_none())
    }

    /// Returns the name, if all required values are given.
    fn complete(&mut self) -> Result<String> {
        let has_image = !S::NEEDS_IMAGE || self.spec.pod().image.is_some();
        let what = match (&self.name, has_image) {
            (Some(name), true) => return Ok(name.clone()),
            (None, false) => "a name and an image",
            (None, true) => "a name",
            (Some(_), false) => "an image: --image=NAME",
        };
        let example = kind_info::of(S::KIND).example("create {name} --image=nginx --port=80");
        Err(Error::usage(format!("create needs {what}")).next(example))
    }

    /// Returns the object that the flags mean, if it is a valid one.
    pub fn object(&self, name: &str, namespace: Option<String>) -> Result<Value> {
        let labels: BTreeMap<String, String> = self.labels.iter().cloned().collect();
        self.spec.object(ObjectMeta {
            name: Some(name.to_owned()),
            namespace,
            labels: (!labels.is_empty()).then_some(labels),
            ..ObjectMeta::default()
        })
    }
}

/// Returns the warnings that the webhook, if it exists, sends as well.
fn tiny_amounts(kind: Kind, object: &Value) -> Vec<String> {
    let at = admit::pod_path(kind);
    let pod = object.pointer(&format!("/{}", at.replace('.', "/"))).cloned();
    let pod = pod.and_then(|pod| serde_json::from_value(pod).ok());
    pod.map(|pod| admit::tiny_amounts(&pod, at)).unwrap_or_default()
}

/// Checks that the API is installed before any prompt.
async fn check(cluster: &Cluster) -> Result<()> {
    let api = cluster.objects(Some(&cluster.namespace));
    match cluster.attempt(api.list(&ListParams::default().limit(1))).await? {
        // Without the right to list, the create itself reports it.
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(()),
        Err(source) => Err(cluster.explain(source)),
        Ok(_) => Ok(()),
    }
}

async fn create<S: Spec>(args: &Args<S>, cluster: &Cluster, name: &str, object: &Value, ui: &mut Ui) -> Result<()> {
    let body = formats::json(object)?;
    let created = cluster
        .call(creation::post(cluster, body, args.flags.change.dry_run))
        .await;
    let created = created.inspect_err(|error| {
        if error.already_exists() {
            ui.drop_warnings();
        }
    })?;
    args.flags
        .change
        .print_result(ui, &cluster.title(name), "created", &formats::presentable(&created))?;
    creation::follow(cluster, name, args.flags, ui).await
}

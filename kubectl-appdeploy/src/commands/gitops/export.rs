//! `kubectl appdeploy export`: prints the children of an app or a pod set as the operator writes them.

use clap::ValueEnum;
use crd::Kind;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use model::children::Api;
use model::export::{of_app, of_podset, standalone};
use model::{CHILDREN, ChildKind, validate};
use serde_json::Value;

use crate::cluster::connection::KubeArgs;
use crate::cluster::kind_info;
use crate::error::{Error, Result};
use crate::output::{formats, yaml};
use crate::resource::files::Files;
use crate::resource::live_children;
use crate::resource::selection::{self, Selection};
use crate::resource::strip_defaults;
use crate::resource::workload::Workload;
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Print the children of {an}, for kubectl apply
  {command} export {name} > {name}-objects.yaml

  # Print the children of {an} in a file; needs no cluster
  {command} export -f {name}.yaml

  # Print the {kind} itself, for a repository
  {command} export {name} --manifest > {name}.yaml

  # Print exactly what the operator applies
  {command} export {name} --with-owner -o json

Without --with-owner, the objects have no owner reference and none of the
operator's labels and annotations. Applied to a cluster without the {one},
they work without AppDeploy.";

/// The output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One document for each.
    #[default]
    Yaml,
    /// One list.
    Json,
}

/// The flags of `export`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
    #[command(flatten)]
    files: Files,
    /// Print the {kind} itself instead of its children
    #[arg(long, conflicts_with = "with_owner")]
    manifest: bool,
    /// Also print the owner reference, labels and annotations that the operator adds
    #[arg(long)]
    with_owner: bool,
    /// Print as yaml (one document for each object) or json (one list)
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "yaml",
        hide_possible_values = true
    )]
    output: Format,
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let mut failures = Vec::new();
    let mut objects = Vec::new();
    for found in find(&args, kind, kube, ui).await? {
        match found.and_then(|found| args.of(kind, &found)) {
            Ok(exported) => objects.extend(exported),
            Err(error) => failures.push(error),
        }
    }
    if !objects.is_empty() {
        let text = match args.output {
            Format::Yaml => yaml::write_all(&objects)?,
            Format::Json if objects.len() == 1 => formats::json(&objects[0])?,
            Format::Json => formats::json(&formats::list(objects))?,
        };
        ui.print(&text)?;
    }
    selection::conclude(failures, ui)
}

/// An app or a pod set, as it was read, and the optional kinds of children that its cluster serves.
struct Export {
    object: DynamicObject,
    workload: Workload,
    served: Vec<&'static ChildKind>,
}

impl Export {
    fn new(kind: Kind, object: DynamicObject) -> Self {
        Self {
            workload: Workload::read(kind, &object),
            object,
            served: Vec::new(),
        }
    }

    /// Whether it has children of a kind that only some clusters serve.
    fn has_options(&self) -> bool {
        let Workload::App(app) = &self.workload else {
            return false;
        };
        let valid = validate(app).ok();
        let mut optional = CHILDREN.iter().filter(|kind| kind.api == Api::Optional);
        optional.any(|kind| kind.may_be_of(valid.as_ref()))
    }
}

async fn find(args: &Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<Vec<Result<Export>>> {
    let read = |object: DynamicObject| Export::new(kind, object);
    if args.files.is_empty() {
        args.which.require(kind, "export {name}")?;
        let cluster = kube.connect().await?.about(kind);
        let found = args.which.resolve(&cluster, "export {name}").await?;
        if found.is_empty() {
            selection::nothing(&cluster, ui);
        }
        let mut found: Vec<_> = found.into_iter().map(|object| object.map(read)).collect();
        if !args.manifest && found.iter().flatten().any(Export::has_options) {
            let served = live_children::served(&cluster).await?;
            for one in found.iter_mut().flatten() {
                one.served.clone_from(&served);
            }
        }
        return Ok(found);
    }
    if !args.which.is_empty() {
        return Err(Error::usage("-f and names, -l or --all exclude each other"));
    }
    // No cluster is needed. The kubeconfig, if it exists, has the namespace.
    let usual = kube.connect().await.map(|cluster| cluster.namespace);
    let usual = usual.as_deref().unwrap_or("default");
    let objects = args.files.read(kind, kube.namespace.as_deref(), usual)?;
    Ok(objects.into_iter().map(|object| Ok(read(object))).collect())
}

impl Args {
    /// Returns the exported objects of an app or a pod set.
    fn of(&self, kind: Kind, found: &Export) -> Result<Vec<Value>> {
        let Export {
            object,
            workload,
            served,
        } = found;
        if self.manifest {
            return Ok(vec![strip_defaults::written(kind, object)?]);
        }
        let children = match workload {
            Workload::App(app) => of_app(app, served),
            Workload::PodSet(set) => of_podset(set),
        };
        let children = children.map_err(|invalid| {
            let title = kind_info::title(kind, &object.name_any());
            let error = Error::failed(format!("{title} is not valid, so it has no children"));
            invalid.0.into_iter().fold(error, Error::why)
        })?;
        if self.with_owner {
            return Ok(children);
        }
        Ok(children.iter().map(standalone).collect())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use model::{Action, Observed, desired, plan};
    use proptest::prelude::*;

    use super::*;
    use crate::commands::app::create::{self, AppArgs};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: create::Args<AppArgs>,
    }

    /// Returns what `create --dry-run=client` prints.
    fn created(line: &[String]) -> Value {
        let words = std::iter::once("create".to_owned()).chain(line.iter().cloned());
        let args = Line::parse_from(words).args;
        args.object("shop", Some("a".to_owned())).unwrap()
    }

    /// Returns what the operator sends for an app that it was given by the API server, defaults spelled out.
    fn sent(object: &Value) -> Vec<Value> {
        let app: crd::AppDeploy = serde_json::from_value(object.clone()).unwrap();
        let stored = serde_json::from_value(serde_json::to_value(app).unwrap()).unwrap();
        let valid = validate(&stored).unwrap();
        let actions = plan(&valid, &desired(&valid), &Observed::default()).actions;
        let created = actions.into_iter().map(|action| match action {
            Action::Create { object, .. } => object,
            other => panic!("{other:?}"),
        });
        created.collect()
    }

    fn lines() -> impl Strategy<Value = Vec<String>> {
        let flag = |name: &'static str, value: &'static str| {
            prop::option::of(value.prop_map(move |value| format!("--{name}={value}")))
        };
        let flags = vec![
            flag("replicas", "[0-9]").boxed(),
            flag("env", "[A-Z]{1,4}=[a-z0-9:, ]{0,6}").boxed(),
            flag("requests", "cpu=[1-9]00m,memory=[1-9]Mi").boxed(),
            flag("limits", "cpu=1[.][1-9]").boxed(),
            flag("image-pull-policy", "Always|Never|IfNotPresent").boxed(),
            flag("pull-secret", "[a-z]{1,5}").boxed(),
            flag("service-account", "[a-z]{1,5}").boxed(),
            flag(
                "volume",
                "(configmap/[a-z]{1,5}|secret/[a-z]{1,5}|emptydir|image/[a-z]{1,5}):/[a-z]{1,5}",
            )
            .boxed(),
            flag("node-selector", "[a-z]{1,5}=[a-z]{1,5}").boxed(),
            flag("toleration", "[a-z]{1,5}(=[a-z]{1,5})?(:NoSchedule|:NoExecute)?").boxed(),
            flag("rollout", "RollingUpdate|Recreate").boxed(),
            flag("security-profile", "baseline|restricted").boxed(),
        ];
        let routed = vec![
            flag("metrics-port", "[1-9][0-9]{1,3}").boxed(),
            flag("host", "[a-z]{1,5}[.]example[.]com").boxed(),
            flag("path", "/[a-z]{0,5}").boxed(),
            flag("ingress-class", "[a-z]{1,5}").boxed(),
            flag("tls-secret", "[a-z]{1,5}").boxed(),
            flag("health-path", "/[a-z]{1,5}").boxed(),
        ];
        let image = "nginx(:1[.][0-9])?|ghcr[.]io/acme/shop:[a-z]{1,3}";
        (image, prop::option::of((1..=65535, routed)), flags).prop_map(|(image, port, flags)| {
            let mut line = vec![format!("--image={image}")];
            if let Some((port, routed)) = port {
                line.push(format!("--port={port}"));
                line.extend(routed.into_iter().flatten());
            }
            line.extend(flags.into_iter().flatten());
            line
        })
    }

    proptest! {
        /// Created objects, exported objects, a file and the operator's requests have the same bytes.
        #[test]
        fn all_commands_render_the_same_bytes(line in lines()) {
            let object = created(&line);
            let sent: Vec<String> = sent(&object).iter().map(Value::to_string).collect();
            let found: DynamicObject = serde_json::from_value(object.clone()).unwrap();
            let found = Export::new(Kind::AppDeploy, found);
            let args = Args { which: Selection::default(), files: Files::default(), manifest: false, with_owner: true,
                output: Format::Yaml };
            let exported = args.of(Kind::AppDeploy, &found).unwrap();
            prop_assert_eq!(exported.iter().map(Value::to_string).collect::<Vec<_>>(), sent);
            // The manifest is the object that was created.
            let manifest = Args { manifest: true, ..args }.of(Kind::AppDeploy, &found).unwrap();
            prop_assert_eq!(&manifest[0], &object);
            let written = yaml::write(&manifest[0]).unwrap();
            prop_assert_eq!(&yaml::read(&written).unwrap()[0], &object);
        }
    }

    #[test]
    fn exported_objects_have_no_owner() {
        let line = [
            "--image=nginx:1.27",
            "--port=80",
            "--host=shop.example.com",
            "--env=MODE=on",
        ];
        let object = created(&line.map(str::to_owned));
        let app = Workload::read(
            Kind::AppDeploy,
            &serde_json::from_value::<DynamicObject>(object).unwrap(),
        );
        let Workload::App(app) = app else {
            panic!("it is an app")
        };
        let objects: Vec<Value> = of_app(&app, &[]).unwrap().iter().map(standalone).collect();
        insta::assert_snapshot!(yaml::write_all(&objects).unwrap());
    }
}

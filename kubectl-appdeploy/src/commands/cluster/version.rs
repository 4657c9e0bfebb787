//! `kubectl appdeploy version`.

use clap::ValueEnum;
use futures::join;
use model::command;
use serde_json::{Value, json};

use crate::cluster::connection::KubeArgs;
use crate::error::Result;
use crate::installation::manifests::schema;
use crate::installation::operator::{self, Operator};
use crate::installation::version::{PLUGIN, is_newer, skew};
use crate::output::formats::{self, some};
use crate::output::yaml;
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Print the versions of the plugin and the operator
  kubectl appdeploy version

  # Print only the version of the plugin; needs no cluster
  kubectl appdeploy version --client";

/// The flags of `version`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print only the version of the plugin; needs no cluster
    #[arg(long)]
    client: bool,
    /// Print as json or yaml
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Document>,
}

/// How the versions are printed for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Document {
    Json,
    Yaml,
}

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    if args.client {
        return print(&args, None, ui);
    }
    // Without a cluster, the plugin's version is still printed, as kubectl does.
    let cluster = match kube.connect().await {
        Ok(cluster) => cluster,
        Err(error) => {
            print(&args, None, ui)?;
            return Err(error);
        }
    };
    let (operator, definitions) = join!(operator::find(&cluster), schema::skews(&cluster));
    print(&args, Some(&operator), ui)?;
    // A user without the right to read CRDs still gets the rest.
    for (name, skew) in definitions.unwrap_or_default() {
        if let Some((warning, fields, next)) = skew.warning(&name) {
            ui.warn(&format!("{warning} ({})", some(fields)));
            ui.next(next);
        }
    }
    match &operator {
        Operator::Absent => ui.next("kubectl appdeploy install"),
        Operator::Unknown(error) if !error.is_forbidden() => return Err(error.clone()),
        Operator::Unknown(_) => {}
        Operator::Installed(deployment, _) => {
            if let Some(warning) = skew(operator::image(deployment).map_or("", operator::tag)) {
                ui.warn(&warning);
                let tag = operator::image(deployment).map_or("", operator::tag);
                if is_newer(tag) {
                    ui.next(command!("use the plugin of {}", tag));
                } else {
                    ui.next("kubectl appdeploy install");
                }
            }
        }
    }
    Ok(())
}

fn print(args: &Args, operator: Option<&Operator>, ui: &mut Ui) -> Result<()> {
    match args.output {
        None => ui.print(&text(operator)),
        Some(Document::Json) => ui.print(&formats::json(&value(operator))?),
        Some(Document::Yaml) => ui.print(&yaml::write(&value(operator))?),
    }
}

fn text(operator: Option<&Operator>) -> String {
    let plugin = format!("Plugin Version: {PLUGIN}");
    match operator {
        None => plugin,
        Some(Operator::Absent) => format!("{plugin}\nOperator Version: not installed"),
        Some(Operator::Unknown(error)) if error.is_forbidden() => {
            format!("{plugin}\nOperator Version: n/a (forbidden)")
        }
        Some(Operator::Unknown(_)) => format!("{plugin}\nOperator Version: <unknown>"),
        Some(Operator::Installed(deployment, _)) => {
            let image = operator::image(deployment).unwrap_or("<unknown>");
            format!(
                "{plugin}\nOperator Version: {}\nOperator Image: {image}",
                operator::tag(image)
            )
        }
    }
}

fn value(operator: Option<&Operator>) -> Value {
    let mut value = json!({"pluginVersion": PLUGIN});
    if let Some(operator) = operator {
        value["operator"] = match operator {
            Operator::Installed(deployment, _) => {
                let image = operator::image(deployment).unwrap_or_default();
                json!({"version": operator::tag(image), "image": image})
            }
            Operator::Absent | Operator::Unknown(_) => Value::Null,
        };
    }
    value
}

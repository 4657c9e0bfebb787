//! `kubectl appdeploy version`.

use clap::ValueEnum;
use futures::join;
use model::command;
use serde_json::{Value, json};

use crate::connection::KubeArgs;
use crate::error::Result;
use crate::manifests::schema;
use crate::operator::{self, Operator};
use crate::output::{self, some};
use crate::ui::Ui;
use crate::yaml;

/// The version of this plugin, as an image tag and a release have it.
pub const PLUGIN: &str = concat!("v", env!("CARGO_PKG_VERSION"));

const EXAMPLES: &str = "\
Examples:
  # What runs here and in the cluster
  kubectl appdeploy version

  # The plugin alone; asks no cluster
  kubectl appdeploy version --client";

/// The flags of `version`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The version of the plugin alone, without asking a cluster
    #[arg(long)]
    client: bool,
    /// Print it as json or yaml
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Document>,
}

/// How the versions are printed for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Document {
    Json,
    Yaml,
}

/// Runs the verb.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    if args.client {
        return tell(&args, None, ui);
    }
    // Without a cluster the half that is known is still told, as kubectl does.
    let cluster = match kube.connect().await {
        Ok(cluster) => cluster,
        Err(error) => {
            tell(&args, None, ui)?;
            return Err(error);
        }
    };
    let (operator, definitions) = join!(operator::look(&cluster), schema::skews(&cluster));
    tell(&args, Some(&operator), ui)?;
    // Whoever may not see the definitions may see the rest.
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
                    ui.next(command!("take a plugin of {}", tag));
                } else {
                    ui.next("kubectl appdeploy install");
                }
            }
        }
    }
    Ok(())
}

fn tell(args: &Args, operator: Option<&Operator>, ui: &mut Ui) -> Result<()> {
    match args.output {
        None => ui.print(&text(operator)),
        Some(Document::Json) => ui.print(&output::json(&value(operator))?),
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

/// Returns what to say when plugin and operator are not of the same release.
pub fn skew(operator: &str) -> Option<String> {
    // A digest or a word such as `latest` or `dev` can't be compared.
    let is_release = operator
        .strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    (is_release && operator != PLUGIN)
        .then(|| format!("the operator is {operator}, this plugin is {PLUGIN}: they are made to be of one version"))
}

/// Whether a tag names a release that came after this one.
pub fn is_newer(tag: &str) -> bool {
    let numbers = |tag: &str| -> Option<Vec<u64>> {
        // What is behind a dash is on its way to the release.
        let release = tag.strip_prefix('v')?.split(['-', '+']).next()?;
        release.split('.').map(|number| number.parse().ok()).collect()
    };
    numbers(tag).is_some_and(|other| Some(other) > numbers(PLUGIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert!(is_newer("v0.10.0") && is_newer("v9.9.9-rc1") && is_newer("v1.0"));
        for other in [PLUGIN, "v0.0.9", "latest", "v", "", "sha256:abc"] {
            assert!(!is_newer(other), "{other}");
        }
    }

    #[test]
    fn only_a_release_can_be_of_another_version() {
        assert_eq!(skew(PLUGIN), None);
        assert_eq!(skew("latest"), None);
        assert_eq!(skew("sha256:abc"), None);
        assert!(skew("v9.9.9").unwrap().contains("v9.9.9"));
    }
}

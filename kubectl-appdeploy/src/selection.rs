//! Which apps a verb means: names, a label selector, or all of a namespace.

use clap::Args;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};

use crate::app;
use crate::connection::Cluster;
use crate::error::{Error, Result};

/// Names, `-l` or `--all`.
#[derive(Clone, Debug, Default, Args)]
pub struct Selection {
    /// Names of apps
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// The apps with these labels, like team=shop,tier!=test
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with_all = ["names", "all"])]
    pub selector: Option<String>,
    /// All apps of the namespace
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
}

impl Selection {
    /// Whether nothing was selected at all.
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty() && self.selector.is_none() && !self.all
    }

    /// Returns the apps that are meant, each with its own error: one that is missing does not stop the others.
    pub async fn resolve(&self, cluster: &Cluster, example: &str) -> Result<Vec<Result<DynamicObject>>> {
        if self.is_empty() {
            return Err(Error::usage("no app is named")
                .why("name one or more apps, select them with -l, or take --all")
                .next(example));
        }
        let api = app::api(&cluster.client, Some(&cluster.namespace));
        if self.names.is_empty() {
            let params = ListParams {
                label_selector: self.selector.clone(),
                ..ListParams::default()
            };
            let list = cluster.call(api.list(&params)).await?;
            return Ok(list.items.into_iter().map(Ok).collect());
        }
        let mut found = Vec::new();
        for name in &self.names {
            let name = name.as_str();
            // `appdeploy/shop` is what `-o name` prints and what kubectl takes.
            let name = name.rsplit('/').next().unwrap_or(name);
            found.push(cluster.call(api.get(name)).await);
        }
        // The same answer for each name would be the same text many times.
        match found.first() {
            Some(Err(error)) if found.iter().all(|one| one.as_ref().err() == Some(error)) => Err(error.clone()),
            _ => Ok(found),
        }
    }
}

/// Returns the name of an app with its namespace where that is not the one in use.
pub fn place(object: &DynamicObject) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Tells every failure but the last, which ends the command.
pub fn conclude(mut failures: Vec<Error>, ui: &mut crate::ui::Ui) -> Result<()> {
    let last = failures.pop();
    for failure in &failures {
        ui.error(failure);
    }
    last.map_or(Ok(()), Err)
}

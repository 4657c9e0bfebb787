//! Selects objects by name, by label, or all of a namespace.

use std::collections::BTreeSet;

use clap::Args;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use model::NextCommand;

use crate::cluster::connection::Cluster;
use crate::cluster::kind_info::{self, KindInfo};
use crate::cluster::pager::Pager;
use crate::error::{Error, Kind as Ending, Result};
use crate::terminal::ui::Ui;

/// Names, `-l` or `--all`.
#[derive(Clone, Debug, Default, Args)]
pub struct Selection {
    /// Names of {many}
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Select {many} by labels, like team=shop,tier!=test
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = selector, conflicts_with_all = ["names", "all"])]
    pub selector: Option<String>,
    /// Select all {many} of the namespace
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
}

/// The flags of commands that list objects: names, or all of a namespace or of the cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct Listing {
    /// Names of {many}; without one, all {many} of the namespace
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Show {many} of all namespaces
    #[arg(short = 'A', long, conflicts_with = "names")]
    pub all_namespaces: bool,
    /// Select {many} by labels, like team=shop,tier!=test
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = selector, conflicts_with = "names")]
    pub selector: Option<String>,
}

impl Listing {
    /// Returns the namespace to list, or `None` for all.
    pub fn scope<'a>(&self, cluster: &'a Cluster) -> Option<&'a str> {
        (!self.all_namespaces).then_some(cluster.namespace.as_str())
    }
}

impl Selection {
    /// Returns the selection of these names. A name that is given twice counts once.
    pub fn of_names(kind: impl Into<&'static KindInfo>, names: &[String]) -> Result<Self> {
        let kind = kind.into();
        let mut known = BTreeSet::new();
        let names = names.iter().map(|text| name(kind, text));
        let names = names.collect::<Result<Vec<_>>>()?.into_iter();
        Ok(Self {
            names: names.filter(|name| known.insert(*name)).map(str::to_owned).collect(),
            ..Self::default()
        })
    }

    /// Whether nothing was selected at all.
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty() && self.selector.is_none() && !self.all
    }

    /// Fails if nothing is selected. Commands check this before they connect, because it does not depend on the cluster.
    pub fn require(&self, kind: impl Into<&'static KindInfo>, example: &'static str) -> Result<()> {
        if !self.is_empty() {
            return Ok(());
        }
        let words = kind.into();
        Err(Error::usage(format!("no {} selected", words.one))
            .why(words.fill("give one or more names, -l or --all"))
            .next(words.example(example)))
    }

    /// Returns the selected objects, each with its own error: a missing one does not stop the others.
    /// The example is of the kind's command, like `scale {name} --replicas=3`.
    pub async fn resolve(&self, cluster: &Cluster, example: &'static str) -> Result<Vec<Result<DynamicObject>>> {
        let kind = cluster.kind_info();
        self.require(kind, example)?;
        let complete = |object| kind_info::complete(kind, object);
        if self.names.is_empty() {
            let pages = Pager::of(cluster, Some(&cluster.namespace), self.selector.as_deref());
            return Ok(pages.all().await?.into_iter().map(complete).map(Ok).collect());
        }
        let names = self.names.iter().map(|text| name(kind, text));
        let names = names.collect::<Result<Vec<_>>>()?;
        let mut known = BTreeSet::new();
        let names = names.into_iter().filter(|name| known.insert(*name));
        let api = cluster.objects(Some(&cluster.namespace));
        let mut found = Vec::new();
        for name in names {
            found.push(cluster.call(api.get(name)).await.map(complete));
        }
        // The same answer for each name would be the same text many times.
        match found.first() {
            Some(Err(error)) if found.iter().all(|one| one.as_ref().err() == Some(error)) => Err(error.clone()),
            _ => Ok(found),
        }
    }
}

/// Checks a label selector as far as the API server would answer with a regular expression.
pub fn selector(text: &str) -> std::result::Result<String, String> {
    let is_value = |value: &str| value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    // The parts of a set, such as `tier in (web,api)`, are left to the API server.
    for part in text.split(',').filter(|part| !part.contains(['(', ')'])) {
        let pair = part.split_once("==").or_else(|| part.split_once('='));
        if let Some((_, value)) = pair.filter(|(_, value)| !is_value(value.trim())) {
            return Err(format!(
                "{value:?} is not a label value: write KEY=VALUE, the value in letters, digits, '-', '_' and '.'"
            ));
        }
    }
    Ok(text.to_owned())
}

/// Parses a name with or without its kind, as `-o name` prints it and kubectl accepts it. A name with another kind is rejected.
pub fn name(kind: impl Into<&'static KindInfo>, text: &str) -> Result<&str> {
    let words = kind.into();
    // Other invalid names do not exist in the cluster; these would change the path of the request.
    let is_of_a_path = |text: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        text.chars().all(is_plain) && !matches!(text, "" | "." | "..")
    };
    let name = text.rsplit('/').next().unwrap_or(text);
    if !is_of_a_path(name) {
        return Err(Error::usage(format!("invalid name {name:?}: nothing was done"))
            .why("a name has lower-case letters, digits and '-'"));
    }
    let Some((prefix, name)) = text.split_once('/') else {
        return Ok(text);
    };
    let prefix = prefix.split('.').next().unwrap_or(prefix).to_lowercase();
    let is_of = |kind: &&KindInfo| [kind.names.singular, kind.names.plural, kind.short].contains(&prefix.as_str());
    if is_of(&words) {
        return Ok(name);
    }
    let error = Error::usage(format!("{text} is not {}: nothing was done", words.an));
    Err(match kind_info::ALL.into_iter().find(is_of) {
        Some(other) => error
            .why(format!("it is {}", other.an))
            .next(NextCommand::from(other.command).and("--help")),
        None => error.why(format!(
            "give a name, or a name after its kind, like {}/{}",
            words.names.singular, words.name
        )),
    })
}

/// Prints that a selection of all found nothing.
pub fn nothing(cluster: &Cluster, ui: &mut Ui) {
    let many = cluster.kind_info().many;
    ui.eprintln(&format!("No {many} found in {} namespace.", cluster.namespace));
}

/// Returns the namespace and the name of an object.
pub fn place(object: &DynamicObject) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Prints all failures except the worst, which is returned and determines the exit code: an immediate failure is worse than
/// what will not become ready, and that is worse than what takes too long.
pub fn conclude(mut failures: Vec<Error>, ui: &mut Ui) -> Result<()> {
    failures.sort_by_key(|failure| match failure.kind() {
        Ending::TimedOut => 0,
        Ending::Stalled => 1,
        _ => 2,
    });
    let Some(last) = failures.pop() else { return Ok(()) };
    // The same right is often missing for all objects.
    let count = failures.len();
    failures.retain(|failure| !failure.is_forbidden() || failure.nexts() != last.nexts());
    for failure in &failures {
        ui.error(failure);
    }
    Err(match count - failures.len() {
        0 => last,
        same => last.why(format!("the same right is missing for {same} more")),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn invalid_value_of_a_selector_is_rejected_without_a_regular_expression() {
        for text in [
            "a",
            "!a",
            "a=b",
            "a==b,c!=d",
            "tier in (web, api,db),a=",
            "example.com/a=1.2_3-4",
        ] {
            assert_eq!(selector(text).as_deref(), Ok(text));
        }
        let rejected = selector("a=b=c").unwrap_err();
        assert!(rejected.starts_with("\"b=c\" is not a label value: "), "{rejected}");
    }

    use super::*;
    use crate::terminal::ui::RenderOptions;
    use crd::Kind;

    #[test]
    fn names_that_would_change_the_path_of_a_request_are_rejected() {
        for text in [
            "a b",
            "a?b",
            "a%2fb",
            "..",
            "",
            "ad/",
            "ad/..",
            "a\u{1b}[2J",
            "a#b",
            "ä",
        ] {
            let error = name(Kind::AppDeploy, text).unwrap_err();
            assert!(error.sentence().starts_with("invalid name"), "{text:?}: {error}");
        }
    }

    #[test]
    fn name_is_accepted_after_its_own_kind_only() {
        for text in [
            "workers",
            "podset/workers",
            "podsets/workers",
            "pset/workers",
            "podset.appdeploy.dev/workers",
        ] {
            assert_eq!(name(Kind::PodSet, text), Ok("workers"), "{text}");
        }
        let said = name(Kind::AppDeploy, "podset/workers").unwrap_err();
        insta::assert_snapshot!(said.text(&RenderOptions::default()), @r"
        error: podset/workers is not an app: nothing was done
          why:  it is a pod set
          next: kubectl appdeploy podset --help
        ");
        let said = name(Kind::AppDeploy, "deployment/shop").unwrap_err();
        insta::assert_snapshot!(said.text(&RenderOptions::default()), @r"
        error: deployment/shop is not an app: nothing was done
          why:  give a name, or a name after its kind, like appdeploy/shop
        ");
    }
}

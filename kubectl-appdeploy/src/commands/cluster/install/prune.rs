//! Deletes objects of an earlier installation that the current one does not contain: rights in other namespaces or in the whole
//! cluster, webhooks, and objects of older versions.

use kube::ResourceExt as _;
use kube::api::{DynamicObject, PropagationPolicy};

use crate::cluster::connection::Cluster;
use crate::error::Result;
use crate::installation::manifests::{self, Kind};
use crate::installation::operator;
use crate::installation::version;
use crate::installation::version::PLUGIN;
use crate::terminal::ui::Ui;

/// Lists objects with the labels of an installation that are not part of the current one.
pub async fn objects(cluster: &Cluster, wanted: &[DynamicObject]) -> Result<Vec<(Kind, DynamicObject)>> {
    let mut found = Vec::new();
    let others = [Kind::deployment()].into_iter().chain(Kind::around());
    for kind in Kind::webhooks().into_iter().chain(others) {
        found.extend(manifests::labelled(cluster, kind).await?);
    }
    found.retain(|(kind, object)| manifests::is_in_inventory(object) || is_of_the_first_version(kind, object));
    // Its key would be of no use to anybody but a thief.
    let is_asked = wanted.iter().any(|object| Kind::webhooks().contains(&Kind::of(object)));
    if !is_asked {
        let secrets = manifests::labelled(cluster, Kind::secret()).await?;
        found.extend(
            secrets
                .into_iter()
                .filter(|(_, secret)| secret.name_any() == crd::CERTIFICATE_SECRET),
        );
    }
    found.retain(|(kind, object)| !wanted.iter().any(|other| is_same(kind, object, other)));
    Ok(found)
}

/// Whether a role or a binding is the operator's, from before there was an inventory. A right is never left behind.
fn is_of_the_first_version(kind: &Kind, object: &DynamicObject) -> bool {
    let rights = [
        Kind::cluster_role_binding(),
        Kind::role_binding(),
        Kind::cluster_role(),
        Kind::role(),
    ];
    let is_operators = object.labels().get(manifests::NAME_LABEL).map(String::as_str) == Some(operator::NAME);
    rights.contains(kind)
        && manifests::is_ours(object)
        && is_operators
        && [operator::NAME, "appdeploy-leader-election"].contains(&object.name_any().as_str())
}

fn is_same(kind: &Kind, found: &DynamicObject, wanted: &DynamicObject) -> bool {
    (kind, found.name_any(), found.namespace()) == (&Kind::of(wanted), wanted.name_any(), wanted.namespace())
}

/// Warns that an operator that managed some namespaces will manage all.
pub fn warn_of_more(before: &[Option<DynamicObject>], ui: &mut Ui) {
    let deployments = before
        .iter()
        .flatten()
        .filter(|object| Kind::of(object) == Kind::deployment());
    for deployment in deployments.filter_map(|object| object.clone().try_parse().ok()) {
        let watched = operator::watched(&deployment).join(",");
        if !watched.is_empty() {
            ui.warn(&format!(
                "the operator managed only {watched}, and now manages all namespaces; \
                 --watch-namespace={watched} keeps the limit"
            ));
        }
    }
}

/// Warns that the running operator is newer than the one to install.
pub fn warn_of_age(before: &[Option<DynamicObject>], wanted: &[DynamicObject], ui: &mut Ui) {
    let tag = |object: &DynamicObject| -> Option<String> {
        let deployment = object.clone().try_parse().ok()?;
        operator::image(&deployment).map(|image| operator::tag(image).to_owned())
    };
    let pairs = wanted
        .iter()
        .zip(before)
        .filter(|(wanted, _)| Kind::of(wanted) == Kind::deployment());
    for (wanted, before) in pairs {
        let Some((now, then)) = tag(wanted).zip(before.as_ref().and_then(tag)) else {
            continue;
        };
        if now == PLUGIN && version::is_newer(&then) {
            ui.warn(&format!(
                "the operator is {then}, which is newer: {now} takes its place, and knows less; \
                 a plugin of {then} keeps it"
            ));
        }
    }
}

/// Removes them, and prints each immediately.
pub async fn remove(
    cluster: &Cluster,
    former: &[(Kind, DynamicObject)],
    args: &super::Args,
    ui: &mut Ui,
) -> Result<()> {
    for (kind, object) in former {
        let api = kind.api_of(&cluster.client, object);
        manifests::delete(
            cluster,
            &api,
            object,
            PropagationPolicy::Background,
            args.change.dry_run,
        )
        .await?;
        let (title, place) = (kind.title(&object.name_any()), manifests::place("from", object));
        let line = format!("{title} deleted{place}{}", args.change.dry_run.suffix());
        match args.change.output {
            None => ui.print(&line)?,
            Some(_) => ui.eprintln(&line),
        }
    }
    Ok(())
}

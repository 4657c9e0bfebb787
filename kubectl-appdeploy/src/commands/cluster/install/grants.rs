//! The rights that an installation grants: Kubernetes lets a user only grant rights that the user has.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use model::command;

use crate::cluster::connection::Cluster;
use crate::error::{Error, Result};
use crate::installation::manifests::Kind;
use crate::installation::rights::{self, Right};
use crate::output::formats::some;

/// Refuses an installation that would fail halfway because the user lacks a right that a role grants.
pub async fn refuse_missing(
    cluster: &Cluster,
    wanted: &[DynamicObject],
    before: &[Option<DynamicObject>],
    namespaces: &[String],
) -> Result<()> {
    let mut unlimited = BTreeSet::new();
    let mut granted = BTreeSet::new();
    for (role, before) in wanted.iter().zip(before) {
        let kind = Kind::of(role);
        let rules = &role.data["rules"];
        let is_granted = before.as_ref().is_some_and(|before| &before.data["rules"] == rules);
        if ![Kind::role(), Kind::cluster_role()].contains(&kind) || is_granted || !rules.is_array() {
            continue;
        }
        let place = role.namespace().unwrap_or_default();
        unlimited.insert(Right::within(
            &place,
            "escalate",
            &kind.resource.group,
            &kind.resource.plural,
        ));
        granted.extend(rights::of_rules(&rights::rules(&role.data), &place));
    }
    // A user who may grant everything needs no further questions.
    if rights::refused(cluster, unlimited).await?.is_empty() {
        return Ok(());
    }
    let missing = rights::refused(cluster, granted).await?;
    let Some(first) = missing.first() else {
        return Ok(());
    };
    let mut verbs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for right in &missing {
        if let Some((verb, resource)) = right.to_string().split_once(' ') {
            verbs.entry(resource.to_owned()).or_default().push(verb.to_owned());
        }
    }
    let texts = verbs
        .iter()
        .map(|(resource, verbs)| format!("{} {resource}", verbs.join(",")));
    let texts: Vec<String> = texts.collect();
    let error = Error::failed("you can't grant rights that you don't have: nothing was changed")
        .why(format!("the roles of AppDeploy grant, and you lack: {}", some(&texts)))
        .next(first.can_i());
    let again = "a user who has these rights can run: kubectl appdeploy install";
    Err(match namespaces {
        [] => error.next(again),
        namespaces => error.next(command!(
            "a user who has these rights can run: kubectl appdeploy install --watch-namespace={}",
            namespaces.join(",")
        )),
    })
}

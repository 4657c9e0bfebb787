//! The operator's rights for OLM: in the managed namespaces, and cluster-wide.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::scope;
use crate::source::Manifest;

/// Returns the rights in each namespace of the OperatorGroup; cluster-wide, if it names none.
pub fn in_namespaces(manifests: &[Manifest]) -> Result<Value> {
    granted(manifests, |rule| scope::resources(rule).0)
}

/// Returns the rights that can't be granted in a namespace.
pub fn in_the_cluster(manifests: &[Manifest]) -> Result<Value> {
    granted(manifests, |rule| scope::resources(rule).1)
}

fn granted(manifests: &[Manifest], part: impl Fn(&Value) -> Vec<&str>) -> Result<Value> {
    let account = account(manifests)?;
    let mut rules = Vec::new();
    for role in bound(manifests, account) {
        for rule in role.object["rules"].as_array().into_iter().flatten() {
            let resources = part(rule);
            if !resources.is_empty() {
                let mut rule = rule.clone();
                rule["resources"] = json!(resources);
                rules.push(rule);
            }
        }
    }
    Ok(json!({"serviceAccountName": account, "rules": rules}))
}

fn account(manifests: &[Manifest]) -> Result<&str> {
    let mut accounts = manifests.iter().filter(|manifest| manifest.kind() == "ServiceAccount");
    Ok(accounts.next().context("there is no ServiceAccount")?.name())
}

/// Returns the roles that are bound to an account.
fn bound<'a>(manifests: &'a [Manifest], account: &str) -> impl Iterator<Item = &'a Manifest> {
    let to_account = |binding: &&Manifest| {
        let mut subjects = binding.object["subjects"].as_array().into_iter().flatten();
        subjects.any(|subject| subject["kind"] == "ServiceAccount" && subject["name"] == account)
    };
    let references: Vec<&Value> = manifests
        .iter()
        .filter(to_account)
        .map(|binding| &binding.object["roleRef"])
        .collect();
    // OLM creates the webhooks' certificates and the CA bundle.
    let roles = manifests.iter().filter(|role| !role.is_for_webhooks());
    roles.filter(move |role| {
        let is_meant = |reference: &&Value| reference["kind"] == role.kind() && reference["name"] == role.name();
        references.iter().any(is_meant)
    })
}

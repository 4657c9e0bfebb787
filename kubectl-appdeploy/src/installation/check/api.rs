//! Checks the CRDs.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use model::command;

use super::facts::Facts;
use super::finding::Finding;
use crate::installation::check::code::Code;
use crate::installation::manifests::Kind;
use crate::installation::manifests::schema::{self, Skew};
use crate::output::formats::some;

/// Returns the findings.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let kind = Kind::crd();
    let mut there = Vec::new();
    let mut missing = Vec::new();
    for part in facts.parts_of(&kind) {
        match &part.found {
            Err(error) => return vec![Finding::unseen(Code::Defined, "the definitions of the API", error)],
            Ok(None) => missing.push(part.wanted.name_any()),
            Ok(Some(found)) => there.push((found, &part.wanted)),
        }
    }
    if there.is_empty() {
        let finding = Finding::error(Code::Defined, "the AppDeploy API is not installed in this cluster");
        return vec![finding.next("kubectl appdeploy install")];
    }
    let defined = if missing.is_empty() {
        served(&there)
    } else {
        Finding::error(Code::Defined, format!("{} is not defined", missing.join(" and ")))
            .why("older versions do not have it, or it was deleted with all its objects")
            .next("kubectl appdeploy install")
    };
    vec![defined, same(&there), stored(&there)]
}

type Pair<'a> = (&'a DynamicObject, &'a DynamicObject);

fn served(there: &[Pair<'_>]) -> Finding {
    for (found, _) in there {
        let name = found.name_any();
        let conditions = found.data["status"]["conditions"].as_array();
        let is = |kind: &str, status: &str| {
            let mut all = conditions.into_iter().flatten();
            all.find(|c| c["type"] == kind && c["status"] == status).cloned()
        };
        let finding = if found.metadata.deletion_timestamp.is_some() {
            Finding::error(Code::Defined, format!("{name} is being deleted, with all its objects"))
        } else if let Some(refused) = is("NamesAccepted", "False") {
            Finding::error(Code::Defined, format!("the cluster does not accept {name}"))
                .why(refused["message"].as_str().unwrap_or_default())
        } else if is("Established", "True").is_none() {
            Finding::error(Code::Defined, format!("{name} is not served yet"))
        } else {
            continue;
        };
        return finding.next(command!("kubectl get crd {} -o yaml", name));
    }
    Finding::ok(Code::Defined, "the CRDs are installed and served")
}

fn same(there: &[Pair<'_>]) -> Finding {
    let mut is_other = false;
    for (found, wanted) in there {
        let skew = schema::skew(&found.data, &wanted.data);
        is_other |= skew == Skew::Other;
        if let Some((warning, fields, next)) = skew.warning(&found.name_any()) {
            return Finding::warning(Code::Schema, warning).why(some(fields)).next(next);
        }
    }
    if is_other {
        return Finding::info(
            Code::Schema,
            "the CRDs have the fields of this plugin, with other rules or descriptions",
        )
        .next("kubectl appdeploy install");
    }
    Finding::ok(Code::Schema, "the CRDs match this plugin")
}

fn stored(there: &[Pair<'_>]) -> Finding {
    for (found, wanted) in there {
        let unknown = schema::unknown_versions(found, &wanted.data);
        if !unknown.is_empty() {
            return Finding::error(
                Code::Stored,
                format!(
                    "objects of {} may be stored as {}, which this plugin does not have",
                    found.name_any(),
                    unknown.join(", ")
                ),
            )
            .next("kubectl appdeploy version  (use the plugin of the installed version)");
        }
    }
    Finding::ok(Code::Stored, "all objects are stored in a known version")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::check::facts::Part;
    use crate::installation::check::sample::{self, short};
    use serde_json::{Value, json};

    fn changed(change: impl Fn(&mut Part)) -> String {
        let mut facts = sample::well();
        let definitions = facts.parts.iter_mut().filter(|part| part.kind == Kind::crd());
        definitions.for_each(change);
        short(&findings(&facts))
    }

    fn found(part: &mut Part) -> &mut Value {
        &mut part.found.as_mut().unwrap().as_mut().unwrap().data
    }

    #[test]
    fn installed_crds_match() {
        insta::assert_snapshot!(changed(|_| {}), @r"
        ok AD0301: the CRDs are installed and served
        ok AD0302: the CRDs match this plugin
        ok AD0303: all objects are stored in a known version
        ");
        insta::assert_snapshot!(changed(|part| part.found = Ok(None)), @"error AD0301: the AppDeploy API is not installed in this cluster; next: kubectl appdeploy install");
        insta::assert_snapshot!(changed(|part| if part.wanted.name_any().starts_with("podsets") {
            part.found = Ok(None);
        }), @r"
        error AD0301: podsets.appdeploy.dev is not defined (older versions do not have it, or it was deleted with all its objects); next: kubectl appdeploy install
        ok AD0302: the CRDs match this plugin
        ok AD0303: all objects are stored in a known version
        ");
    }

    #[test]
    fn reason_for_an_unserved_crd_is_printed() {
        insta::assert_snapshot!(changed(|part| found(part)["status"]["conditions"] = json!([])), @r"
        error AD0301: appdeploys.appdeploy.dev is not served yet; next: kubectl get crd appdeploys.appdeploy.dev -o yaml
        ok AD0302: the CRDs match this plugin
        ok AD0303: all objects are stored in a known version
        ");
        insta::assert_snapshot!(changed(|part| {
            found(part)["status"]["conditions"] = json!([{"type": "NamesAccepted", "status": "False", "message": "\"ad\" is already in use"}]);
        }), @r#"
        error AD0301: the cluster does not accept appdeploys.appdeploy.dev ("ad" is already in use); next: kubectl get crd appdeploys.appdeploy.dev -o yaml
        ok AD0302: the CRDs match this plugin
        ok AD0303: all objects are stored in a known version
        "#);
    }

    #[test]
    fn other_version_is_reported_with_its_fields() {
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        insta::assert_snapshot!(changed(|part| {
            found(part).pointer_mut(spec).unwrap()["properties"]["fancy"] = json!({"type": "string"});
            found(part)["status"]["storedVersions"] = json!(["v1alpha1", "v2"]);
        }), @r"
        ok AD0301: the CRDs are installed and served
        warning AD0302: appdeploys.appdeploy.dev is newer than this plugin, which does not have all its fields (spec.fancy); next: use the plugin of the version that is installed
        error AD0303: objects of appdeploys.appdeploy.dev may be stored as v2, which this plugin does not have; next: kubectl appdeploy version  (use the plugin of the installed version)
        ");
        insta::assert_snapshot!(changed(|part| {
            found(part).pointer_mut(spec).unwrap()["properties"].as_object_mut().unwrap().remove("replicas");
        }), @r"
        ok AD0301: the CRDs are installed and served
        warning AD0302: appdeploys.appdeploy.dev is older than this plugin: fields that it does not have can't be stored (spec.replicas); next: kubectl appdeploy install
        ok AD0303: all objects are stored in a known version
        ");
        insta::assert_snapshot!(changed(|part| {
            found(part).pointer_mut(spec).unwrap()["description"] = "other words".into();
        }), @r"
        ok AD0301: the CRDs are installed and served
        info AD0302: the CRDs have the fields of this plugin, with other rules or descriptions; next: kubectl appdeploy install
        ok AD0303: all objects are stored in a known version
        ");
    }
}

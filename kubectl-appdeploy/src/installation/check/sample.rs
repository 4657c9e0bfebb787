//! Facts for tests.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::ResourceExt as _;
use serde_json::json;

use super::facts::{Before, Facts, Installed, Part};
use super::finding::Finding;
use super::{authority, page};
use crate::installation::manifests::{self, Kind, Options};
use crate::installation::operator::Operator;

/// Returns the findings as `-o short` prints them, including those without a problem.
pub fn short(findings: &[Finding]) -> String {
    findings.iter().map(page::line).collect::<Vec<_>>().join("\n")
}

/// Returns a cluster without AppDeploy, of an administrator.
pub fn empty() -> Facts {
    let parts = manifests::objects(&Options::default()).unwrap();
    let parts = parts.into_iter().map(|wanted| Part {
        kind: Kind::of(&wanted),
        wanted,
        found: Ok(None),
    });
    let node = json!({"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let annotations = json!({"ingressclass.kubernetes.io/is-default-class": "true"});
    let class = json!({"metadata": {"name": "traefik", "annotations": annotations}});
    Facts {
        now: "2026-01-01T12:00:00Z".parse::<Timestamp>().unwrap(),
        version: "v1.36.3".to_owned(),
        nodes: Ok(vec![serde_json::from_value(node).unwrap()]),
        classes: Ok(vec![serde_json::from_value(class).unwrap()]),
        operator: Operator::Absent,
        parts: parts.collect(),
        before: Some(Before { refused: Vec::new() }),
        installed: None,
    }
}

/// Returns a cluster in which AppDeploy works.
pub fn well() -> Facts {
    let mut facts = empty();
    let bundle = json!(ByteString(authority::tests::pem(2031).into_bytes()));
    for part in &mut facts.parts {
        let mut found = part.wanted.clone();
        if part.kind == Kind::crd() {
            let names = json!({"type": "NamesAccepted", "status": "True"});
            let established = json!({"type": "Established", "status": "True"});
            found.data["status"] = json!({"conditions": [names, established], "storedVersions": ["v1alpha1"]});
        } else if part.kind == Kind::deployment() {
            found.data["status"] =
                json!({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2});
            facts.operator = Operator::Installed(Box::new(found.clone().try_parse().unwrap()), None);
        } else if Kind::webhooks().contains(&part.kind) {
            found.data["webhooks"][0]["clientConfig"]["caBundle"] = bundle.clone();
        }
        part.found = Ok(Some(found));
    }
    let lease = json!({"spec": {"holderIdentity": "appdeploy-operator-1_0a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T11:59:55.000000Z"}});
    let pods = ["appdeploy-operator-1", "appdeploy-operator-2"].map(|name| {
        let status = json!({"phase": "Running"});
        serde_json::from_value(
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "operator"}]}, "status": status}),
        )
        .unwrap()
    });
    facts.before = None;
    facts.installed = Some(Installed {
        lease: Ok(Some(serde_json::from_value(lease).unwrap())),
        pods: Ok(pods.into()),
        resources: Ok(Vec::new()),
        answer: Some(Ok(None)),
    });
    assert!(
        facts
            .parts
            .iter()
            .any(|part| part.wanted.name_any() == crate::installation::operator::NAME)
    );
    facts
}

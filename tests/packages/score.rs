//! Findings of kube-score in the manifests.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use testcluster::binaries::{Component, Program};

use crate::tools::{config, ok, program};

/// The best grade of a check.
const BEST: u64 = 10;

/// Accepted findings, and the reasons.
const ALLOWED: [(&str, &str); 4] = [
    (
        "container-resources",
        "there is no limit of CPU: it would only make the operator slow when there is much to do",
    ),
    (
        "container-image-pull-policy",
        "the tag names a release and is never moved, so a registry that is away need not hold a restart up",
    ),
    (
        "container-ephemeral-storage-request-and-limit",
        "it has no file system to write to, and nodes that don't count local storage could not place its pods",
    ),
    (
        "deployment-has-host-podantiaffinity",
        "topologySpreadConstraints keep the two apart, which this check does not know",
    ),
];

/// Optional checks of kube-score.
const OPTIONAL: &str = "container-seccomp-profile,container-ports-check";

/// Returns the checks that manifests failed.
fn failed(manifests: &str) -> BTreeSet<String> {
    let mut score = Command::new(program(Component::KubeScore, Program::KubeScore))
        .args(["score", "-", "-o", "json", "--kubernetes-version", "v1.36"])
        .args(["--enable-optional-test", OPTIONAL])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    score.stdin.take().unwrap().write_all(manifests.as_bytes()).unwrap();
    let output = score.wait_with_output().unwrap();
    // The exit code is 1 if there are findings, with the same output.
    let objects: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let checks = objects.iter().flat_map(|object| object["checks"].as_array().unwrap());
    let counted = checks.filter(|check| check["skipped"] == false);
    let failed = counted.filter(|check| check["grade"].as_u64().unwrap() < BEST);
    failed
        .map(|check| check["check"]["id"].as_str().unwrap().to_owned())
        .collect()
}

fn manifests() -> String {
    let kubectl = program(Component::ControlPlane, Program::Kubectl);
    ok(Command::new(kubectl).arg("kustomize").arg(config().join("default")))
}

#[test]
fn only_accepted_findings_are_found() {
    let allowed: BTreeSet<String> = ALLOWED.iter().map(|(id, _)| (*id).to_owned()).collect();
    assert_eq!(failed(&manifests()), allowed);
}

#[test]
fn seeded_fault_is_found() {
    let faulty = manifests().replace("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false");
    assert!(failed(&faulty).contains("container-security-context-readonlyrootfilesystem"));
}

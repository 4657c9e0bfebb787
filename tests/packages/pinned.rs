//! A release also names the operator's image by its digest, and every package installs that image.

use std::fs;
use std::process::Command;

use packages::{olm, pin};
use serde_json::Value;
use tempfile::TempDir;
use testcluster::binaries::{Component, Program};

use crate::objects;
use crate::tools::{Helm, config, ok, program};

const OPERATOR: &str = "Deployment appdeploy-system/appdeploy-operator";
const REPOSITORY: &str = "ghcr.io/appdeploy/appdeploy-operator";

fn digest(digit: &str) -> String {
    format!("sha256:{}", digit.repeat(64))
}

/// A copy of the manifests.
fn copy() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    ok(Command::new("cp").arg("-R").arg(config()).arg(folder.path()));
    folder
}

fn image(object: &Value) -> &str {
    object["spec"]["template"]["spec"]["containers"][0]["image"]
        .as_str()
        .unwrap()
}

#[test]
fn every_package_has_the_pinned_image() {
    let folder = copy();
    let config = folder.path().join("config");
    pin::pin(&config, &digest("1")).unwrap();
    // A second release replaces the digest of the first one.
    pin::pin(&config, &digest("2")).unwrap();
    let pinned = format!("{REPOSITORY}:v{}@{}", packages::VERSION, digest("2"));

    let kubectl = program(Component::ControlPlane, Program::Kubectl);
    let kustomized = objects::read(&ok(Command::new(kubectl).arg("kustomize").arg(config.join("default"))));
    assert_eq!(image(&kustomized[OPERATOR]), pinned);

    let helm = Helm::of(&config);
    assert_eq!(image(&helm.template(&[])[OPERATOR]), pinned);

    let bundle = olm::bundle(&config).unwrap();
    let (_, version) = bundle
        .iter()
        .find(|(path, _)| path.to_string_lossy().contains("clusterserviceversion"))
        .unwrap();
    let version: Value = serde_yaml::from_str(version).unwrap();
    assert_eq!(version["metadata"]["annotations"]["containerImage"], pinned);
    assert_eq!(image(&version["spec"]["install"]["spec"]["deployments"][0]), pinned);
}

#[test]
fn digest_of_the_chart_is_removed_with_another_tag_or_repository() {
    let folder = copy();
    let config = folder.path().join("config");
    pin::pin(&config, &digest("1")).unwrap();
    let helm = Helm::of(&config);
    let version = packages::VERSION;
    for (value, wanted) in [
        ("image.tag=v2", format!("{REPOSITORY}:v2")),
        (
            "image.repository=registry.example.com/op",
            format!("registry.example.com/op:v{version}"),
        ),
        (
            "image.repository=registry.example.com/op,image.tag=v2",
            "registry.example.com/op:v2".to_owned(),
        ),
        (
            &format!("image.digest={}", digest("3")),
            format!("{REPOSITORY}@{}", digest("3")),
        ),
    ] {
        assert_eq!(image(&helm.template(&["--set", value])[OPERATOR]), wanted, "{value}");
    }
}

#[test]
fn invalid_digest_changes_nothing() {
    let folder = copy();
    let config = folder.path().join("config");
    let file = config.join("manager/deployment.yaml");
    let before = fs::read_to_string(&file).unwrap();
    for bad in ["", "v1", "sha256:abc", &digest("G"), &format!("{}\n", digest("1"))] {
        let error = pin::pin(&config, bad).unwrap_err();
        assert!(error.to_string().contains("invalid digest"), "{error}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

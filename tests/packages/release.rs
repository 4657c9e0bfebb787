//! The downloads: archives and checksums, and Krew and Helm accept them.

use std::collections::BTreeSet;
use std::env::consts::{ARCH, OS};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use packages::platform::{PLATFORMS, Platform};
use packages::{helm, release, sbom};
use serde_json::Value;
use tempfile::TempDir;
use testcluster::binaries::{Component, Program};
use testcluster::checkout::Checkout;

use crate::objects::assert_same;
use crate::tools::{Helm, config, ok, program, said};

const DATE: i64 = 1_772_368_202;

/// Returns the platform of this machine.
fn here() -> Platform {
    let system = if OS == "macos" { "apple" } else { OS };
    let is_here = |platform: &Platform| platform.target.starts_with(ARCH) && platform.target.contains(system);
    PLATFORMS
        .into_iter()
        .find(is_here)
        .expect("a platform that is released")
}

/// Creates a release, with a smaller program instead of the plugin.
fn release() -> TempDir {
    release_of(&config().join("../LICENSE"))
}

fn release_of(plugin: &Path) -> TempDir {
    let checkout = Checkout::find().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    let date = jiff::Timestamp::from_second(DATE).unwrap();
    release::pack_plugin(checkout.root(), here(), plugin, date, out).unwrap();
    release::pack_chart(&helm::chart(&config()).unwrap(), date, out).unwrap();
    sbom::write(checkout.root(), "kubectl-appdeploy", date, out).unwrap();
    release::write_policies(&config(), out).unwrap();
    release::write_krew(out).unwrap();
    release::write_checksums(out).unwrap();
    folder
}

#[test]
fn krew_installs_the_plugin() {
    let folder = release_of(&Checkout::find().unwrap().program("kubectl-appdeploy"));
    let root = tempfile::tempdir().unwrap();
    let install = |archive: &Path, root: &Path| {
        let mut krew = Command::new(program(Component::Krew, Program::Krew));
        krew.env("KREW_ROOT", root).arg("install");
        krew.arg("--manifest").arg(folder.path().join("appdeploy.yaml"));
        krew.arg("--archive").arg(archive);
        krew
    };
    let archive = folder.path().join(here().archive());
    ok(&mut install(&archive, root.path()));
    let version = ok(Command::new(root.path().join("bin/kubectl-appdeploy")).args(["version", "--client"]));
    assert!(version.contains(packages::VERSION), "{version}");

    // An archive with another checksum than in the manifest is rejected.
    let other = tempfile::tempdir().unwrap();
    let changed = other.path().join(here().archive());
    fs::copy(&archive, &changed).unwrap();
    fs::OpenOptions::new()
        .append(true)
        .open(&changed)
        .unwrap()
        .write_all(b" ")
        .unwrap();
    let refused = said(&install(&changed, other.path()).output().unwrap());
    assert!(refused.contains("checksum does not match"), "{refused}");
}

#[test]
fn archive_has_the_completion_program_of_kubectl() {
    let folder = release();
    let listed = ok(Command::new("tar")
        .arg("-tzf")
        .arg(folder.path().join(here().archive())));
    let names: Vec<&str> = listed.lines().collect();
    assert_eq!(
        names,
        [
            "kubectl-appdeploy",
            "kubectl_complete-appdeploy",
            "LICENSE",
            "README.md"
        ]
    );
}

#[test]
fn packed_chart_equals_the_chart() {
    let folder = release();
    let helm = Helm::new();
    let packed = folder.path().join(format!("appdeploy-{}.tgz", packages::VERSION));
    let mut template = helm.command("template");
    template.arg("appdeploy").arg(packed);
    template.args(["--kube-version", "1.36.0", "--namespace", "appdeploy-system"]);
    assert_same(&crate::objects::read(&ok(&mut template)), &helm.template(&[]));
}

/// OLM does not install admission policies: an administrator applies this file.
#[test]
fn released_policies_equal_the_installed_ones() {
    let folder = release();
    let file = format!("appdeploy-policies-v{}.yaml", packages::VERSION);
    let found = crate::objects::read(&fs::read_to_string(folder.path().join(file)).unwrap());
    assert_eq!(found.len(), 4);
    assert_same(&found, &crate::tools::kustomized("policy"));
}

#[test]
fn checksums_are_of_every_file_and_of_nothing_else() {
    let folder = release();
    let sums = fs::read_to_string(folder.path().join(release::CHECKSUMS)).unwrap();
    let named: BTreeSet<&str> = sums
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(_, name)| name)
        .collect();
    let files = fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> = files.filter(|name| name != release::CHECKSUMS).collect();
    assert_eq!(named, files.iter().map(String::as_str).collect());
    let tool = if OS == "macos" { "shasum" } else { "sha256sum" };
    ok(Command::new(tool)
        .args(["--check", release::CHECKSUMS])
        .current_dir(folder.path()));
}

#[test]
fn release_is_reproducible() {
    let (first, second) = (release(), release());
    for file in fs::read_dir(first.path()).unwrap() {
        let name = file.unwrap().file_name();
        let read = |folder: &TempDir| fs::read(folder.path().join(&name)).unwrap();
        assert!(read(&first) == read(&second), "{} differs", name.display());
    }
}

#[test]
fn sbom_has_each_crate_with_its_license_and_checksum() {
    let folder = release();
    let bill = folder
        .path()
        .join(format!("kubectl-appdeploy-v{}.cdx.json", packages::VERSION));
    let bill: Value = serde_json::from_slice(&fs::read(bill).unwrap()).unwrap();
    let components = bill["components"].as_array().unwrap();
    let ours = ["crd", "model"];
    for component in components {
        let name = component["name"].as_str().unwrap();
        assert!(
            component["licenses"][0]["expression"].is_string(),
            "{name} has no licence"
        );
        let is_ours = ours.contains(&name);
        assert_eq!(component["hashes"].is_null(), is_ours, "the checksum of {name}");
    }
    let has = |name: &str| components.iter().any(|component| component["name"] == name);
    assert!(has("kube-client") && has("rustls") && has("model"));
    // Only tests and other programs use these.
    assert!(!has("insta") && !has("testcluster") && !has("axum"));
}

//! The software bill of materials of a program, in the format of CycloneDX.
//!
//! It has Cargo's resolution for the platforms of a release, without dependencies of tests. Features are those of the
//! whole workspace, so it may list an unused crate, but it is never incomplete.

mod lock;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::output;
use crate::platform::PLATFORMS;

/// Writes the SBOM of the program of a crate, and returns the file.
///
/// # Errors
/// When Cargo fails, or does not have the crate.
pub fn write(checkout: &Path, package: &str, date: Timestamp, out: &Path) -> Result<PathBuf> {
    let lock = checkout.join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).with_context(|| format!("failed to read {}", lock.display()))?;
    let bill = bill(&metadata(checkout)?, &lock::checksums(&lock), package, date)?;
    let path = out.join(format!("{package}-v{}.cdx.json", crate::VERSION));
    output::make(out)?;
    std::fs::write(&path, serde_json::to_string_pretty(&bill)? + "\n")
        .with_context(|| format!("failed to write {}", path.display()))?;
    Ok(path)
}

fn metadata(checkout: &Path) -> Result<Value> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["metadata", "--format-version=1", "--locked"])
        .current_dir(checkout);
    for platform in PLATFORMS {
        cargo.args(["--filter-platform", platform.target]);
    }
    let output = cargo.output().context("failed to run cargo")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("failed to read what cargo metadata said")
}

/// Returns the SBOM of a crate of the workspace.
fn bill(metadata: &Value, checksums: &lock::Checksums, package: &str, date: Timestamp) -> Result<Value> {
    let packages: BTreeMap<&str, &Value> = list(&metadata["packages"])
        .map(|package| (id(package), package))
        .collect();
    let needs: BTreeMap<&str, BTreeSet<&str>> = list(&metadata["resolve"]["nodes"])
        .map(|node| (id(node), needed_by(node)))
        .collect();
    let root = packages
        .values()
        .find(|known| known["name"] == package && known["source"].is_null())
        .with_context(|| format!("the workspace has no crate {package}"))?;
    let mut parts = BTreeSet::from([id(root)]);
    let mut next = vec![id(root)];
    while let Some(part) = next.pop() {
        let new = needs
            .get(part)
            .into_iter()
            .flatten()
            .filter(|needed| parts.insert(needed));
        next.extend(new);
    }

    let described = |id: &&str| component(packages[id], checksums);
    let components: Vec<Value> = parts.iter().filter(|part| **part != id(root)).map(described).collect();
    let dependencies: Vec<Value> = parts
        .iter()
        .map(|part| {
            let needed = needs.get(part).into_iter().flatten();
            let needed: Vec<String> = needed.map(|needed| reference(packages[needed])).collect();
            json!({"ref": reference(packages[part]), "dependsOn": needed})
        })
        .collect();
    let mut program = component(root, checksums);
    program["type"] = "application".into();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": date.to_string(), "component": program},
        "components": components,
        "dependencies": dependencies,
    }))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn id(value: &Value) -> &str {
    value["id"].as_str().unwrap_or_default()
}

/// Returns the dependencies of a package, without those of its tests.
fn needed_by(node: &Value) -> BTreeSet<&str> {
    let built = |dependency: &&Value| list(&dependency["dep_kinds"]).any(|kind| kind["kind"] != "dev");
    list(&node["deps"])
        .filter(built)
        .filter_map(|dependency| dependency["pkg"].as_str())
        .collect()
}

/// Returns the package URL, which tools look up in lists of vulnerabilities.
fn reference(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

fn component(package: &Value, checksums: &lock::Checksums) -> Value {
    let reference = reference(package);
    let mut component = json!({
        "type": "library",
        "bom-ref": reference,
        "name": package["name"],
        "version": package["version"],
        "purl": reference,
    });
    if package["license"].is_string() {
        component["licenses"] = json!([{"expression": package["license"]}]);
    }
    if let Some(sha256) = checksums.get(&reference) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sha256}]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sbom_has_the_dependencies_of_the_program_only() {
        let package = |name: &str, source: Option<&str>| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": source});
        let dependency = |name: &str, kinds: &[Option<&str>]| {
            let kinds: Vec<_> = kinds.iter().map(|kind| json!({"kind": kind})).collect();
            json!({"pkg": name, "dep_kinds": kinds})
        };
        let metadata = json!({
            "packages": [package("app", None), package("lib", Some("r")), package("deep", Some("r")), package("test", Some("r"))],
            "resolve": {"nodes": [
                {"id": "app", "deps": [dependency("lib", &[None]), dependency("test", &[Some("dev")])]},
                {"id": "lib", "deps": [dependency("deep", &[Some("build"), Some("dev")])]},
            ]},
        });
        let checksums = lock::Checksums::from([("pkg:cargo/deep@1.0.0".to_owned(), "ab".to_owned())]);
        let bill = bill(&metadata, &checksums, "app", Timestamp::UNIX_EPOCH).unwrap();
        let names: Vec<_> = list(&bill["components"]).map(|component| &component["name"]).collect();
        assert_eq!(names, ["deep", "lib"]);
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "ab");
        assert_eq!(bill["metadata"]["component"]["type"], "application");
        assert_eq!(bill["metadata"]["timestamp"], "1970-01-01T00:00:00Z");
        assert_eq!(
            bill["dependencies"][0],
            json!({"ref": "pkg:cargo/app@1.0.0", "dependsOn": ["pkg:cargo/lib@1.0.0"]})
        );
    }
}

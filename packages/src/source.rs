//! The manifests of an installation: the files of `config/`, in the order of their kustomizations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use serde::Deserialize;
use serde_json::Value;

use crate::image::Image;
use crate::text::Text;
use crate::{OPERATOR, VERSION};

/// An object, as in its file.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The file, below `config/`: `rbac/operator_role.yaml`.
    pub path: PathBuf,
    /// Its text, comments included.
    pub text: String,
    /// The parsed object.
    pub object: Value,
}

impl Manifest {
    /// Returns the object's kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// Returns whether the object is only needed for webhooks.
    pub(crate) fn is_for_webhooks(&self) -> bool {
        let file = self.path.file_name().unwrap_or_default();
        self.path.starts_with("webhook") || file.to_string_lossy().starts_with("webhook_")
    }

    /// Returns the image of the operator's Deployment.
    pub(crate) fn image(&self) -> Result<Image<'_>> {
        Image::of(&self.object, &self.path)
    }

    /// Returns the object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }
}

/// The supported fields of a kustomization. Patches are not supported, so they are an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kustomization {
    resources: Vec<PathBuf>,
    #[serde(default)]
    labels: Vec<Labels>,
}

/// Labels of all objects of a kustomization, but not of selectors and pods.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    pairs: BTreeMap<String, String>,
}

/// Reads the manifests of the folder `name` of `config`, and of the folders that it names.
///
/// # Errors
/// When a file is missing or not one object, or a kustomization does more than list files.
pub fn read(config: &Path, name: &str) -> Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    folder(config, Path::new(name), &mut manifests)?;
    Ok(manifests)
}

fn folder(config: &Path, name: &Path, manifests: &mut Vec<Manifest>) -> Result<()> {
    let own = manifests.len();
    let path = config.join(name).join("kustomization.yaml");
    let kustomization: Kustomization = serde_yaml::from_str(&text(&path)?)
        .with_context(|| format!("{} has more than resources and labels", path.display()))?;
    for resource in kustomization.resources {
        let resource = below(&name.join(resource));
        if config.join(&resource).is_dir() {
            folder(config, &resource, manifests)?;
        } else {
            manifests.push(manifest(config, resource)?);
        }
    }
    for (key, value) in kustomization.labels.iter().flat_map(|labels| &labels.pairs) {
        for manifest in &mut manifests[own..] {
            label(manifest, key, value).with_context(|| format!("failed to label {}", manifest.path.display()))?;
        }
    }
    Ok(())
}

fn label(manifest: &mut Manifest, key: &str, value: &str) -> Result<()> {
    let mut text = Text::new(&manifest.text);
    text.append("metadata.labels", &format!("{key}: {value}"))?;
    manifest.text = text.finish();
    manifest.object["metadata"]["labels"][key] = value.into();
    Ok(())
}

fn manifest(config: &Path, path: PathBuf) -> Result<Manifest> {
    let text = text(&config.join(&path))?;
    let object: Value =
        serde_yaml::from_str(&text).with_context(|| format!("{} is not one object of YAML", path.display()))?;
    let manifest = Manifest { path, text, object };
    ensure!(
        !manifest.kind().is_empty() && !manifest.name().is_empty(),
        "{} has no kind or no name",
        manifest.path.display()
    );
    Ok(manifest)
}

/// Finds the operator's Deployment, whose image must be that of this version.
pub(crate) fn operator(manifests: &[Manifest]) -> Result<&Manifest> {
    let operator = manifests
        .iter()
        .find(|manifest| manifest.kind() == "Deployment" && manifest.name() == OPERATOR)
        .with_context(|| format!("config/default has no Deployment {OPERATOR}"))?;
    let tag = operator.image()?.tag;
    ensure!(
        tag == format!("v{VERSION}"),
        "config/{} has an image with the tag {tag}, which is not of version {VERSION}",
        operator.path.display()
    );
    Ok(operator)
}

/// Returns the icon of AppDeploy, an SVG, in base64.
pub(crate) fn icon(config: &Path) -> Result<String> {
    let icon = text(&config.join("manifests/bases/icon.svg"))?;
    Ok(base64::engine::general_purpose::STANDARD.encode(icon.trim_end()))
}

/// Reads a file; the error has its path.
pub(crate) fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

/// Removes `default/..` from `default/../rbac`.
fn below(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part.as_os_str() == ".." {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> tempfile::TempDir {
        let config = tempfile::tempdir().unwrap();
        for (name, text) in all {
            let path = config.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        config
    }

    const OBJECT: &str = "# why\nkind: Thing\nmetadata:\n  name: one\n";

    #[test]
    fn kustomization_of_a_folder_is_followed() {
        let config = files(&[
            ("default/kustomization.yaml", "resources:\n- ../other\n- own.yaml\n"),
            ("default/own.yaml", OBJECT),
            ("other/kustomization.yaml", "resources: [a.yaml]\n"),
            ("other/a.yaml", OBJECT),
            ("other/unnamed.yaml", OBJECT),
        ]);
        let read = read(config.path(), "default").unwrap();
        let paths: Vec<_> = read.iter().map(|manifest| manifest.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["other/a.yaml", "default/own.yaml"]);
        assert_eq!((read[0].kind(), read[0].name()), ("Thing", "one"));
        assert_eq!(read[0].text, OBJECT);
    }

    #[test]
    fn labels_are_added_to_all_resources() {
        let one = "kind: Thing\nmetadata:\n  name: one\n  labels:\n    a: b\n";
        let config = files(&[
            (
                "default/kustomization.yaml",
                "resources: [../other]\nlabels:\n- pairs:\n    c: d\n",
            ),
            ("other/kustomization.yaml", "resources: [one.yaml]\n"),
            ("other/one.yaml", one),
        ]);
        let read = read(config.path(), "default").unwrap();
        assert_eq!(read[0].text, format!("{one}    c: d\n"));
        assert_eq!(read[0].object, serde_yaml::from_str::<Value>(&read[0].text).unwrap());
    }

    #[test]
    fn unsupported_fields_of_a_kustomization_are_rejected() {
        let patched = files(&[("default/kustomization.yaml", "resources: []\npatches: []\n")]);
        let error = read(patched.path(), "default").unwrap_err();
        assert!(
            error.to_string().ends_with("has more than resources and labels"),
            "{error}"
        );
        let two = files(&[
            ("default/kustomization.yaml", "resources: [two.yaml]\n"),
            ("default/two.yaml", "kind: A\n---\nkind: B\n"),
        ]);
        let error = read(two.path(), "default").unwrap_err();
        assert_eq!(error.to_string(), "default/two.yaml is not one object of YAML");
    }
}

//! The Helm chart: templates made of the files of `config/`, which keep their folders, names and comments.

mod rights;
mod template;
mod values;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;

use crate::VERSION;
use crate::fill::fill;
use crate::output::Files;
use crate::source::{self, Manifest};

/// The namespace that the manifests name; in the chart it is that of the release.
pub const NAMESPACE: &str = "appdeploy-system";
/// The name of the operator's own objects.
pub const OPERATOR: &str = "appdeploy-operator";

const HELPERS: &str = include_str!("../chart/templates/_helpers.tpl");

/// Returns the files of the chart.
///
/// # Errors
/// When a manifest is missing, or lacks what a value is to change.
pub fn chart(config: &Path) -> Result<Files> {
    let manifests = source::read(config, "default")?;
    let operator = operator(&manifests)?;
    let icon = base64::engine::general_purpose::STANDARD
        .encode(source::text(&config.join("manifests/bases/icon.svg"))?.trim_end());
    let sample = source::text(&config.join("samples/appdeploy.yaml"))?;
    let sample: String = sample
        .lines()
        .filter(|line| !line.starts_with('#'))
        .fold(String::new(), |text, line| text + "  " + line + "\n");
    let mut files = Files::from([
        (
            "Chart.yaml".into(),
            fill(
                include_str!("../chart/Chart.yaml"),
                &[("version", VERSION), ("icon", &icon)],
            )?,
        ),
        ("values.yaml".into(), values::render(&manifests, operator)?),
        (
            "values.schema.json".into(),
            include_str!("../chart/values.schema.json").to_owned(),
        ),
        (
            "README.md".into(),
            fill(include_str!("../chart/README.md"), &[("namespace", NAMESPACE)])?,
        ),
        ("templates/_helpers.tpl".into(), HELPERS.to_owned()),
        (
            "templates/NOTES.txt".into(),
            fill(
                include_str!("../chart/templates/NOTES.txt"),
                &[("namespace", NAMESPACE), ("sample", sample.trim_end())],
            )?,
        ),
    ]);
    for manifest in &manifests {
        let text = template::of(manifest)
            .with_context(|| format!("failed to make a template of config/{}", manifest.path.display()))?;
        files.insert(Path::new("templates").join(&manifest.path), text);
    }
    Ok(files)
}

/// Finds the operator's Deployment, whose image has to be that of this version.
fn operator(manifests: &[Manifest]) -> Result<&Manifest> {
    let operator = manifests
        .iter()
        .find(|manifest| manifest.kind() == "Deployment" && manifest.name() == OPERATOR)
        .with_context(|| format!("config/default has no Deployment {OPERATOR}"))?;
    let image = &operator.object["spec"]["template"]["spec"]["containers"][0]["image"];
    ensure!(
        image
            .as_str()
            .is_some_and(|image| image.ends_with(&format!(":v{VERSION}"))),
        "config/{} has the image {image}, which is not of version {VERSION}",
        operator.path.display()
    );
    Ok(operator)
}

//! The Helm chart: templates generated from the files of `config/`, with the same folders, names and comments.

mod rights;
mod template;
mod values;

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::fill::fill;
use crate::output::Files;
use crate::source;
use crate::{NAMESPACE, VERSION};

const HELPERS: &str = include_str!("../chart/templates/_helpers.tpl");

/// Returns the files of the chart.
///
/// # Errors
/// When a manifest is missing, or does not have a field that a value changes.
pub fn chart(config: &Path) -> Result<Files> {
    let manifests = source::read(config, "default")?;
    let operator = source::operator(&manifests)?;
    let image = operator.image()?;
    let icon = source::icon(config)?;
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
            fill(
                include_str!("../chart/README.md"),
                &[("namespace", NAMESPACE), ("version", VERSION)],
            )?,
        ),
        (
            "templates/_helpers.tpl".into(),
            fill(
                HELPERS,
                &[
                    ("repository", image.repository),
                    ("digest", image.digest.unwrap_or_default()),
                ],
            )?,
        ),
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

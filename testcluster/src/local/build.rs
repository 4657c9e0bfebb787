//! The operator's image, built from the Dockerfile of the checkout with what this machine has: docker or buildah.

mod base;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::layout::{self, Layout};
use super::tool::{self, Tool};
use super::ui::Ui;
use super::{daemons, images, marker, packages, registry};

/// Builds the Dockerfile in `context` and gives the image to the cluster's registry.
pub(crate) fn build_image(
    layout: &Layout,
    image: &str,
    context: Option<PathBuf>,
    profile: &str,
    ui: &Ui,
) -> Result<()> {
    // Its log is written there.
    marker::claim(&layout.state)?;
    let context = context.map_or_else(layout::workspace, Ok)?;
    if !context.join("Dockerfile").exists() {
        bail!(
            "there is no Dockerfile in {}; --context names its folder",
            context.display()
        );
    }
    let argument = format!("PROFILE={profile}");
    if docker() {
        ui.step(&format!("building {image} with docker"), || {
            let log = layout.dir("logs")?.join("build-image.log");
            Tool::new("docker")
                .args(["build", "--build-arg", &argument, "--tag", image, "."])
                .dir(&context)
                .run_logged(&log)
        })?;
    } else {
        ui.step(&format!("building {image} with buildah"), || {
            with_buildah(layout, image, &context, &argument, ui)
        })?;
    }
    push(layout, image, ui)
}

/// Gives an image that docker or `build-image` made to the cluster's registry.
pub(crate) fn push(layout: &Layout, image: &str, ui: &Ui) -> Result<()> {
    if !daemons::answers(registry::ADDRESS) {
        bail!(
            "the cluster's registry does not answer; `make cluster` brings it up (fake nodes have none and need none)"
        );
    }
    ui.step(&format!("pushing {image} to the cluster's registry"), || {
        if docker() {
            let place = registry::place(image);
            Tool::new("docker").args(["tag", image, &place]).run()?;
            Tool::new("docker").args(["push", "--quiet", &place]).run().map(drop)
        } else {
            images::push(layout, image, image)
        }
    })
}

fn with_buildah(layout: &Layout, image: &str, context: &std::path::Path, argument: &str, ui: &Ui) -> Result<()> {
    packages::ensure_buildah(ui)?;
    packages::ensure_compiler(ui)?;
    let dockerfile = context.join("Dockerfile");
    let text =
        std::fs::read_to_string(&dockerfile).with_context(|| format!("failed to read {}", dockerfile.display()))?;
    // A stand-in has the name of the image, and can't have its digest.
    let text = base::without_digests(&text);
    let volumes = base::ensure(layout, &text)?;
    let dockerfile = layout.write("Dockerfile", &text)?;
    let log = layout.dir("logs")?.join("build-image.log");
    let built = images::buildah(layout)?
        // No cache of layers: Cargo knows better what a change touches, and its folder outlives the build.
        .args([
            "build",
            "--pull-never",
            "--no-cache",
            "--force-rm",
            "--build-arg",
            argument,
            "--tag",
            image,
        ])
        .args(volumes)
        .arg("--file")
        .arg(&dockerfile)
        .arg(".")
        .dir(context)
        .run_logged(&log);
    // What the last build was, and is not any more. A failure costs only room.
    let _ = images::buildah(layout)?.args(["rmi", "--prune"]).run();
    built
}

/// Tells whether there is a docker whose engine answers; the program alone says nothing.
fn docker() -> bool {
    tool::find("docker").is_some()
        && Tool::new("docker")
            .args(["version", "--format", "{{.Server.Version}}"])
            .succeeds()
}

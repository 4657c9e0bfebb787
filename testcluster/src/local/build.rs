//! The operator's image, built from the Dockerfile of the checkout with what this machine has: docker or buildah.

mod base;

use std::path::PathBuf;
#[cfg(target_os = "linux")]
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::layout::{self, Layout};
use super::tool::{self, Tool};
use super::ui::Ui;
use super::{marker, packages, registry};

/// How long the operator takes in the quick profile, on two processors and from nothing.
#[cfg(target_os = "linux")]
const QUICK: Duration = Duration::from_secs(220);

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
    if !layout.at("registry").is_dir() {
        bail!("the cluster has no registry; `make cluster` brings one up (fake nodes have none and need none)");
    }
    ui.step(&format!("giving {image} to the cluster's registry"), || {
        let scratch = tempfile::tempdir_in(&layout.state).context("failed to create a folder")?;
        let archive = scratch.path().join("image.tar");
        if docker() {
            Tool::new("docker")
                .args(["save", image, "--output"])
                .arg(&archive)
                .run()?;
        } else {
            let place = format!("docker-archive:{}", archive.display());
            buildah(layout)?.args(["push", "--quiet", image, &place]).run()?;
        }
        let file = std::fs::File::open(&archive).with_context(|| format!("failed to open {}", archive.display()))?;
        registry::store(layout)
            .import(std::io::BufReader::new(file), &registry::place(image))
            .with_context(|| format!("failed to add {image} to the cluster's registry"))
    })
}

/// Returns a call of buildah whose storage is in the cache, apart from the person's own images.
fn buildah(layout: &Layout) -> Result<Tool> {
    let storage = layout.cache.join("buildah");
    // Cache mounts of a build are in TMPDIR, and must outlive it.
    let tmp = storage.join("tmp");
    layout::create(&tmp)?;
    Ok(Tool::new("buildah")
        .arg("--root")
        .arg(storage.join("root"))
        .arg("--runroot")
        .arg(storage.join("run"))
        .args(["--storage-driver", "overlay"])
        .env("TMPDIR", tmp)
        // Neither a namespace of its own nor runc for its steps: works wherever root may mount.
        .env("BUILDAH_ISOLATION", "chroot"))
}

/// Builds the operator of the checkout with Cargo's quick profile and gives it to the cluster's registry. Needs neither root
/// nor an engine; the Dockerfile is for releases.
#[cfg(target_os = "linux")]
pub(crate) fn quick_image(layout: &Layout, image: &str, ui: &Ui) -> Result<()> {
    const NAME: &str = "appdeploy-operator";
    let checkout = layout::workspace()?;
    packages::ensure_compiler(ui)?;
    let target = base::target()?;
    let metadata = Tool::new("cargo")
        .args(["metadata", "--no-deps", "--format-version=1"])
        .dir(&checkout)
        .run()?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata).context("cargo printed no JSON")?;
    let built = metadata["target_directory"]
        .as_str()
        .context("cargo named no target folder")?;
    let log = layout.dir("logs")?.join("build-image.log");
    let crates = || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let compiled = text.lines().filter(|line| line.trim_start().starts_with("Compiling "));
        format!("{} crates", compiled.count())
    };
    ui.long_step("building the operator's image", QUICK, crates, || {
        Tool::new("cargo")
            .args(["build", "--profile", "quick", "--locked", "--package", "operator"])
            .args(["--bin", NAME, "--target", &target])
            .dir(&checkout)
            .run_logged(&log)?;
        let root = tempfile::tempdir_in(&layout.state).context("failed to create a folder")?;
        let program = PathBuf::from(built).join(&target).join("quick").join(NAME);
        std::fs::copy(&program, root.path().join(NAME))
            .with_context(|| format!("failed to copy {}", program.display()))?;
        // As in the Dockerfile.
        let config = serde_json::json!({ "User": "65532:65532", "Entrypoint": [format!("/{NAME}")] });
        registry::store(layout)
            .add_image(&[super::images::pack(root.path())?], config, &[registry::place(image)])
            .context("failed to write the image")
    })
}

/// Returns whether Rust lacks the target that an image of the operator is built for.
#[cfg(target_os = "linux")]
pub(crate) fn target_missing() -> bool {
    base::target_missing().unwrap_or(false)
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
    let built = buildah(layout)?
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
    let _ = buildah(layout)?.args(["rmi", "--prune"]).run();
    built
}

/// Tells whether there is a docker whose engine answers; the program alone says nothing.
fn docker() -> bool {
    tool::find("docker").is_some()
        && Tool::new("docker")
            .args(["version", "--format", "{{.Server.Version}}"])
            .succeeds()
}

//! The operator's image, built from the Dockerfile of the checkout with docker or buildah.

mod base;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::layout::{self, Layout};
use super::tool::{self, Tool};
use super::ui::Ui;
use super::{marker, packages, registry};

/// Builds the Dockerfile in `context` and pushes the image to the cluster's registry.
pub(crate) fn build_image(layout: &Layout, image: &str, context: Option<PathBuf>, ui: &Ui) -> Result<()> {
    // Its log is written there.
    marker::claim(&layout.state)?;
    let context = context.map_or_else(layout::workspace, Ok)?;
    if !context.join("Dockerfile").exists() {
        bail!(
            "there is no Dockerfile in {}; --context names its folder",
            context.display()
        );
    }
    if docker() {
        ui.step(&format!("building {image} with docker"), || {
            let log = layout.dir("logs")?.join("build-image.log");
            Tool::new("docker")
                .args(["build", "--tag", image, "."])
                .dir(&context)
                .run_logged(&log)
        })?;
    } else {
        ui.step(&format!("building {image} with buildah"), || {
            with_buildah(layout, image, &context, ui)
        })?;
    }
    push(layout, image, ui)
}

/// Pushes an image of docker or `build-image` to the cluster's registry.
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

/// Returns a call of buildah whose storage is in the cache, separate from the user's own images.
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
        // Neither a namespace nor runc for its steps: works wherever root may mount.
        .env("BUILDAH_ISOLATION", "chroot"))
}

/// Packs a program that was built for this machine, with its shared libraries, and pushes the image to the cluster's
/// registry. Needs neither root nor an engine, and builds nothing.
#[cfg(target_os = "linux")]
pub(crate) fn pack_image(layout: &Layout, image: &str, program: &std::path::Path, ui: &Ui) -> Result<()> {
    marker::claim(&layout.state)?;
    let name = program
        .file_name()
        .and_then(std::ffi::OsStr::to_str)
        .with_context(|| format!("invalid --program {}: it has no name", program.display()))?;
    ui.step(&format!("packing {name} as an image"), || {
        let root = tempfile::tempdir_in(&layout.state).context("failed to create a folder")?;
        let packed = root.path().join(name);
        // Debug information is most of the file, and each start of a node unpacks it again.
        let stripped = tool::find("strip").is_some()
            && Tool::new("strip")
                .args(["--strip-debug", "-o"])
                .arg(&packed)
                .arg(program)
                .succeeds();
        if !stripped {
            copy(program, &packed)?;
        }
        for library in libraries(&Tool::new("ldd").arg(program).run()?) {
            copy(library, &root.path().join(library.strip_prefix("/").unwrap_or(library)))?;
        }
        // As in the Dockerfile.
        let config = serde_json::json!({ "User": "65532:65532", "Entrypoint": [format!("/{name}")] });
        registry::store(layout)
            .add_image(&[super::images::pack(root.path())?], config, &[registry::place(image)])
            .context("failed to write the image")
    })
}

/// Parses the shared libraries in the output of `ldd`: `NAME => PATH (ADDRESS)`, and the path of the loader only.
#[cfg(target_os = "linux")]
fn libraries(ldd: &str) -> Vec<&std::path::Path> {
    ldd.lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(std::path::Path::new)
        .collect()
}

#[cfg(target_os = "linux")]
fn copy(from: &std::path::Path, to: &std::path::Path) -> Result<()> {
    to.parent().map_or(Ok(()), layout::create)?;
    std::fs::copy(from, to).with_context(|| format!("failed to copy {}", from.display()))?;
    Ok(())
}

fn with_buildah(layout: &Layout, image: &str, context: &std::path::Path, ui: &Ui) -> Result<()> {
    packages::ensure_buildah(ui)?;
    packages::ensure_compiler(ui)?;
    let dockerfile = context.join("Dockerfile");
    let text =
        std::fs::read_to_string(&dockerfile).with_context(|| format!("failed to read {}", dockerfile.display()))?;
    // A replacement has the name of the image, but can't have its digest.
    let text = base::without_digests(&text);
    let volumes = base::ensure(layout, &text)?;
    let dockerfile = layout.write("Dockerfile", &text)?;
    let log = layout.dir("logs")?.join("build-image.log");
    let built = buildah(layout)?
        // No layer cache: Cargo knows better what must be rebuilt, and its folder is kept after the build.
        .args(["build", "--pull-never", "--no-cache", "--force-rm", "--tag", image])
        .args(volumes)
        .arg("--file")
        .arg(&dockerfile)
        .arg(".")
        .dir(context)
        .run_logged(&log);
    // Removes the previous image. A failure only costs disk space.
    let _ = buildah(layout)?.args(["rmi", "--prune"]).run();
    built
}

/// Returns whether there is a docker whose engine answers; the program alone may not have an engine.
fn docker() -> bool {
    tool::find("docker").is_some()
        && Tool::new("docker")
            .args(["version", "--format", "{{.Server.Version}}"])
            .succeeds()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::path::Path;

    #[test]
    fn libraries_and_loader_are_parsed_without_that_of_the_kernel() {
        let ldd = "\tlinux-vdso.so.1 (0x00007f88059b5000)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f8802d3e000)\n\
                   \t/lib64/ld-linux-x86-64.so.2 (0x00007f88059b7000)\n";
        assert_eq!(
            super::libraries(ldd),
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(Path::new)
        );
    }
}

//! The images of the cluster's own registry: made here from Debian's packages under the public images' names.

mod content;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xxhash_rust::xxh3::Xxh3Default;

use super::layout::{self, Layout};
use super::tool::Tool;
use super::ui::Ui;
use super::{packages, registry};

/// The image that holds each pod's namespaces.
pub(crate) const PAUSE: &str = "registry.k8s.io/pause:3.10";

/// One image: its Dockerfile, what fills its root, and the names under which the registry has it.
struct Image {
    name: &'static str,
    dockerfile: &'static str,
    fill: fn(&Path, &Path) -> Result<()>,
    tags: &'static [&'static str],
}

/// The tags are those that people write and the samples use, not the versions that Debian happens to have.
const IMAGES: [Image; 3] = [
    Image {
        name: "pause",
        dockerfile: include_str!("../../images/pause/Dockerfile"),
        fill: content::pause,
        tags: &[PAUSE],
    },
    Image {
        name: "busybox",
        dockerfile: include_str!("../../images/busybox/Dockerfile"),
        fill: content::busybox,
        tags: &["busybox:latest", "busybox:stable", "busybox:1.36", "busybox:1.37"],
    },
    Image {
        name: "nginx",
        dockerfile: include_str!("../../images/nginx/Dockerfile"),
        fill: content::nginx,
        tags: &[
            "nginx:latest",
            "nginx:stable",
            "nginx:alpine",
            "nginx:1.28",
            "nginx:1.28-alpine",
            "nginx:1.29",
            "nginx:1.29-alpine",
        ],
    },
];

/// Fills the registry's folder with what an earlier cluster built; must come before the registry starts.
///
/// Returns whether the images are there.
pub(crate) fn seed(layout: &Layout) -> Result<bool> {
    let seed = seed_dir(layout);
    let store = layout.dir("registry/store")?;
    let filled = layout.at("registry/filled");
    if filled.exists() {
        return Ok(true);
    }
    if !seed.exists() {
        return Ok(false);
    }
    copy_tree(&seed, &store)?;
    std::fs::write(&filled, "").with_context(|| format!("failed to write {}", filled.display()))?;
    Ok(true)
}

/// Builds the images, pushes them to the running registry, and keeps its folder for the next cluster.
pub(crate) fn build(layout: &Layout, ui: &Ui) -> Result<()> {
    packages::ensure_buildah(ui)?;
    packages::ensure_compiler(ui)?;
    for image in &IMAGES {
        ui.step(&format!("making the image {}", image.name), || build_one(layout, image))
            .with_context(|| format!("failed to make the image {}", image.name))?;
    }
    let seed = seed_dir(layout);
    // Copied beside it and renamed, so that nobody takes half of it for the whole.
    let scratch = scratch(layout)?;
    let copy = scratch.path().join("store");
    copy_tree(&layout.at("registry/store"), &copy)?;
    if !seed.exists() {
        std::fs::rename(&copy, &seed).with_context(|| format!("failed to keep the images in {}", seed.display()))?;
    }
    layout.write("registry/filled", "").map(drop)
}

/// Returns a call of buildah whose storage lies in the cache, apart from the person's own images.
pub(crate) fn buildah(layout: &Layout) -> Result<Tool> {
    let storage = layout.cache.join("buildah");
    // Cache mounts of a build lie in TMPDIR, and must outlive it.
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

/// Pushes an image of buildah's storage to the cluster's registry.
pub(crate) fn push(layout: &Layout, image: &str, tag: &str) -> Result<()> {
    let place = format!("docker://{}", registry::place(tag));
    buildah(layout)?
        .args(["push", "--tls-verify=false", "--quiet", image, &place])
        .run()
        .map(drop)
}

fn build_one(layout: &Layout, image: &Image) -> Result<()> {
    let scratch = scratch(layout)?;
    let root = scratch.path().join("root");
    layout::create(&root)?;
    (image.fill)(&root, scratch.path())?;
    let dockerfile = scratch.path().join("Dockerfile");
    std::fs::write(&dockerfile, image.dockerfile)
        .with_context(|| format!("failed to write {}", dockerfile.display()))?;
    let name = format!("localhost/testcluster/{}", image.name);
    buildah(layout)?
        .args(["build", "--quiet", "--pull-never", "--tag", &name, "."])
        .dir(scratch.path())
        .run()?;
    image.tags.iter().try_for_each(|tag| push(layout, &name, tag))
}

/// The folder that keeps the images; its name changes with all that they are made of but Debian's packages.
fn seed_dir(layout: &Layout) -> PathBuf {
    let mut hash = Xxh3Default::new();
    for image in &IMAGES {
        hash.update(image.dockerfile.as_bytes());
        image.tags.iter().for_each(|tag| hash.update(tag.as_bytes()));
    }
    for (_, text) in content::FILES {
        hash.update(text.as_bytes());
    }
    layout
        .cache
        .join("images")
        .join(format!("store-{:016x}", hash.digest()))
}

fn scratch(layout: &Layout) -> Result<tempfile::TempDir> {
    let dir = layout.cache.join("images");
    layout::create(&dir)?;
    let scratch = tempfile::Builder::new().prefix(".making-").tempdir_in(&dir);
    scratch.with_context(|| format!("failed to create a folder in {}", dir.display()))
}

/// Copies a folder of files and folders.
fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    layout::create(to)?;
    for entry in std::fs::read_dir(from).with_context(|| format!("failed to read {}", from.display()))? {
        let entry = entry.with_context(|| format!("failed to read {}", from.display()))?;
        let target = to.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target).with_context(|| format!("failed to copy to {}", target.display()))?;
        }
    }
    Ok(())
}

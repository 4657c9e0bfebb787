//! The images of the cluster's own registry, built from Debian's packages under the names of public images.

mod content;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testcluster::registry::Store;
use xxhash_rust::xxh3::Xxh3Default;

use super::layout::{self, Layout};
use super::ui::Ui;
use super::{packages, registry};

/// The image that holds each pod's namespaces.
pub(crate) const PAUSE: &str = "registry.k8s.io/pause:3.10";

/// An image: its configuration, the content of its root folder, and its names in the registry.
struct Image {
    name: &'static str,
    config: fn() -> Value,
    fill: fn(&Path, &Path) -> Result<()>,
    tags: &'static [&'static str],
}

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The tags are those that people use and those in the samples, not the versions in Debian.
const IMAGES: [Image; 3] = [
    Image {
        name: "pause",
        config: || json!({ "User": "65535:65535", "Entrypoint": ["/pause"] }),
        fill: content::pause,
        tags: &[PAUSE],
    },
    Image {
        name: "busybox",
        config: || json!({ "Env": [PATH], "Cmd": ["sh"] }),
        fill: content::busybox,
        tags: &["busybox:latest", "busybox:stable", "busybox:1.36", "busybox:1.37"],
    },
    // As the public image: it starts as root, listens on port 80, logs to stdout, and ends gracefully.
    Image {
        name: "nginx",
        config: || {
            json!({ "Env": [PATH], "Cmd": ["nginx", "-g", "daemon off;"], "ExposedPorts": { "80/tcp": {} },
                "StopSignal": "SIGQUIT" })
        },
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

/// Adds the images to the cluster's registry; they are built once for all clusters.
pub(crate) fn ensure(layout: &Layout, ui: &Ui) -> Result<()> {
    let filled = layout.at("registry/filled");
    if filled.exists() {
        return Ok(());
    }
    let seed = seed_dir(layout);
    if !seed.exists() {
        make(layout, &seed, ui)?;
    }
    copy_tree(&seed, &layout.dir("registry")?)?;
    fs::write(&filled, "").with_context(|| format!("failed to write {}", filled.display()))
}

/// Returns whether the images must be built first.
pub(crate) fn missing(layout: &Layout) -> bool {
    !seed_dir(layout).exists()
}

fn make(layout: &Layout, seed: &Path, ui: &Ui) -> Result<()> {
    packages::ensure_compiler(ui)?;
    // Built under another name and renamed, so that an incomplete one is never used.
    let scratch = scratch(layout)?;
    let new = scratch.path().join("store");
    let store = Store::new(&new);
    for image in &IMAGES {
        ui.step(&format!("making the image {}", image.name), || {
            make_one(layout, &store, image)
        })
        .with_context(|| format!("failed to make the image {}", image.name))?;
    }
    if !seed.exists() {
        fs::rename(&new, seed).with_context(|| format!("failed to keep the images in {}", seed.display()))?;
    }
    Ok(())
}

fn make_one(layout: &Layout, store: &Store, image: &Image) -> Result<()> {
    let scratch = scratch(layout)?;
    let root = scratch.path().join("root");
    layout::create(&root)?;
    (image.fill)(&root, scratch.path())?;
    let tags: Vec<String> = image.tags.iter().map(|tag| registry::place(tag)).collect();
    store
        .add_image(&[pack(&root)?], (image.config)(), &tags)
        .context("failed to write the image")
}

/// Packs a folder as the layer of an image. All files belong to root.
pub(crate) fn pack(root: &Path) -> Result<Vec<u8>> {
    let mut layer = tar::Builder::new(Vec::new());
    layer.follow_symlinks(false);
    layer.mode(tar::HeaderMode::Deterministic);
    layer.append_dir_all("", root).context("failed to pack the image")?;
    if root.join("tmp").is_dir() {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o1777);
        header.set_size(0);
        layer
            .append_data(&mut header, "tmp/", std::io::empty())
            .context("failed to pack the image")?;
    }
    layer.into_inner().context("failed to pack the image")
}

/// The folder of the images; its name changes with all of their inputs except Debian's packages.
fn seed_dir(layout: &Layout) -> PathBuf {
    let mut hash = Xxh3Default::new();
    for image in &IMAGES {
        hash.update((image.config)().to_string().as_bytes());
        image.tags.iter().for_each(|tag| hash.update(tag.as_bytes()));
    }
    for (_, text) in content::FILES {
        hash.update(text.as_bytes());
    }
    layout.cache.join("images").join(format!("oci-{:016x}", hash.digest()))
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
    for entry in fs::read_dir(from).with_context(|| format!("failed to read {}", from.display()))? {
        let entry = entry.with_context(|| format!("failed to read {}", from.display()))?;
        let target = to.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("failed to copy to {}", target.display()))?;
        }
    }
    Ok(())
}

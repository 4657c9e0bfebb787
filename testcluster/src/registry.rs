//! A read-only registry over a folder of images. Images are added by writing files, so a push needs no port.
//!
//! `blobs/sha256/` has all blobs by digest. `tags/NAME/TAG` has the digest of a manifest.

mod import;
mod serve;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub use serve::{Credentials, serve};

/// The media type of a manifest.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of a configuration.
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// The media type of a layer that is not compressed.
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// A folder of images.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// A blob of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// `sha256:` and the hash in hexadecimal.
    pub digest: String,
    /// Its length in bytes.
    pub size: u64,
}

impl Store {
    /// Returns the store in `root`, which may not exist.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the path of a blob, or `None` for a text that is not a digest.
    #[must_use]
    pub fn blob(&self, digest: &str) -> Option<PathBuf> {
        let hash = digest.strip_prefix("sha256:")?;
        let valid = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        valid.then(|| self.root.join("blobs/sha256").join(hash))
    }

    /// Returns the digest of the manifest that a tag or a digest names.
    #[must_use]
    pub fn manifest(&self, name: &str, reference: &str) -> Option<String> {
        if self.blob(reference).is_some_and(|blob| blob.exists()) {
            return Some(reference.to_owned());
        }
        let text = fs::read_to_string(self.tag(name, reference)?).ok()?;
        Some(text.trim().to_owned())
    }

    /// Returns the file of a tag, or `None` for names that would leave the folder.
    fn tag(&self, name: &str, tag: &str) -> Option<PathBuf> {
        let plain = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        (name.split('/').all(plain) && plain(tag)).then(|| self.root.join("tags").join(name).join(tag))
    }

    /// Adds a blob.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn add(&self, bytes: &[u8]) -> io::Result<Blob> {
        let digest = digest(bytes);
        let path = self.blob(&digest).ok_or_else(|| io::Error::other("invalid digest"))?;
        if !path.exists() {
            write(&path, bytes)?;
        }
        Ok(Blob {
            digest,
            size: bytes.len() as u64,
        })
    }

    /// Adds an image from its layers, which are tar archives, and its configuration (`Cmd`, `Env`, …). Tags it.
    ///
    /// # Errors
    /// When it can't be written, or a tag is invalid.
    pub fn add_image(&self, layers: &[Vec<u8>], config: Value, tags: &[String]) -> io::Result<()> {
        let layers = layers
            .iter()
            .map(|layer| self.add(layer))
            .collect::<io::Result<Vec<_>>>()?;
        let ids: Vec<&str> = layers.iter().map(|layer| layer.digest.as_str()).collect();
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": { "type": "layers", "diff_ids": ids },
        });
        self.add_manifest(&config.to_string().into_bytes(), &layers, tags)
    }

    fn add_manifest(&self, config: &[u8], layers: &[Blob], tags: &[String]) -> io::Result<()> {
        let config = self.add(config)?;
        let descriptor =
            |kind: &str, blob: &Blob| json!({ "mediaType": kind, "digest": blob.digest, "size": blob.size });
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIG, &config),
            "layers": layers.iter().map(|layer| descriptor(LAYER, layer)).collect::<Vec<_>>(),
        });
        let manifest = self.add(manifest.to_string().as_bytes())?;
        tags.iter().try_for_each(|tag| self.set_tag(tag, &manifest.digest))
    }

    /// Tags a manifest with `NAME:TAG`.
    fn set_tag(&self, image: &str, digest: &str) -> io::Result<()> {
        let file = image.rsplit_once(':').and_then(|(name, tag)| self.tag(name, tag));
        let file = file.ok_or_else(|| io::Error::other(format!("invalid image name {image:?}")))?;
        write(&file, digest.as_bytes())
    }
}

/// Returns the digest of a blob.
fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes)
        .iter()
        .fold("sha256:".to_owned(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Writes a file under another name and renames it, so that readers never see an incomplete file.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Images are not secret: the cluster of another user may use the same cache.
    let readable = fs::Permissions::from_mode(0o644);
    let mut new = tempfile::Builder::new().permissions(readable).tempfile_in(folder)?;
    io::Write::write_all(&mut new, bytes)?;
    new.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_leave_the_folder() {
        let store = Store::new("/store");
        assert_eq!(
            store.tag("library/nginx", "1.29"),
            Some("/store/tags/library/nginx/1.29".into())
        );
        for (name, tag) in [
            ("..", "a"),
            ("a/../b", "c"),
            ("a", ".."),
            ("", "a"),
            ("a//b", "c"),
            ("a", "b/c"),
        ] {
            assert_eq!(store.tag(name, tag), None, "{name}:{tag}");
        }
        assert_eq!(store.blob("sha256:../../etc/passwd"), None);
    }

    #[test]
    fn image_is_found_by_tag_and_by_digest() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        store
            .add_image(
                &[b"layer".to_vec()],
                json!({}),
                &["library/a:1".into(), "library/a:2".into()],
            )
            .unwrap();
        let digest = store.manifest("library/a", "1").unwrap();
        assert_eq!(store.manifest("library/a", "2"), Some(digest.clone()));
        assert_eq!(store.manifest("library/a", &digest), Some(digest));
        assert_eq!(store.manifest("library/a", "3"), None);
    }
}

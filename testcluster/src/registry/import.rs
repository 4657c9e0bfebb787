//! Archives of `docker save` and `buildah push docker-archive:`.

use std::collections::BTreeMap;
use std::io::{self, Read};

use serde::Deserialize;

use super::{Blob, Store, digest};

/// An entry of the archive's `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    config: String,
    layers: Vec<String>,
}

impl Store {
    /// Adds the first image of an archive under `image`, as `NAME:TAG`.
    ///
    /// # Errors
    /// When the archive can't be read, or has no image.
    pub fn import(&self, archive: impl Read, image: &str) -> io::Result<()> {
        let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut links: BTreeMap<String, String> = BTreeMap::new();
        for entry in tar::Archive::new(archive).entries()? {
            let mut entry = entry?;
            let name = entry.path()?.display().to_string();
            if let Some(target) = entry.link_name()? {
                // Older versions of docker link layers that images share.
                links.insert(name, target.display().to_string());
            } else if entry.header().entry_type().is_file() {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                files.insert(name, bytes);
            }
        }
        let file = |name: &str| {
            let target = links.get(name).map(|link| link.trim_start_matches("../"));
            files
                .get(name)
                .or_else(|| files.get(target?))
                .ok_or_else(|| io::Error::other(format!("the archive has no file {name}")))
        };
        let entries: Vec<Entry> = serde_json::from_slice(file("manifest.json")?)?;
        let entry = entries
            .first()
            .ok_or_else(|| io::Error::other("the archive has no image"))?;
        let layers = entry
            .layers
            .iter()
            .map(|name| self.add(file(name)?))
            .collect::<io::Result<Vec<Blob>>>()?;
        let config = file(&entry.config)?;
        matches(config, &layers)?;
        self.add_manifest(config, &layers, &[image.to_owned()])
    }
}

/// Checks that the layers are those that the configuration lists, uncompressed.
fn matches(config: &[u8], layers: &[Blob]) -> io::Result<()> {
    let value: serde_json::Value = serde_json::from_slice(config)?;
    let ids: Vec<&str> = value["rootfs"]["diff_ids"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(serde_json::Value::as_str)
        .collect();
    if layers.iter().map(|layer| layer.digest.as_str()).eq(ids) {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "the layers of the image {} are not those of its configuration",
            digest(config)
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn archive_becomes_an_image() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let config = format!(r#"{{"rootfs":{{"diff_ids":["{}"]}}}}"#, digest(b"layer"));
        let manifest = br#"[{"Config":"c.json","RepoTags":["a:b"],"Layers":["l.tar"]}]"#;
        let tar = archive(&[
            ("manifest.json", manifest),
            ("c.json", config.as_bytes()),
            ("l.tar", b"layer"),
        ]);
        store.import(&tar[..], "app:v1").unwrap();
        assert!(store.manifest("app", "v1").is_some());

        let other = archive(&[
            ("manifest.json", manifest),
            ("c.json", config.as_bytes()),
            ("l.tar", b"other"),
        ]);
        assert!(store.import(&other[..], "app:v2").is_err());
        assert_eq!(store.manifest("app", "v2"), None);
        assert!(store.import(&archive(&[])[..], "app:v3").is_err());
    }
}

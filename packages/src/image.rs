//! The operator's image, as the manifests name it.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::source::{self, Manifest};
use crate::text::Text;

/// An image of a version: `registry.example.com/operator:v1`, and in a release `@sha256:…` behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image<'a> {
    pub repository: &'a str,
    pub tag: &'a str,
    /// Such as `sha256:…`. A container runtime pulls the image with this digest, whatever the tag refers to.
    pub digest: Option<&'a str>,
}

impl<'a> Image<'a> {
    /// Reads the image of the operator's Deployment.
    pub(crate) fn of(operator: &'a Manifest) -> Result<Self> {
        operator.object["spec"]["template"]["spec"]["containers"][0]["image"]
            .as_str()
            .and_then(Self::parse)
            .with_context(|| format!("config/{} has no image with a tag", operator.path.display()))
    }

    fn parse(image: &'a str) -> Option<Self> {
        let (name, digest) = match image.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (image, None),
        };
        let (repository, tag) = name.rsplit_once(':')?;
        // What stands behind the last colon of `localhost:5000/operator` is no tag.
        (!tag.contains('/')).then_some(Self {
            repository,
            tag,
            digest,
        })
    }
}

/// Writes the digest of the operator's image behind its tag in the manifests of `config`, in the place of an earlier one.
///
/// A tag can be moved to another image, and a digest can't: what a release installs is what was built for it.
///
/// # Errors
/// When `digest` is none of SHA-256, or the manifests don't have this version's image.
pub fn pin(config: &Path, digest: &str) -> Result<()> {
    ensure!(
        is_digest(digest),
        "{digest:?} is no digest of an image; one is sha256: and 64 digits of 0-9a-f"
    );
    let manifests = source::read(config, "default")?;
    let operator = source::operator(&manifests)?;
    let Image { repository, tag, .. } = Image::of(operator)?;
    let path = config.join(&operator.path);
    let mut text = Text::new(&source::text(&path)?);
    text.replace(
        "spec.template.spec.containers.0.image",
        &format!("image: {repository}:{tag}@{digest}"),
    )?;
    std::fs::write(&path, text.finish()).with_context(|| format!("failed to write {}", path.display()))
}

fn is_digest(digest: &str) -> bool {
    digest
        .strip_prefix("sha256:")
        .is_some_and(|hash| hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_is_read_with_and_without_a_digest() {
        let image = |digest| {
            Some(Image {
                repository: "localhost:5000/operator",
                tag: "v1",
                digest,
            })
        };
        assert_eq!(Image::parse("localhost:5000/operator:v1"), image(None));
        assert_eq!(
            Image::parse("localhost:5000/operator:v1@sha256:ab"),
            image(Some("sha256:ab"))
        );
        for untagged in ["localhost:5000/operator", "operator", "operator@sha256:ab"] {
            assert_eq!(Image::parse(untagged), None, "{untagged}");
        }
    }

    #[test]
    fn only_a_whole_digest_of_sha256_is_one() {
        assert!(is_digest(&format!("sha256:{}", "0a".repeat(32))));
        for bad in [
            String::new(),
            "0a".repeat(32),
            format!("sha256:{}", "0a".repeat(31)),
            format!("sha256:{}", "0A".repeat(32)),
            format!("sha512:{}", "0a".repeat(32)),
            format!("sha256:{}\n", "0a".repeat(32)),
        ] {
            assert!(!is_digest(&bad), "{bad:?}");
        }
    }
}

//! The operator's image in the manifests.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// An image with a version: `registry.example.com/operator:v1`, and in a release with `@sha256:…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image<'a> {
    pub repository: &'a str,
    pub tag: &'a str,
    /// Such as `sha256:…`. A container runtime pulls the image with this digest, whatever the tag refers to.
    pub digest: Option<&'a str>,
}

impl<'a> Image<'a> {
    /// Reads the image of the operator's Deployment, which is in the file `path` below `config/`.
    pub(crate) fn of(operator: &'a Value, path: &Path) -> Result<Self> {
        operator["spec"]["template"]["spec"]["containers"][0]["image"]
            .as_str()
            .and_then(Self::parse)
            .with_context(|| format!("config/{} has no image with a tag", path.display()))
    }

    fn parse(image: &'a str) -> Option<Self> {
        let (name, digest) = match image.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (image, None),
        };
        let (repository, tag) = name.rsplit_once(':')?;
        // The text after the last colon of `localhost:5000/operator` is not a tag.
        (!tag.contains('/')).then_some(Self {
            repository,
            tag,
            digest,
        })
    }
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
}

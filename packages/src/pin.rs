//! Pins the operator's image by digest in the manifests of a release.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::image::Image;
use crate::source;
use crate::text::Text;

/// Writes the digest of the operator's image after its tag in the manifests of `config`, and replaces an earlier digest.
///
/// A tag can be moved to another image, but a digest can't: a release installs the image that was built for it.
///
/// # Errors
/// When `digest` is not a SHA-256 digest, or the manifests don't have this version's image.
pub fn pin(config: &Path, digest: &str) -> Result<()> {
    ensure!(
        is_digest(digest),
        "invalid digest {digest:?}: must be sha256: and 64 digits of 0-9a-f"
    );
    let manifests = source::read(config, "default")?;
    let operator = source::operator(&manifests)?;
    let Image { repository, tag, .. } = operator.image()?;
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
    fn only_complete_sha256_digests_are_valid() {
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

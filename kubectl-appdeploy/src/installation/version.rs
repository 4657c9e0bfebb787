//! Compares the version of the plugin with the version of the operator.

/// The version of this plugin, as an image tag and a release have it.
pub const PLUGIN: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// Returns a message if the plugin and the operator are of different releases.
pub fn skew(operator: &str) -> Option<String> {
    // A digest or a word such as `latest` or `dev` can't be compared.
    let is_release = operator
        .strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    (is_release && operator != PLUGIN)
        .then(|| format!("the operator is {operator}, this plugin is {PLUGIN}: use the same version of both"))
}

/// Whether a tag names a release that came after this one.
pub fn is_newer(tag: &str) -> bool {
    let numbers = |tag: &str| -> Option<Vec<u64>> {
        // A suffix after a dash is a pre-release.
        let release = tag.strip_prefix('v')?.split(['-', '+']).next()?;
        release.split('.').map(|number| number.parse().ok()).collect()
    };
    numbers(tag).is_some_and(|other| Some(other) > numbers(PLUGIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert!(is_newer("v0.10.0") && is_newer("v9.9.9-rc1") && is_newer("v1.0"));
        for other in [PLUGIN, "v0.0.9", "latest", "v", "", "sha256:abc"] {
            assert!(!is_newer(other), "{other}");
        }
    }

    #[test]
    fn only_a_release_can_be_of_another_version() {
        assert_eq!(skew(PLUGIN), None);
        assert_eq!(skew("latest"), None);
        assert_eq!(skew("sha256:abc"), None);
        assert!(skew("v9.9.9").unwrap().contains("v9.9.9"));
    }
}

//! The checksums of crates, which are only in Cargo's lock file.

use std::collections::BTreeMap;

/// Checksums by `pkg:cargo/name@version`.
pub type Checksums = BTreeMap<String, String>;

/// Reads the checksums in a `Cargo.lock`. A crate of this workspace has none.
pub fn checksums(lock: &str) -> Checksums {
    let found = lock.split("[[package]]").filter_map(|package| {
        let value = |key: &str| {
            let mut lines = package.lines();
            lines.find_map(|line| {
                Some(
                    line.strip_prefix(key)?
                        .strip_prefix(" = \"")?
                        .trim_end_matches('"')
                        .to_owned(),
                )
            })
        };
        let name = format!("pkg:cargo/{}@{}", value("name")?, value("version")?);
        Some((name, value("checksum")?))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_keyed_by_name_and_version() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.2.0\"\nsource = \"r\"\nchecksum = \"ab\"\n\
                    dependencies = [\n \"b\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\n";
        assert_eq!(
            checksums(lock),
            Checksums::from([("pkg:cargo/a@1.2.0".to_owned(), "ab".to_owned())])
        );
    }
}

//! Reproducible archives: every byte depends only on the content and the given date.

use std::io::{Cursor, Write as _};

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// A file in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path, with slashes.
    pub name: String,
    /// Its content.
    pub content: Vec<u8>,
    /// Whether it is executable.
    pub is_program: bool,
}

impl Entry {
    /// Returns its permissions: it is readable for everyone.
    fn mode(&self) -> u32 {
        if self.is_program { 0o755 } else { 0o644 }
    }
}

/// Returns a `.tar.gz`, whose files have the given date and belong to root.
///
/// # Errors
/// When a name is too long.
pub fn tar_gz(entries: &[Entry], date: Timestamp) -> Result<Vec<u8>> {
    let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut tar = tar::Builder::new(gzip);
    for entry in entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(u64::try_from(entry.content.len())?);
        header.set_mode(entry.mode());
        header.set_mtime(u64::try_from(date.as_second()).context("the date is before 1970")?);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, &entry.name, entry.content.as_slice())
            .with_context(|| format!("failed to pack {}", entry.name))?;
    }
    Ok(tar.into_inner()?.finish()?)
}

/// Returns a `.zip`, whose files have the given date.
///
/// # Errors
/// When the date is before 1980, which the format does not support.
pub fn zip(entries: &[Entry], date: Timestamp) -> Result<Vec<u8>> {
    let date = date.to_zoned(TimeZone::UTC);
    let part = |value: i8| u8::try_from(value);
    let date = DateTime::from_date_and_time(
        u16::try_from(date.year())?,
        part(date.month())?,
        part(date.day())?,
        part(date.hour())?,
        part(date.minute())?,
        part(date.second())?,
    )
    .context("a zip has no dates before 1980")?;
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for entry in entries {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(date)
            .unix_permissions(entry.mode());
        zip.start_file(entry.name.as_str(), options)
            .with_context(|| format!("failed to pack {}", entry.name))?;
        zip.write_all(&entry.content)?;
    }
    Ok(zip.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn entries() -> [Entry; 2] {
        [("bin/program", true), ("LICENSE", false)].map(|(name, is_program)| Entry {
            name: name.to_owned(),
            content: name.repeat(100).into_bytes(),
            is_program,
        })
    }

    fn date() -> Timestamp {
        "2026-03-01T12:30:02Z".parse().unwrap()
    }

    #[test]
    fn tar_has_its_entries_and_is_reproducible() {
        let packed = tar_gz(&entries(), date()).unwrap();
        assert_eq!(packed, tar_gz(&entries(), date()).unwrap());
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let found: Vec<_> = tar
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                let header = entry.header();
                assert_eq!(header.mtime().unwrap(), u64::try_from(date().as_second()).unwrap());
                assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
                let is_program = header.mode().unwrap() == 0o755;
                let name = entry.path().unwrap().to_str().unwrap().to_owned();
                Entry {
                    name,
                    content,
                    is_program,
                }
            })
            .collect();
        assert_eq!(found, entries());
    }

    #[test]
    fn zip_has_its_entries_and_is_reproducible() {
        let packed = zip(&entries(), date()).unwrap();
        assert_eq!(packed, zip(&entries(), date()).unwrap());
        let mut archive = zip::ZipArchive::new(Cursor::new(packed)).unwrap();
        for wanted in entries() {
            let mut file = archive.by_name(&wanted.name).unwrap();
            let mut content = Vec::new();
            file.read_to_end(&mut content).unwrap();
            assert_eq!(content, wanted.content);
            assert_eq!(file.last_modified().unwrap().to_string(), "2026-03-01 12:30:02");
        }
    }
}

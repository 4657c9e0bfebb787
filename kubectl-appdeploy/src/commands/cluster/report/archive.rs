//! A `.tar.gz` that only its owner may read.

use std::io;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;

/// A file in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path, with slashes.
    pub name: String,
    /// The content of the file.
    pub content: String,
}

/// Packs files into a folder of this name.
pub fn pack(folder: &str, entries: &[Entry], date: Timestamp) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(entry.content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(date.as_second()).unwrap_or_default());
        let name = format!("{folder}/{}", entry.name);
        tar.append_data(&mut header, name, entry.content.as_bytes())?;
    }
    tar.into_inner()?.finish()
}

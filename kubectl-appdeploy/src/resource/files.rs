//! The `-f` flag of commands that read files.

use std::path::PathBuf;

use clap::Args;
use crd::Kind;
use kube::api::DynamicObject;
use model::NextCommand;

use crate::cluster::kind_info;
use crate::error::{Error, Result};
use crate::resource::manifest::Manifest;
use crate::resource::manifest_file;

/// `-f`.
#[derive(Clone, Debug, Default, Args)]
pub struct Files {
    /// File or folder with {many}, or - for stdin; can be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Files {
    /// Whether no file is named.
    pub const fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the objects of a kind that stand in the files, checked. Any other is an error. `asked` is the namespace that was
    /// asked for, `usual` the one of who asked for none.
    pub fn read(&self, kind: Kind, asked: Option<&str>, usual: &str) -> Result<Vec<DynamicObject>> {
        let words = kind_info::of(kind);
        let mut objects = Vec::new();
        for document in manifest_file::read(&self.files, false)? {
            let place = document.place.clone();
            let manifest = Manifest::of(document, asked, usual)?;
            let other = manifest.kind;
            if other != words {
                return Err(
                    Error::usage(format!("{place}: {} is {}, not {}", manifest.name, other.an, words.an))
                        .next(NextCommand::from(other.command).and("--help")),
                );
            }
            let object = serde_json::from_value(manifest.object);
            objects.push(object.map_err(|source| Error::usage(format!("{place}: {source}")))?);
        }
        if objects.is_empty() {
            return Err(Error::usage(format!("no {} found in the input", words.many)));
        }
        Ok(objects)
    }
}

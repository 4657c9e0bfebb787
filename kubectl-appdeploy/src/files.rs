//! `-f`, for verbs that look at what stands in files.

use std::path::PathBuf;

use clap::Args;
use crd::Kind;
use kube::api::DynamicObject;
use model::NextCommand;

use crate::apply::{self, Manifest};
use crate::error::{Error, Result};
use crate::words;

/// `-f`.
#[derive(Clone, Debug, Default, Args)]
pub struct Files {
    /// File with {many}, a folder of such files, or - for the standard input; may be given more than once
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
        let words = words::of(kind);
        let mut objects = Vec::new();
        for document in apply::read(&self.files, false)? {
            let place = document.place.clone();
            let manifest = Manifest::of(document, asked, usual)?;
            if manifest.kind != kind {
                let other = words::of(manifest.kind);
                return Err(
                    Error::usage(format!("{place}: {} is {}, not {}", manifest.name, other.an, words.an))
                        .next(NextCommand::from(other.command).and("--help")),
                );
            }
            let object = serde_json::from_value(manifest.object);
            objects.push(object.map_err(|source| Error::usage(format!("{place}: {source}")))?);
        }
        if objects.is_empty() {
            return Err(Error::usage(format!("there are no {} in what was given", words.many)));
        }
        Ok(objects)
    }
}

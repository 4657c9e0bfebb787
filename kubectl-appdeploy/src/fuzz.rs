//! Fuzzes the input that the plugin reads: kubeconfigs and manifests. `make faults` runs for longer; inputs that once failed
//! are next to the seeds in tests/fuzz.

use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;

use crate::cluster::connection::KubeArgs;
use crate::error::{Error, Result};
use crate::resource::manifest::Manifest;
use crate::resource::manifest_file::read;
use crate::terminal::ui::RenderOptions;

/// The secret in the seeds.
const SECRET: &str = "s3cr3t";

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz").join(name)
}

/// Returns the class of a message: its words without names and numbers.
fn words(error: &Error) -> String {
    let text = error.text(&RenderOptions::default());
    assert!(!text.contains(SECRET), "it prints a secret: {text}");
    let steers = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(steers), "it could steer a terminal: {text:?}");
    let is_word = |word: &&str| word.len() < 16 && word.chars().all(|c| c.is_ascii_alphabetic() || ".,:".contains(c));
    text.split_whitespace().filter(is_word).collect::<Vec<_>>().join(" ")
}

fn word<T>(result: Result<T>) -> String {
    result.map_or_else(|error| words(&error), |_| "taken".to_owned())
}

/// Whether the secret is also used as a name: names are printed, and so is a duplicate key.
fn names_the_secret(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    if text.contains(&format!("{SECRET}:")) {
        return true;
    }
    let Ok(config) = Kubeconfig::from_yaml(&text) else {
        return false;
    };
    let contexts = config.contexts.into_iter().filter_map(|named| named.context);
    contexts
        .flat_map(|context| [Some(context.cluster), context.user])
        .chain([config.current_context])
        .flatten()
        .any(|name| name.contains(SECRET))
}

#[test]
fn any_kubeconfig_is_parsed_or_rejected_without_a_secret() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let arguments = KubeArgs {
        kubeconfig: Some(path.clone()),
        ..KubeArgs::default()
    };
    let tried = faults::fuzz::run(&corpus("kubeconfig"), |bytes| {
        if names_the_secret(bytes) {
            return "named".to_owned();
        }
        std::fs::write(&path, bytes).unwrap();
        word(runtime.block_on(arguments.config()))
    });
    assert!(tried.unwrap().words > 3);
}

#[test]
fn any_manifest_is_parsed_or_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("apps.yaml");
    let tried = faults::fuzz::run(&corpus("manifests"), |bytes| {
        std::fs::write(&path, bytes).unwrap();
        match read(std::slice::from_ref(&path), false) {
            Ok(documents) => documents
                .into_iter()
                .take(5)
                .map(|document| word(Manifest::of(document, None, "default")))
                .collect(),
            Err(error) => vec![words(&error)],
        }
    });
    assert!(tried.unwrap().words > 3);
}

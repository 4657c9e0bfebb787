//! Where documents come from: files, folders, the standard input.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use model::{NextCommand, command};
use serde_json::Value;

use crate::error::{Error, Result, system_error};
use crate::output::yaml;

/// The extensions of files that are read in a folder.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// What the standard input is called.
const STDIN: &str = "standard input";

/// A document and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The file, and of several in it, the number.
    pub place: String,
    /// How kubectl itself would apply the file.
    pub command: NextCommand,
    /// Its content.
    pub value: Value,
}

/// Reads all documents of files and folders; the items of a list are documents of their own.
pub fn read(files: &[PathBuf], recursive: bool) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    for file in files {
        if file.as_os_str() == "-" {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .map_err(|source| unreadable(STDIN, &source))?;
            documents.extend(of_text(STDIN, &text)?);
            continue;
        }
        for file in files_of(file, recursive)? {
            let place = file.display().to_string();
            let text = std::fs::read_to_string(&file).map_err(|source| unreadable(&place, &source))?;
            documents.extend(of_text(&place, &text)?);
        }
    }
    Ok(documents)
}

fn unreadable(place: &str, source: &io::Error) -> Error {
    let why = match source.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        io::ErrorKind::InvalidData => "it is not a text file".to_owned(),
        _ => system_error(source),
    };
    Error::usage(format!("cannot read {place}: {why}: nothing was changed"))
}

fn files_of(path: &Path, recursive: bool) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let wrong = |source: &io::Error| unreadable(&path.display().to_string(), source);
    let entries = std::fs::read_dir(path).map_err(|source| wrong(&source))?;
    let mut entries = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(|source| wrong(&source))?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        let is_read = entry
            .extension()
            .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known));
        if entry.is_dir() {
            // As in kubectl, links to folders are not followed, because they may form a loop.
            if recursive && !entry.is_symlink() {
                files.extend(files_of(&entry, recursive)?);
            }
        } else if is_read {
            files.push(entry);
        }
    }
    Ok(files)
}

fn of_text(place: &str, text: &str) -> Result<Vec<Document>> {
    let values = yaml::read(text).map_err(|error| {
        Error::usage(format!("{place} is neither YAML nor JSON: nothing was done")).why(error.sentence().to_owned())
    })?;
    let mut all = Vec::new();
    for value in values.into_iter().filter(|value| !value.is_null()) {
        match value["kind"].as_str() {
            Some("List" | "AppDeployList" | "PodSetList") => {
                all.extend(value["items"].as_array().cloned().unwrap_or_default());
            }
            _ => all.push(value),
        }
    }
    let count = all.len();
    let command = match place {
        STDIN => "kubectl apply -f -".into(),
        file => command!("kubectl apply -f {}", file),
    };
    let place = |index: usize| match count {
        1 => place.to_owned(),
        _ => format!("{place}, document {}", index + 1),
    };
    let documents = all.into_iter().enumerate();
    Ok(documents
        .map(|(index, value)| Document {
            place: place(index),
            command: command.clone(),
            value,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn links_to_folders_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::os::unix::fs::symlink(folder.path(), inner.join("back")).unwrap();
        std::fs::write(inner.join("app.yaml"), "").unwrap();
        std::os::unix::fs::symlink(inner.join("app.yaml"), inner.join("link.yaml")).unwrap();
        let files = files_of(folder.path(), true).unwrap();
        assert_eq!(files, [inner.join("app.yaml"), inner.join("link.yaml")]);
    }

    #[test]
    fn lists_and_several_documents_are_split() {
        let text =
            "kind: A\n---\n# nothing\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n---\nkind: BlackList\nitems: []\n";
        let documents = of_text("x.yaml", text).unwrap();
        let said: Vec<String> = documents
            .iter()
            .map(|document| format!("{} {}", document.place, document.value["kind"]))
            .collect();
        assert_eq!(
            said,
            [
                "x.yaml, document 1 \"A\"",
                "x.yaml, document 2 \"B\"",
                "x.yaml, document 3 \"C\"",
                "x.yaml, document 4 \"BlackList\""
            ]
        );
        assert_eq!(of_text("x.json", r#"{"kind": "A"}"#).unwrap()[0].place, "x.json");
        // The command can be pasted.
        for (place, command) in [
            ("x.json", "kubectl apply -f x.json"),
            ("my x.json", "kubectl apply -f 'my x.json'"),
            (STDIN, "kubectl apply -f -"),
        ] {
            assert_eq!(of_text(place, "kind: A").unwrap()[0].command.as_str(), command);
        }
    }

    #[test]
    fn manifests_of_a_folder_are_read_and_with_a_flag_recursively() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("below")).unwrap();
        for (file, kind) in [("b.yml", "B"), ("a.yaml", "A"), ("c.txt", "X"), ("below/d.json", "D")] {
            std::fs::write(folder.path().join(file), format!("{{\"kind\": \"{kind}\"}}")).unwrap();
        }
        let kinds = |recursive| -> Vec<String> {
            let read = read(&[folder.path().to_owned()], recursive).unwrap();
            read.iter().map(|document| document.value["kind"].to_string()).collect()
        };
        assert_eq!(kinds(false), ["\"A\"", "\"B\""]);
        assert_eq!(kinds(true), ["\"A\"", "\"B\"", "\"D\""]);
    }
}

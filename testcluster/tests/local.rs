//! The command, with folders that are not its own.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

#[expect(clippy::expect_used, reason = "a helper of tests")]
fn testcluster(state: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_testcluster"))
        .arg("--state-dir")
        .arg(state)
        .args(arguments)
        .output()
        .expect("testcluster starts")
}

#[test]
fn down_does_not_delete_a_folder_that_up_did_not_create() {
    let folder = tempfile::tempdir().unwrap();
    let photo = folder.path().join("photo.jpg");
    fs::write(&photo, "").unwrap();
    let output = testcluster(folder.path(), &["down"]);
    assert!(photo.exists(), "the file was deleted");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("not from this program"));
}

#[test]
fn up_does_not_write_into_a_folder_of_others() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("photo.jpg"), "").unwrap();
    let output = testcluster(folder.path(), &["up", "--fake"]);
    assert!(!output.status.success());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

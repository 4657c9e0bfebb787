//! The program that kubectl calls for completion: `kubectl_complete-appdeploy` in `PATH`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::error::{Error, Result, system_error};
use crate::terminal::ui::Ui;

/// The name and the content of the program that kubectl calls.
#[cfg(not(windows))]
const PROGRAM: (&str, &str) = ("kubectl_complete-appdeploy", include_str!("kubectl_complete-appdeploy"));
#[cfg(windows)]
const PROGRAM: (&str, &str) = (
    "kubectl_complete-appdeploy.cmd",
    include_str!("kubectl_complete-appdeploy.cmd"),
);

/// Writes it to a folder, or next to the plugin.
pub fn run(folder: Option<PathBuf>, ui: &mut Ui) -> Result<()> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folder = folder.or_else(|| plugin_folder(&path)).ok_or_else(|| {
        Error::failed("the plugin is in no folder of PATH")
            .why("name a folder of PATH")
            .next("kubectl appdeploy completion --install-kubectl=DIR")
    })?;
    let file = folder.join(PROGRAM.0);
    put(&file).map_err(|source| {
        Error::failed(format!("cannot write {}: {}", file.display(), system_error(&source)))
            .why("name a folder of PATH that is yours")
            .next("kubectl appdeploy completion --install-kubectl=DIR")
    })?;
    ui.print(&format!("{} written", file.display()))?;
    if !env::split_paths(&path).any(|one| one == folder) {
        ui.warn(&format!(
            "{} is not in PATH: kubectl will not find it there",
            folder.display()
        ));
    }
    ui.eprintln("It works wherever kubectl itself is completed, from kubectl 1.26 on; in bash:");
    ui.next("source <(kubectl completion bash)");
    Ok(())
}

/// Returns the folder of `PATH` in which kubectl finds the plugin. Krew creates a link there, so the path of the executable is not
/// enough.
fn plugin_folder(path: &OsStr) -> Option<PathBuf> {
    let name = format!("kubectl-appdeploy{}", env::consts::EXE_SUFFIX);
    env::split_paths(path).find(|folder| folder.join(&name).is_file())
}

fn put(file: &Path) -> io::Result<()> {
    fs::write(file, PROGRAM.1)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

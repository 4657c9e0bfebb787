//! An object in an editor, which here is a script.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use terminal::{CTRL_C, Terminal};
use testcluster::PooledControlPlane;

use crate::plugin::{Plugin, Run, conditions, status};

struct Desk {
    cluster: PooledControlPlane,
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let (cluster, plugin) = Plugin::installed();
        plugin.run("create shop --image=nginx:1 --port=80 --env=A=1").ok();
        Self {
            cluster,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Edits the app; the script gets the file as `$1` and the number of the look as `$2`.
    fn edit(&self, script: &str, flags: &str) -> Run {
        let editor = self.folder.path().join("editor");
        let count = self.folder.path().join("count");
        let _ = std::fs::remove_file(&count);
        let head = format!(
            "set -- \"$1\" \"$(( $(cat {0} 2>/dev/null || echo 0) + 1 ))\"; echo $2 > {0}\n",
            count.display()
        );
        std::fs::write(&editor, head + script).unwrap();
        let output: Output = Command::new(env!("CARGO_BIN_EXE_kubectl-appdeploy"))
            .args(["edit", "shop"])
            .args(flags.split_whitespace())
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .env("KUBE_EDITOR", format!("sh {}", editor.display()))
            .env("TMPDIR", self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Run::from(output)
    }

    fn spec(&self, path: &str) -> String {
        let path = format!("jsonpath={{.spec{path}}}");
        self.cluster.kubectl(&["get", "appdeploy/shop", "-o", &path]).unwrap()
    }

    /// Returns the files that were left behind.
    fn kept(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        let files = files.map(|file| file.unwrap().path());
        files.filter(|path| path.extension() == Some("yaml".as_ref())).collect()
    }
}

#[test]
fn saved_edit_is_written_and_an_invalid_one_is_reopened() {
    let desk = Desk::new();
    let edited = desk.edit("sed -i s/nginx:1/nginx:2/ $1", "");
    assert_eq!(
        (edited.out.as_str(), edited.err.as_str()),
        (
            "appdeploy.appdeploy.dev/shop edited\n",
            "next: kubectl appdeploy status shop\n"
        )
    );
    assert_eq!(
        (desk.spec(".image"), desk.spec(".env[0].name")),
        ("nginx:2".into(), "A".into())
    );
    desk.edit("sed -i s/nginx:2/nginx:3/ $1", "--dry-run=server").ok();
    assert_eq!(desk.spec(".image"), "nginx:2");

    // The second time the reason is above the object, which is corrected.
    let mended = desk.edit(
        "case $2 in 1) sed -i s/port:/prot:/ $1;; *) cp $1 $1.seen; sed -i s/prot:/port:/,s/80/8080/ $1; sed -i s/prot:.*/port:\\ 8080/ $1;; esac",
        "",
    );
    assert_eq!(mended.ok(), "appdeploy.appdeploy.dev/shop edited\n");
    assert_eq!(desk.spec(".port"), "8080");
    let seen = std::fs::read_dir(desk.folder.path()).unwrap();
    let seen = seen
        .map(|file| file.unwrap().path())
        .find(|path| path.to_string_lossy().ends_with(".seen"));
    let seen = std::fs::read_to_string(seen.unwrap()).unwrap();
    assert!(
        seen.contains("#   why:  spec.prot: unknown field; did you mean port?\n"),
        "{seen}"
    );
    assert_eq!(desk.kept(), Vec::<PathBuf>::new());
}

#[test]
fn cancelled_edit_changes_nothing_and_a_failed_one_is_kept_in_a_file() {
    let desk = Desk::new();
    for script in ["true", ": > $1"] {
        let cancelled = desk.edit(script, "");
        assert_eq!(
            (cancelled.code, cancelled.out.as_str(), cancelled.err.as_str()),
            (0, "", "Edit cancelled, no changes made.\n")
        );
    }
    assert_eq!(desk.kept(), Vec::<PathBuf>::new());

    // Who gives up finds it where it was.
    let given_up = desk
        .edit("case $2 in 1) sed -i s/nginx:1/NGINX/ $1;; esac", "")
        .fails(2);
    let path = kept(&given_up);
    assert!(
        std::fs::read_to_string(&path).unwrap().contains("image: NGINX"),
        "{given_up}"
    );
    std::fs::remove_file(path).unwrap();
    // Without an edit, no file is kept.
    let refused = desk.edit("exit 3", "").fails(1);
    assert!(
        refused.contains("failed") && !refused.contains("is kept in"),
        "{refused}"
    );
    assert_eq!(desk.kept(), Vec::<PathBuf>::new());
    let broken = desk.edit("sed -i s/nginx:1/nginx:2/ $1; exit 3", "").fails(1);
    assert!(broken.contains("failed"), "{broken}");
    assert!(std::fs::read_to_string(kept(&broken)).unwrap().contains("nginx:2"));
    assert_eq!(desk.spec(".image"), "nginx:1");
}

/// What is saved was made from what the editor showed.
#[test]
fn edit_of_a_changed_object_is_rejected_and_kept_in_a_file() {
    let desk = Desk::new();
    let (open, go) = (desk.folder.path().join("open"), desk.folder.path().join("go"));
    let edited = |sed: &str, meanwhile: &dyn Fn()| {
        let _ = (std::fs::remove_file(&open), std::fs::remove_file(&go));
        let (open, go) = (open.display(), go.display());
        let script = format!("touch {open}; while [ ! -e {go} ]; do sleep 0.05; done; sed -i '{sed}' $1");
        std::thread::scope(|scope| {
            let edit = scope.spawn(|| desk.edit(&script, ""));
            while !desk.folder.path().join("open").exists() && !edit.is_finished() {
                std::thread::yield_now();
            }
            meanwhile();
            std::fs::write(desk.folder.path().join("go"), "").unwrap();
            edit.join().unwrap()
        })
    };
    // The operator writes the status all the time.
    let plugin = Plugin::admin(&desk.cluster);
    let works = || {
        status(
            &desk.cluster,
            "appdeploy/shop",
            &conditions("True", "Available", "", None),
        );
    };
    edited("s/value:.*/value: b/", &works).ok();
    assert_eq!(desk.spec(".env[0].value"), "b");

    let deploy = || drop(plugin.run("set image shop=nginx:9"));
    let said = edited("s/value:.*/value: c/;s/port:.*/port: 81/", &deploy).fails(1);
    assert!(
        said.starts_with("error: appdeploy.appdeploy.dev/shop has changed since it was opened: nothing was changed\n"),
        "{said}"
    );
    assert!(
        std::fs::read_to_string(kept(&said)).unwrap().contains("port: 81"),
        "{said}"
    );
    assert_eq!(
        (desk.spec(".image"), desk.spec(".port")),
        ("nginx:9".into(), "80".into())
    );
    std::fs::remove_file(kept(&said)).unwrap();

    // Another object of the same name.
    let replace = || {
        // Without a panic: the editor waits for the end of this.
        drop(plugin.run("delete shop --cascade=background"));
        drop(plugin.run("create shop --image=nginx:9 --port=80 --env=A=b"));
    };
    let said = edited("s/port:.*/port: 81/", &replace).fails(1);
    assert!(said.contains("has changed since it was opened"), "{said}");
    assert_eq!(desk.spec(".port"), "80");
}

/// An editor may use Ctrl-C for itself, as vi does to leave a mode.
#[test]
fn editor_handles_ctrl_c_itself() {
    let desk = Desk::new();
    let editor = desk.folder.path().join("editor");
    let script = "trap '' INT; echo the editor is open; read line; sed -i s/nginx:1/nginx:2/ $1";
    std::fs::write(&editor, script).unwrap();
    let plugin = Plugin::admin(&desk.cluster);
    let mut command = plugin.command("edit shop");
    command
        .env("KUBE_EDITOR", format!("sh {}", editor.display()))
        .env("TMPDIR", desk.folder.path());
    let terminal = Terminal::start(command).unwrap();
    terminal.shows("the editor is open").unwrap();
    terminal.send(CTRL_C).unwrap();
    terminal.shows("^C").unwrap();
    terminal.send("\n").unwrap();
    let (code, screen) = terminal.end().unwrap();
    assert!(
        code == 0 && screen.text().contains("shop edited"),
        "{code}: {}",
        screen.text()
    );
    assert_eq!(desk.spec(".image"), "nginx:2");
    assert_eq!(desk.kept(), Vec::<PathBuf>::new());
}

fn kept(said: &str) -> PathBuf {
    let (_, rest) = said.split_once("your changes are kept in ").unwrap();
    Path::new(rest.lines().next().unwrap()).to_owned()
}

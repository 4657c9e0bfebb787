//! kubectl's conventions, where they can be seen only from outside. `docs/conventions.md` lists them all.

use std::io::{Read as _, Write as _};
use std::iter::repeat_with;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};
use terminal::Terminal;
use testcluster::{ControlPlane, PooledControlPlane};

use crate::plugin::{Plugin, Run, conditions, status};

fn installed() -> (PooledControlPlane, Plugin) {
    let (cluster, plugin) = Plugin::installed();
    plugin.run("create shop --image=nginx --port=80").ok();
    (cluster, plugin)
}

/// Returns the administrator's kubeconfig, to be changed.
fn kubeconfig(cluster: &ControlPlane) -> Value {
    let raw = cluster.kubectl(&["config", "view", "--raw", "-o", "json"]).unwrap();
    serde_json::from_str(&raw).unwrap()
}

fn write(file: &Path, config: &Value) -> Plugin {
    std::fs::write(file, config.to_string()).unwrap();
    Plugin::of(file)
}

#[test]
fn colors_and_characters_follow_the_terminal() {
    let (cluster, plugin) = installed();
    let with = |line: &str, variables: &[(&str, &str)]| {
        let mut command = plugin.command(line);
        command.envs(variables.iter().copied());
        command
    };
    for (line, variables, coloured) in [
        ("status", &[][..], true),
        ("status", &[("NO_COLOR", "1")], false),
        ("status", &[("NO_COLOR", "")], true),
        ("status", &[("TERM", "dumb")], false),
        ("status --color=never", &[], false),
        ("status --color=always", &[("NO_COLOR", "1")], true),
    ] {
        let terminal = Terminal::start(with(line, variables)).unwrap();
        terminal.shows("shop").unwrap();
        let written = terminal.written();
        assert_eq!(written.contains("\x1b["), coloured, "{line} {variables:?}: {written:?}");
        // Meaning is never shown by color only.
        assert!(written.contains("Pending"), "{written}");
    }
    for (line, variables, coloured) in [
        ("status", &[][..], false),
        ("status", &[("FORCE_COLOR", "1")], true),
        ("status", &[("FORCE_COLOR", "1"), ("NO_COLOR", "1")], false),
        ("status", &[("FORCE_COLOR", "0")], false),
        ("status", &[("FORCE_COLOR", "false")], false),
        ("status --color=always", &[], true),
        ("status -o json --color=always", &[], false),
    ] {
        let run = Run::from(with(line, variables).output().unwrap());
        assert_eq!(run.out.contains("\x1b["), coloured, "{line} {variables:?}: {}", run.out);
    }
    // With a status of their own: the apps without one have a single line after a while, since the operator does not run.
    let failed = conditions("False", "ImageNotFound", "image nginx:1 was not found", None);
    for n in 0..11 {
        plugin.run(&format!("create app-{n} --image=nginx")).ok();
        status(&cluster, &format!("appdeploy/app-{n}"), &failed);
    }
    let page = |variables| Run::from(with("status", variables).output().unwrap()).ok();
    let pages = || (page(&[("LC_ALL", "C")]), page(&[]));
    let is_same = |(plain, full): &(String, String)| plain.lines().count() == full.lines().count();
    // Between two pages an app may have waited for so long that its row has more text: each of them once.
    let (plain, full) = repeat_with(pages).take(13).find(is_same).unwrap();
    assert!(
        plain.contains("~and ") && full.contains("…and ") && plain.is_ascii(),
        "{plain}{full}"
    );
}

#[test]
fn closed_streams_do_not_crash() {
    let (_cluster, plugin) = installed();
    // As `| head -0`: the reader has exited before the first line.
    for line in ["status", "status shop", "status -o yaml", "describe shop", "--help"] {
        let mut child = plugin.start(line);
        drop(child.stdout.take());
        let run = Run::of(child);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{line}");
    }
    // What an exit code says does not depend on a reader of the output.
    for (line, code, said) in [
        ("diff shop", 1, ""),
        ("diff shop missing", 2, "missing"),
        ("check", 1, "AppDeploy has problems"),
        ("restart shop missing", 1, "missing"),
        ("create late --image=nginx --wait --timeout=1s", 4, "late is not ready"),
    ] {
        let mut child = plugin.start(line);
        drop(child.stdout.take());
        let run = Run::of(child);
        assert!(run.code == code && run.err.contains(said), "{line}: {run:?}");
    }
    // A prompt without a terminal is an error that names the flag.
    let said = plugin.run("create").fails(2);
    assert!(said.starts_with("error: create needs a name and an image\n"), "{said}");
    let said = plugin.run("create web").fails(2);
    assert!(
        said.starts_with("error: create needs an image: --image=NAME\n"),
        "{said}"
    );
}

#[test]
fn invalid_usage_ends_with_exit_code_two_and_a_suggestion() {
    let plugin = Plugin::of(Path::new("/nonexistent/config"));
    for (line, sentence, next) in [
        (
            "stats",
            "error: unknown command \"stats\" for \"kubectl appdeploy\"\n",
            "  next: kubectl appdeploy status\n",
        ),
        (
            "delete shop --dry-run",
            "error: a value is required for '--dry-run <MODE>'",
            "  next: kubectl appdeploy delete --help\n",
        ),
        (
            "delete",
            "error: no app selected\n",
            "  next: kubectl appdeploy delete shop\n",
        ),
    ] {
        let run = plugin.run(line);
        assert_eq!(run.out, "", "{line}");
        let said = run.fails(2);
        assert!(said.starts_with(sentence), "{line}: {said}");
        assert!(said.ends_with(next), "{line}: {said}");
    }
    let help = plugin.run("--help").ok();
    assert!(help.contains("Usage: kubectl appdeploy "), "{help}");
    assert!(!help.contains("kubectl-appdeploy"), "{help}");
}

#[test]
fn cluster_and_user_follow_from_flags_and_kubeconfigs() {
    let (cluster, plugin) = installed();
    let folder = tempfile::tempdir().unwrap();
    cluster.kubectl(&["create", "namespace", "team"]).unwrap();
    plugin.run("create cart --image=nginx -n team").ok();

    // The namespace: of the flag, else of the context, else default.
    let mut config = kubeconfig(&cluster);
    config["contexts"][0]["context"]["namespace"] = json!("team");
    let in_team = write(&folder.path().join("team"), &config);
    assert!(in_team.run("status").ok().contains("cart"));
    assert!(in_team.run("status -n default").ok().contains("shop"));
    let said = in_team.run("status -n none");
    assert_eq!((said.out.as_str(), said.code), ("", 0));
    assert!(
        said.err.starts_with("No apps found in none namespace.\n"),
        "{}",
        said.err
    );

    // A list of kubeconfigs is one; a path in one is relative to it.
    let mut far = kubeconfig(&cluster);
    let server = &mut far["clusters"][0]["cluster"];
    let authority = folder.path().join("ca.crt");
    std::fs::write(&authority, cluster.ca().certificate()).unwrap();
    server.as_object_mut().unwrap().remove("certificate-authority-data");
    server["certificate-authority"] = json!("ca.crt");
    far["contexts"][0]["name"] = json!("far");
    far["current-context"] = json!("");
    write(&folder.path().join("far"), &far);
    write(
        &folder.path().join("near"),
        &json!({"apiVersion": "v1", "kind": "Config", "current-context": "far"}),
    );
    let mut listed = plugin.command("status");
    let list = std::env::join_paths([folder.path().join("near"), folder.path().join("far")]).unwrap();
    listed.env("KUBECONFIG", list).current_dir("/");
    assert!(Run::from(listed.output().unwrap()).ok().contains("shop"));

    // Impersonation.
    let said = plugin.run("status --as=jane --as-group=guests").fails(1);
    assert!(said.contains("User \"jane\" cannot list"), "{said}");
    let mark = cluster.audit().mark().unwrap();
    plugin.run("status --as=jane --as-group=system:masters").ok();
    assert_eq!(
        cluster
            .audit()
            .since(mark)
            .unwrap()
            .by_user_agent_prefix("kubectl-appdeploy/")
            .count(),
        1
    );

    // Through a proxy.
    let (proxy, passed) = tunnel();
    let mut config = kubeconfig(&cluster);
    config["clusters"][0]["cluster"]["proxy-url"] = json!(proxy);
    let behind = write(&folder.path().join("behind"), &config);
    assert!(behind.run("status").ok().contains("shop"));
    // More than once if the API server is slow: a read that fails is sent again.
    assert_ne!(passed.load(Ordering::SeqCst), 0);
}

/// Starts a proxy that connects to whatever it is asked for, and counts.
fn tunnel() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let passed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&passed);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            counter.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || connect(client));
        }
    });
    (url, passed)
}

fn connect(mut client: TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && client.read_exact(&mut byte).is_ok() {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split_whitespace().nth(1).unwrap_or_default();
    let mut server = TcpStream::connect(target).unwrap();
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || std::io::copy(&mut from, &mut to));
    let _ = std::io::copy(&mut server, &mut client);
}

#[test]
fn failed_login_program_is_quoted() {
    let (cluster, _) = installed();
    let folder = tempfile::tempdir().unwrap();
    let login = |script: &str| {
        let mut config = kubeconfig(&cluster);
        config["users"][0]["user"] = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "IfAvailable", "command": "sh", "args": ["-c", script]}});
        write(&folder.path().join("config"), &config)
    };
    let expired = login("echo 'Token has expired: run corp-login' >&2; exit 1");
    let next = "  next: kubectl config view --minify\n        (log in again, or run what it shows under exec)\n";
    assert_eq!(
        expired.run("status").fails(1),
        format!(
            "Token has expired: run corp-login\nerror: cannot log in to the cluster\n  \
             why:  the program that logs in ended with exit code 1\n{next}"
        )
    );
    let mut config = kubeconfig(&cluster);
    config["users"][0]["user"] = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "IfAvailable", "command": "corp-login"}});
    let missing = write(&folder.path().join("config"), &config).run("status").fails(1);
    assert!(
        missing.starts_with("error: cannot log in to the cluster\n  why:  the login program does not start: ")
            && missing.ends_with(next),
        "{missing}"
    );
}

#[test]
fn command_runs_in_one_process_and_leaves_no_files() {
    let (_cluster, plugin) = installed();
    let home = tempfile::tempdir().unwrap();
    for line in [
        "--help",
        "version",
        "status",
        "status shop",
        "create web --image=nginx --dry-run=server",
    ] {
        let mut command = plugin.command(line);
        // No other program can be found, and nothing may be written where tools keep their caches.
        command
            .env("PATH", "/nonexistent")
            .env("HOME", home.path())
            .current_dir(home.path());
        for name in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TMPDIR"] {
            command.env(name, home.path());
        }
        let run = Run::from(command.stdin(Stdio::null()).output().unwrap());
        assert_eq!(run.code, 0, "{line}: {run:?}");
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

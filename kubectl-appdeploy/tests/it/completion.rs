//! What shells and kubectl are answered.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use terminal::{ENTER, Terminal};
use testcluster::PooledControlPlane;
use testcluster::wait::eventually;

use crate::plugin::{Plugin, Run};

/// Two apps, one in another namespace, a pod set and an ingress class.
fn world() -> (PooledControlPlane, Plugin) {
    let (cluster, plugin) = Plugin::installed();
    cluster.kubectl(&["create", "namespace", "team"]).unwrap();
    plugin.run("create shop --image=nginx --port=80").ok();
    plugin.run("create blog --image=nginx --port=80").ok();
    plugin.run("create cart --image=nginx -n team").ok();
    plugin.run("podset create workers --image=nginx").ok();
    plugin.run("queue create orders --region=us-east-1").ok();
    let class = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "traefik"},
        "spec": {"controller": "traefik.io/ingress-controller"}});
    cluster.apply(&class.to_string()).unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "workers-0", "namespace": "default",
            "labels": {"appdeploy.dev/podset": "workers"}},
        "spec": {"containers": [{"name": "app", "image": "nginx"}]}});
    cluster.apply(&pod.to_string()).unwrap();
    (cluster, plugin)
}

/// Completes the last word, which may be empty.
fn ask(plugin: &Plugin, line: &str) -> Run {
    let mut command = plugin.command("__complete");
    command.args(line.split(' '));
    Run::from(command.output().unwrap())
}

/// Types a part of a word, and Tab until it is completed: if the API server takes longer than a second, nothing is.
fn complete(terminal: &Terminal, typed: &str, completed: &str) {
    terminal.send(typed).unwrap();
    let mut pressed: Option<Instant> = None;
    eventually(completed, || {
        let is_completed = terminal.screen().text().contains(completed);
        if !is_completed && pressed.is_none_or(|at| at.elapsed() > Duration::from_secs(3)) {
            terminal.send("\t").unwrap();
            pressed = Some(Instant::now());
        }
        is_completed
    });
}

/// Returns a bare environment in which the plugin and what kubectl asks are found.
fn path(folder: &Path) -> String {
    let plugin = Path::new(env!("CARGO_BIN_EXE_kubectl-appdeploy")).parent().unwrap();
    format!(
        "{}:{}:{}",
        folder.display(),
        plugin.display(),
        std::env::var("PATH").unwrap()
    )
}

#[test]
fn names_are_those_of_the_cluster_and_a_failure_is_silent() {
    let (cluster, plugin) = world();
    for (line, answer) in [
        ("status ", "blog\t0/1 Pending\nshop\t0/1 Pending\n:4\n"),
        ("status s", "shop\t0/1 Pending\n:4\n"),
        ("-n team status ", "cart\t0/1 Pending\n:4\n"),
        ("delete --namespace=team ", "cart\t0/1 Pending\n:4\n"),
        ("podset status ", "workers\t0/1 Pending\n:4\n"),
        ("queue status ", "orders\tPending\n:4\n"),
        ("queue delete o", "orders\tPending\n:4\n"),
        ("queue create new --dead-letter ", "orders\tPending\n:4\n"),
        ("create new --queue ", "orders\tPending\n:4\n"),
        ("queue create new --type ", "Standard\nFIFO\n:4\n"),
        ("status -n t", "team\n:4\n"),
        ("create new --ingress-class ", "traefik\n:4\n"),
        ("podset replace workers --pod ", "workers-0\tPending\n:4\n"),
        ("status --context=", "testcluster\n:4\n"),
    ] {
        let mark = cluster.audit().mark().unwrap();
        let run = ask(&plugin, line);
        assert_eq!(
            (run.out.as_str(), run.err.as_str(), run.code),
            (answer, "", 0),
            "{line}"
        );
        let requests = cluster
            .audit()
            .since(mark)
            .unwrap()
            .by_user_agent_prefix("kubectl-appdeploy/");
        assert!(requests.count() <= 1, "{line}: {:?}", requests.tally());
    }

    // No cluster, no right, a login that asks, a server that does not answer: nothing is offered, and nothing is said.
    let silent = |run: Run| assert_eq!((run.out.as_str(), run.err.as_str(), run.code), (":4\n", "", 0));
    silent(ask(&Plugin::of(Path::new("/nonexistent/config")), "status "));
    silent(ask(
        &Plugin::of(&cluster.kubeconfig_for("stranger", &[]).unwrap()),
        "status ",
    ));
    let folder = tempfile::tempdir().unwrap();
    let waiting = folder.path().join("config");
    let login = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": cluster.url()}}],
        "users": [{"name": "a", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "IfAvailable",
            "command": "sh", "args": ["-c", "echo Password: >&2; read password || exec sleep 60"]}}}]});
    std::fs::write(&waiting, login.to_string()).unwrap();
    silent(ask(&Plugin::of(&waiting), "status "));
    cluster.pause_apiserver().unwrap();
    silent(ask(&plugin, "status "));
    cluster.resume_apiserver().unwrap();
}

#[test]
fn kubectl_and_the_shells_complete_a_name() {
    let (cluster, plugin) = world();
    let folder = tempfile::tempdir().unwrap();
    let written = plugin.run(&format!("completion --install-kubectl={}", folder.path().display()));
    let file = folder.path().join("kubectl_complete-appdeploy");
    assert_eq!(written.out, format!("{} written\n", file.display()));
    assert!(
        written.err.contains("is not in PATH") && written.err.ends_with("next: source <(kubectl completion bash)\n"),
        "{}",
        written.err
    );
    let refused = plugin.run("completion --install-kubectl=/nonexistent").fails(1);
    assert!(
        refused.contains("cannot write /nonexistent/kubectl_complete-appdeploy"),
        "{refused}"
    );

    // kubectl asks the program that was written.
    let kubectl = cluster.kubectl_as(&cluster.kubeconfig()).command();
    let kubectl = |words: &[&str]| {
        let mut command = Command::new(kubectl.get_program());
        command
            .args(words)
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("PATH", path(folder.path()));
        let run = Run::from(command.env("HOME", folder.path()).output().unwrap());
        run.ok()
    };
    assert_eq!(
        kubectl(&["__complete", "appdeploy", "status", ""]),
        "blog\t0/1 Pending\nshop\t0/1 Pending\n:4\n"
    );
    assert_eq!(
        kubectl(&["__complete", "appdeploy", "podset", "status", "-n", "default", "w"]),
        "workers\t0/1 Pending\n:4\n"
    );
    assert!(kubectl(&["appdeploy", "status"]).contains("shop"));

    // The shells that are there; bash is everywhere.
    let shells = [
        (
            "bash",
            &["--norc", "--noprofile", "-i"][..],
            "source <(kubectl-appdeploy completion bash)",
        ),
        (
            "zsh",
            &["-f", "-i"],
            "autoload -U compinit; compinit -u -D; source <(kubectl-appdeploy completion zsh)",
        ),
        (
            "fish",
            &["--no-config", "-i"],
            "kubectl-appdeploy completion fish | source",
        ),
    ];
    for (shell, flags, setup) in shells {
        let mut command = Command::new(shell);
        command
            .args(flags)
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("PATH", path(folder.path()));
        command
            .env("HOME", folder.path())
            .env("PS1", "$ ")
            .current_dir(folder.path());
        let terminal = match Terminal::start(command) {
            Ok(terminal) => terminal,
            Err(error) if shell == "bash" => panic!("{error}"),
            Err(_) => continue,
        };
        terminal.send(&format!("{setup}; echo set''up{ENTER}")).unwrap();
        terminal.shows("setup").unwrap();
        for steps in [
            &[
                ("kubectl-appdeploy stat", "kubectl-appdeploy status"),
                ("sh", "kubectl-appdeploy status shop"),
            ][..],
            &[
                ("kubectl-appdeploy status -n te", "kubectl-appdeploy status -n team"),
                ("ca", "kubectl-appdeploy status -n team cart"),
            ],
            &[(
                "kubectl-appdeploy status --output=js",
                "kubectl-appdeploy status --output=json",
            )],
        ] {
            for (typed, completed) in steps {
                complete(&terminal, typed, completed);
            }
            // The line is emptied.
            terminal.send("\x15").unwrap();
        }
    }
}

//! Ctrl-C and SIGTERM while a command runs: the message about what it has done, and the state of the terminal.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use fault_proxy::Proxy;
use fault_proxy::{Action, Requests, Rule, Verb};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use terminal::Terminal;
use testcluster::ControlPlane;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::{self, Message};

use crate::plugin::{Plugin, Run};

const PATIENCE: Duration = Duration::from_secs(60);

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
}

#[test]
fn interrupted_command_reports_what_was_sent() {
    let cluster = ControlPlane::pooled().unwrap();
    let proxy = Proxy::before(&cluster, "person", &["system:masters"]).unwrap();
    let plugin = Plugin::of(proxy.kubeconfig());
    plugin.run("install --wait=false --webhooks=false").ok();
    plugin.run("create shop --image=nginx --port=80").ok();
    let reads = || Requests::with(&[Verb::Get, Verb::List, Verb::Watch]);
    let writes = || Requests::writes().on("appdeploys");
    for (line, requests, action, said) in [
        // What only reads has nothing to say.
        ("describe shop", reads(), Action::Hang, ""),
        ("status", reads(), Action::Hang, ""),
        ("diff shop", reads(), Action::Hang, ""),
        (
            "restart shop",
            reads(),
            Action::Hang,
            "error: interrupted: nothing was changed\n",
        ),
        (
            "restart shop --dry-run=server",
            writes(),
            Action::Hang,
            "error: interrupted: nothing was changed\n",
        ),
        (
            "restart shop",
            writes(),
            Action::Hang,
            "error: interrupted: the last request was sent and not answered: it may have been carried out\n",
        ),
        (
            "create web --image=nginx --wait",
            Requests::with(&[Verb::List, Verb::Watch]).on("appdeploys"),
            Action::Hang,
            "error: interrupted: changes sent so far continue in the cluster\n",
        ),
        (
            "install",
            Requests::with(&[Verb::Patch]).on("clusterroles"),
            Action::Hang,
            "error: interrupted: the last request was sent and not answered: it may have been carried out\n  \
             why:  only some of the steps were done\n  next: the same command again does the rest\n",
        ),
    ] {
        let rule = proxy.add(Rule::new(requests, action));
        let child = plugin.start(line);
        proxy.wait_for_hits(PATIENCE, rule, 1).unwrap();
        signal(&child, Signal::SIGINT);
        let run = Run::of(child);
        proxy.remove(rule);
        assert_eq!(run.code, 130, "{line}: {run:?}");
        assert!(
            run.err == said || !said.is_empty() && run.err.ends_with(said),
            "{line}: {}",
            run.err
        );
    }
}

/// A watch on a terminal hides the cursor and draws on a screen of its own.
#[test]
fn sigterm_leaves_the_terminal_as_it_was() {
    let (_cluster, plugin) = Plugin::installed();
    plugin.run("create shop --image=nginx --port=80").ok();
    let watch = plugin.at_terminal("status -w");
    watch.shows("shop").unwrap();
    let pid = Pid::from_raw(watch.pid().try_into().unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let (code, last) = watch.end().unwrap();
    assert_eq!((code, last.is_cursor_hidden()), (143, false), "{}", last.text());
    assert!(last.text().contains("shop"), "{}", last.text());
}

/// `exec -t` makes the terminal raw: after it, a shell must show what is typed again.
#[test]
fn sigterm_during_exec_restores_the_terminal() {
    let url = api_server_with_a_running_pod();
    let mut shell = Command::new("sh");
    // A command in the background reads from the terminal only if its stdin is redirected.
    let script = r#"exec 3<&0; "$0" exec shop -it --server="$1" -- sh <&3 & echo "pid $!;"; wait $!; echo "code $?"; stty -a <&3"#;
    shell
        .args(["-c", script, env!("CARGO_BIN_EXE_kubectl-appdeploy"), &url])
        .env("KUBECONFIG", "/nonexistent/config");
    let terminal = Terminal::start(shell).unwrap();
    let screen = terminal.shows("the shell is open").unwrap().text();
    let (_, pid) = screen.split_once("pid ").unwrap();
    let pid = pid.split(';').next().unwrap().parse().unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    let (_, screen) = terminal.end().unwrap();
    let text = screen.text();
    assert!(text.contains("code 143"), "{text}");
    assert!(text.contains(" icanon") && !text.contains("-icanon"), "{text}");
}

/// Starts an API server that knows an app with one pod, and in which every command runs until it is ended.
fn api_server_with_a_running_pod() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || serve(client));
        }
    });
    url
}

fn serve(mut client: TcpStream) {
    let mut start = [0; 512];
    let count = client.peek(&mut start).unwrap();
    let start = String::from_utf8_lossy(&start[..count]).into_owned();
    let path = start.split_whitespace().nth(1).unwrap_or_default();
    if path.contains("/exec?") {
        #[expect(clippy::result_large_err, reason = "the type of the callback")]
        let choose = |_: &Request, mut response: Response| {
            let protocol = "v4.channel.k8s.io".parse().unwrap();
            response.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
            Ok(response)
        };
        let mut socket = tungstenite::accept_hdr(client, choose).unwrap();
        // The first byte is the channel: stdout.
        let text = b"\x01the shell is open\r\n".to_vec();
        socket.send(Message::Binary(text.into())).unwrap();
        while socket.read().is_ok() {}
        return;
    }
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && client.read_exact(&mut byte).is_ok() {
        head.push(byte[0]);
    }
    let body = object(path).to_string();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    client.write_all(answer.as_bytes()).unwrap();
}

fn object(path: &str) -> Value {
    let app = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
        "metadata": {"name": "shop", "namespace": "default", "uid": "1"}, "spec": {"image": "nginx"}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "shop-1", "namespace": "default", "labels": {"appdeploy.dev/app": "shop"}},
        "spec": {"containers": [{"name": "app", "image": "nginx"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "app", "image": "nginx", "imageID": "x",
            "ready": true, "restartCount": 0, "state": {"running": {}}}]}});
    if path.contains("/appdeploys/") {
        return app;
    }
    json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [pod]})
}

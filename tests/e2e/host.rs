//! A second cluster does not change the host.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testcluster::http;
use testcluster::node::Node;

use crate::environment::{Environment, TestContext};
use crate::story::has;

/// Settings of the kernel that change by themselves.
const VOLATILE: [&str; 8] = [
    "/random/",
    "ns_last_pid",
    "pty/nr",
    "perf_event_max_sample_rate",
    "nf_conntrack_count",
    "sched_domain",
    "/dentry-state",
    "route/gc",
];
/// Folders of the host whose files change by themselves.
const BUSY: [&str; 6] = [
    "/var/cache",
    "/var/lib/apt",
    "/var/lib/dpkg",
    "/var/tmp",
    "/var/log/journal",
    "/run/systemd",
];

/// The compared state by name: sysctls, links, routes, tables, mounts, cgroups, files.
type Host = BTreeMap<String, String>;

pub fn host_is_unchanged_by_a_second_cluster(environment: &Environment, _: &TestContext) -> Result<()> {
    let folder = tempfile::tempdir().context("failed to create a folder")?;
    let second = Second {
        program: environment.checkout.program("testcluster"),
        state: folder.path().join("second cluster"),
    };
    let outcome = compare(environment, &second);
    // Removed after a failure, too.
    let ended = second.run(&["down"]).map(drop);
    outcome.and(ended)
}

fn compare(environment: &Environment, second: &Second) -> Result<()> {
    let before = read_host()?;
    let up = second.run(&["up"])?;
    // The ports of the first cluster are in use.
    has(&up, &["Port 8080 of 127.0.0.1 is in use", "with a real node"])?;
    let node = Node::running(&second.state).context("the second node does not run")?;
    second.serve_page(environment, &node)?;
    same(&before, &read_host()?, &node).context("while the second cluster runs")?;
    second.run(&["down"])?;
    ensure!(!second.state.exists(), "its folder still exists");
    same(&before, &read_host()?, &node).context("after `down`")?;
    ensure!(left(&node).is_empty(), "cgroups are left: {:?}", left(&node));

    second.run(&["up"])?;
    let node = Node::running(&second.state).context("the second node does not run again")?;
    second.kill(&node)?;
    same(&before, &read_host()?, &node).context("after SIGKILL to everything")?;
    // Empty cgroups may remain: no process is left to remove them.
    for group in left(&node) {
        let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        ensure!(processes.is_empty(), "{} has processes {processes}", group.display());
    }
    second.run(&["up"]).context("after SIGKILL to everything")?;
    let node = Node::running(&second.state).context("the second node does not run after SIGKILL")?;
    // Deleted like `cargo clean` does: the node ends by itself. Programs may write files while it is deleted.
    until(|| fs::remove_dir_all(&second.state).is_ok() || !second.state.exists())
        .context("failed to delete the state")?;
    until(|| !node.init.is_alive() && !node.supervisor.is_alive() && left(&node).is_empty())
        .context("the node still runs after its folder was deleted")?;
    same(&before, &read_host()?, &node).context("after its folder was deleted")
}

/// The second cluster.
struct Second {
    program: PathBuf,
    state: PathBuf,
}

impl Second {
    /// Runs `testcluster`, and returns its output.
    fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.program)
            .arg("--state-dir")
            .arg(&self.state)
            .args(arguments)
            .output()
            .context("failed to start testcluster")?;
        let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        ensure!(
            output.status.success(),
            "`testcluster {arguments:?}` failed: {}",
            text.concat()
        );
        Ok(text.concat())
    }

    /// Creates an app in it, and requests its page from the host.
    fn serve_page(&self, environment: &Environment, node: &Node) -> Result<()> {
        let shell = environment
            .shell
            .clone()
            .with_kubeconfig(&self.state.join("kubeconfig"));
        shell.run(
            "kubectl create deployment web --image nginx && kubectl expose deployment web --port 80 &&
             kubectl create ingress web --rule 'web.example.com/*=web:80' &&
             kubectl rollout status deployment web --timeout=90s",
        )?;
        let address = format!("127.0.0.1:{}", node.ingress_port);
        let html = http::page(&address, "web.example.com", Duration::from_secs(30))?;
        has(&html, &["Welcome to nginx!"])
    }

    /// Kills the supervisor and the init process, and waits until no process is left.
    fn kill(&self, node: &Node) -> Result<()> {
        for pid in [node.supervisor.pid, node.init.pid] {
            let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
        }
        until(|| {
            let alive = left(node).iter().any(|group| !processes(group).is_empty());
            !alive && !node.init.is_alive()
        })
        .context("processes of the node are left")?;
        let state = self.state.display().to_string();
        for entry in fs::read_dir("/proc")?.flatten() {
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            ensure!(
                !String::from_utf8_lossy(&words).contains(&state),
                "{} still runs: {}",
                entry.path().display(),
                String::from_utf8_lossy(&words)
            );
        }
        Ok(())
    }
}

/// Returns the cgroups of the node that exist.
fn left(node: &Node) -> Vec<PathBuf> {
    node.cgroups.iter().filter(|group| group.exists()).cloned().collect()
}

/// Returns the processes in a cgroup and all below it.
fn processes(group: &Path) -> String {
    let own = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let below = fs::read_dir(group).into_iter().flatten().flatten();
    below
        .filter(|entry| entry.path().is_dir())
        .map(|entry| processes(&entry.path()))
        .fold(own, |all, more| all + &more)
}

fn until(condition: impl Fn() -> bool) -> Result<()> {
    let started = Instant::now();
    while !condition() {
        ensure!(started.elapsed() < Duration::from_secs(20), "not within 20 s");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Returns an error unless both are equal, except for the cgroups of the node.
fn same(before: &Host, now: &Host, node: &Node) -> Result<()> {
    let own: Vec<String> = node.cgroups.iter().map(|group| group.display().to_string()).collect();
    let mut differences = Vec::new();
    for name in before
        .keys()
        .chain(now.keys().filter(|name| !before.contains_key(*name)))
    {
        let of_node = own.iter().any(|group| name.contains(group.as_str()));
        // The kernel adds settings when it loads a module; only existing ones are compared.
        let appeared = name.starts_with("sysctl ") && !before.contains_key(name);
        if !of_node && !appeared && before.get(name) != now.get(name) {
            differences.push(format!("{name}: {:?} became {:?}", before.get(name), now.get(name)));
        }
    }
    ensure!(
        differences.is_empty(),
        "the host has changed:\n{}",
        differences.join("\n")
    );
    Ok(())
}

/// Reads the host's state.
fn read_host() -> Result<Host> {
    let mut host = Host::new();
    for part in ["kernel", "vm", "net"] {
        settings(&Path::new("/proc/sys").join(part), &mut host);
    }
    for line in [
        "ip -o link",
        "ip -o addr",
        "ip rule",
        "ip route show table all",
        "ip -6 route show table all",
        "nft list ruleset",
    ] {
        let mut words = line.split(' ');
        let output = Command::new(words.next().unwrap_or_default())
            .args(words)
            .output()
            .with_context(|| format!("failed to run {line}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let stable = text.split_whitespace().filter(|word| !word.ends_with("sec"));
        host.insert(line.to_owned(), stable.collect::<Vec<_>>().join(" "));
    }
    let mounts = fs::read("/proc/self/mountinfo").context("failed to read the mounts")?;
    for line in String::from_utf8_lossy(&mounts).lines() {
        // Without the IDs, which depend on the order of the mounts.
        let fields: Vec<&str> = line.split(' ').skip(2).collect();
        host.insert(format!("mount {}", fields.join(" ")), String::new());
    }
    for root in [PathBuf::from("/sys/fs/cgroup")]
        .iter()
        .chain(&folders(Path::new("/sys/fs/cgroup")))
    {
        for group in folders(root) {
            host.insert(format!("cgroup {}", group.display()), String::new());
        }
        for file in [
            "cgroup.subtree_control",
            "cgroup.clone_children",
            "cpuset.cpus",
            "memory.use_hierarchy",
        ] {
            if let Ok(text) = fs::read_to_string(root.join(file)) {
                host.insert(format!("cgroup {}/{file}", root.display()), text);
            }
        }
    }
    for root in ["/etc", "/run", "/var"] {
        files(Path::new(root), root == "/etc", &mut host);
    }
    Ok(host)
}

fn settings(folder: &Path, host: &mut Host) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.display().to_string();
        if VOLATILE.iter().any(|part| name.contains(part)) {
            continue;
        }
        if path.is_dir() {
            settings(&path, host);
        } else if let Ok(text) = fs::read_to_string(&path) {
            host.insert(format!("sysctl {name}"), text);
        }
    }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Lists all files below a folder, with sizes if `sizes`.
fn files(folder: &Path, sizes: bool, host: &mut Host) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if BUSY.iter().any(|busy| path.starts_with(busy)) {
            continue;
        }
        let Ok(metadata) = entry.metadata() else { continue };
        let what = if sizes && metadata.is_file() {
            format!("{} bytes of {:?}", metadata.len(), metadata.modified().ok())
        } else {
            format!("{:?}", metadata.file_type())
        };
        host.insert(format!("file {}", path.display()), what);
        if metadata.is_dir() {
            files(&path, sizes, host);
        }
    }
}

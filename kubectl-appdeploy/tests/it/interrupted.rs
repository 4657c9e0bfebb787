//! Interrupted installations and uninstallations, continued by the same command.

use fault_proxy::Proxy;
use fault_proxy::{Action, Answer, Requests, Rule, Verb};
use testcluster::ControlPlane;

use crate::plugin::Plugin;

const INSTALL: &str = "install --wait=false";
const UNINSTALL: &str = "uninstall --delete-crds --yes --timeout=60s";

/// What may happen to a write.
fn lies() -> Vec<Action> {
    let quota = "serviceaccounts is forbidden: exceeded quota: small";
    vec![
        Action::Disconnect,
        Action::ForwardThenDisconnect,
        Action::Answer(Answer::refusal(403, "Forbidden", quota)),
        Action::Answer(Answer::refusal(500, "InternalError", "etcdserver: leader changed")),
        Action::ForwardThenAnswer(Answer::refusal(
            504,
            "Timeout",
            "request did not complete within the allotted timeout",
        )),
        Action::Reset,
    ]
}

/// Runs a command again and again, and has one of `requests` more come through in each run before one goes wrong, until a
/// run has fewer of them; or a few more, since all of them take minutes. Returns how many came through.
fn break_off_everywhere(plugin: &Plugin, proxy: &Proxy, command: &str, requests: &Requests) -> usize {
    let step = if std::env::var_os("APPDEPLOY_TEST_LONG").is_some() {
        1
    } else {
        5
    };
    let lies = lies();
    for number in (1..).step_by(step) {
        let rule = Rule::new(requests.clone(), lies[number % lies.len()].clone()).nth(number);
        let rule = proxy.add(rule);
        let run = plugin.run(command);
        let hits = proxy.hits(rule);
        proxy.remove(rule);
        if hits == 0 {
            run.ok();
            return number.saturating_sub(step);
        }
        let said = run.fails(1);
        assert!(
            said.lines().any(|line| line.to_lowercase().starts_with("error")) && !said.contains("panicked"),
            "{number}: {said}"
        );
        // Objects that exist by now are reported, and are not an error.
        let status = plugin.run("status");
        assert!(
            status.code == 0 || status.err.contains("\n  next: "),
            "{number}: {status:?}"
        );
    }
    unreachable!("numbers have no end")
}

/// K1.
#[test]
fn installation_interrupted_at_any_write_can_be_continued() {
    let cluster = ControlPlane::builder().controller_manager(&["*"]).start().unwrap();
    let proxy = Proxy::before(&cluster, "person", &["system:masters"]).unwrap();
    let plugin = Plugin::of(proxy.kubeconfig());
    let broken = break_off_everywhere(&plugin, &proxy, INSTALL, &Requests::with(&[Verb::Create, Verb::Patch]));
    assert!(broken >= 21, "{broken}: each object is a write");
    let again = plugin.run(INSTALL).ok();
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");

    let removed = break_off_everywhere(&plugin, &proxy, UNINSTALL, &Requests::with(&[Verb::Delete]));
    assert!(removed > 5, "{removed}");
    let left = cluster
        .kubectl(&[
            "get",
            "crd,clusterrole,clusterrolebinding,namespace,validatingwebhookconfiguration,mutatingwebhookconfiguration,\
             validatingadmissionpolicy,validatingadmissionpolicybinding",
            "-l",
            "app.kubernetes.io/part-of=appdeploy",
            "-o",
            "name",
        ])
        .unwrap();
    assert_eq!(left, "");
}

/// What else the namespace holds is listed for the plan, and again before the namespace is deleted. If that fails, it stays.
#[test]
fn uninstallation_reports_that_the_namespace_could_not_be_checked() {
    let cluster = ControlPlane::builder().controller_manager(&["*"]).start().unwrap();
    let proxy = Proxy::before(&cluster, "person", &["system:masters"]).unwrap();
    let plugin = Plugin::of(proxy.kubeconfig());
    for list in [1, 2] {
        plugin.run(INSTALL).ok();
        let lists = Requests::with(&[Verb::List]).on("daemonsets");
        let refusal = Answer::refusal(500, "InternalError", "out of order");
        let rule = proxy.add(Rule::new(lists, Action::Answer(refusal)).from_nth(list, 1));
        let failed = plugin.run(UNINSTALL).fails(1);
        assert_eq!(proxy.hits(rule), 1);
        assert!(
            failed.ends_with(
                "error: namespace/appdeploy-system is not deleted: whether it has other objects is unknown\n  \
                 why:  listing daemonsets failed: out of order\n  \
                 next: solve this, then run the same command again to continue\n"
            ),
            "{failed}"
        );
        assert!(cluster.kubectl(&["get", "namespace", "appdeploy-system"]).is_ok());
        let whole = plugin.run(UNINSTALL);
        assert!(!whole.err.contains("Warning"), "{whole:?}");
        whole.ok();
        assert!(cluster.kubectl(&["get", "namespace", "appdeploy-system"]).is_err());
        proxy.remove(rule);
    }
}

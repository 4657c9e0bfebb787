//! What a person at a terminal sees: questions, a page that is redrawn, a line that is overwritten, and Ctrl-C.

use serde_json::json;
use terminal::{CTRL_C, ENTER, Screen, Terminal};
use testcluster::PooledControlPlane;

use crate::plugin::{Plugin, conditions, status};

fn installed() -> (PooledControlPlane, Plugin) {
    Plugin::installed()
}

/// Waits for a question and answers it.
fn answer(terminal: &Terminal, question: &str, answer: &str) {
    let asked = |screen: &Screen| {
        let (line, _) = screen.cursor();
        screen
            .text()
            .lines()
            .nth(line)
            .is_some_and(|line| line.contains(question))
    };
    terminal.wait(question, asked).unwrap();
    terminal.send(answer).unwrap();
    terminal.send(ENTER).unwrap();
}

#[test]
fn prompts_are_validated_and_can_be_interrupted() {
    let (cluster, plugin) = installed();
    let apps = || cluster.kubectl(&["get", "appdeploys", "-A", "-o", "name"]).unwrap();

    // All answers, one of them wrong at first; an empty one takes the default.
    let wizard = plugin.at_terminal("create");
    answer(&wizard, "Name of the app (in namespace default)", "Shop");
    wizard.shows("error").unwrap();
    wizard.send(&"\u{7f}".repeat(4)).unwrap();
    answer(&wizard, "Name of the app (in namespace default)", "shop");
    answer(&wizard, "Image", "nginx:1.29");
    answer(&wizard, "Port it listens on", "80");
    answer(&wizard, "Host", "");
    answer(&wizard, "Number of pods", "2");
    wizard.shows("Create it?").unwrap();
    assert_eq!(apps(), "", "nothing is created before the last answer");
    wizard.send("y").unwrap();
    let (code, screen) = wizard.end().unwrap();
    assert_eq!(code, 0);
    assert!(
        screen
            .text()
            .ends_with("appdeploy.appdeploy.dev/shop created\nnext: kubectl appdeploy status shop"),
        "{}",
        screen.text()
    );
    assert!(!screen.is_cursor_hidden());
    let spec = cluster.kubectl(&[
        "get",
        "appdeploy",
        "shop",
        "-o",
        "jsonpath={.spec.image} {.spec.port} {.spec.host} {.spec.replicas}",
    ]);
    assert_eq!(spec.unwrap(), "nginx:1.29 80  2");

    // Ctrl-C in the middle of an answer and at the last question, and no to that: nothing is created.
    let left = |wizard: Terminal| {
        wizard.send(CTRL_C).unwrap();
        let (code, screen) = wizard.end().unwrap();
        assert_eq!(code, 130, "{}", screen.text());
        let text = screen.text();
        assert!(text.ends_with("interrupted: nothing was created"), "{text}");
        assert!(!screen.is_cursor_hidden());
    };
    let wizard = plugin.at_terminal("create one");
    wizard.shows("Image").unwrap();
    wizard.send("ngi").unwrap();
    wizard.shows("ngi").unwrap();
    left(wizard);
    let wizard = plugin.at_terminal("create two");
    answer(&wizard, "Image", "nginx");
    answer(&wizard, "Port it listens on", "");
    answer(&wizard, "Number of pods", "");
    wizard.shows("Create it?").unwrap();
    left(wizard);
    let wizard = plugin.at_terminal("create three");
    answer(&wizard, "Image", "nginx");
    answer(&wizard, "Port it listens on", "");
    answer(&wizard, "Number of pods", "");
    wizard.shows("Create it?").unwrap();
    wizard.send("n").unwrap();
    let (code, screen) = wizard.end().unwrap();
    assert_eq!(code, 0);
    assert!(screen.text().ends_with("Nothing was created."), "{}", screen.text());
    assert_eq!(apps(), "appdeploy.appdeploy.dev/shop\n");
}

#[test]
fn watch_is_redrawn_in_place_and_ends_with_ctrl_c() {
    let (cluster, plugin) = installed();
    plugin.run("create shop --image=nginx --port=80").ok();
    let ready = |n: &str| {
        let mut status = conditions(n, "Progressing", "0 of 1 pods are ready", None);
        if n == "True" {
            status = conditions("True", "Ready", "", None);
            status["readyReplicas"] = json!(1);
        }
        status
    };
    status(&cluster, "appdeploy/shop", &ready("False"));

    let watch = plugin.at_terminal("status -w");
    let before = watch.shows("shop: 0 of 1 pods are ready").unwrap();
    assert_eq!(before.line_of("NAME"), Some(0), "{}", before.text());
    status(&cluster, "appdeploy/shop", &ready("True"));
    let after = watch.shows("1/1").unwrap();
    assert_eq!(
        after.line_of("NAME"),
        Some(0),
        "drawn below instead of over:\n{}",
        after.text()
    );
    assert_eq!(after.text().lines().count(), 2, "{}", after.text());

    // More than fits is cut, and what is cut is counted.
    for n in 0..9 {
        plugin.run(&format!("create app-{n} --image=nginx")).ok();
    }
    watch.shows("app-8").unwrap();
    watch.resize(8, 80).unwrap();
    plugin.run("create app-9 --image=nginx").ok();
    let small = watch
        .wait("a cut page", |screen| screen.text().contains("more line"))
        .unwrap();
    assert!(small.text().lines().count() <= 8, "{}", small.text());

    watch.send(CTRL_C).unwrap();
    let (code, screen) = watch.end().unwrap();
    assert_eq!(code, 130);
    assert!(!screen.text().contains("error"), "{}", screen.text());
}

#[test]
fn progress_is_one_line_that_is_overwritten() {
    let (cluster, plugin) = installed();
    let waiting = plugin.at_terminal("create shop --image=nginx --port=80 --wait --timeout=60s");
    let first = waiting.shows("shop: waiting for the operator").unwrap();
    let line = first.line_of("shop: waiting");
    status(
        &cluster,
        "appdeploy/shop",
        &conditions("False", "Progressing", "0 of 1 pods are ready", Some("Reconciling")),
    );
    let second = waiting.shows("shop: 0 of 1 pods are ready").unwrap();
    assert_eq!(
        (second.line_of("shop: 0 of 1"), second.line_of("waiting")),
        (line, None),
        "{}",
        second.text()
    );
    status(&cluster, "appdeploy/shop", &conditions("True", "Ready", "", None));
    let (code, last) = waiting.end().unwrap();
    assert_eq!(
        (code, last.text().as_str()),
        (
            0,
            "appdeploy.appdeploy.dev/shop created\nshop is ready: http://shop.default"
        )
    );

    // The created app is reconciled although the command was interrupted.
    let waiting = plugin.at_terminal("create blog --image=nginx --port=80 --wait");
    waiting.shows("blog: waiting for the operator").unwrap();
    waiting.send(CTRL_C).unwrap();
    let (code, last) = waiting.end().unwrap();
    assert_eq!(code, 130);
    assert!(
        last.text()
            .ends_with("interrupted: changes sent so far continue in the cluster"),
        "{}",
        last.text()
    );
}

#[test]
fn deletion_of_all_apps_asks_for_confirmation() {
    let (cluster, plugin) = installed();
    for name in ["a", "b"] {
        plugin.run(&format!("create {name} --image=nginx")).ok();
    }
    let ask = || {
        let terminal = plugin.at_terminal("delete --all --cascade=background");
        let text = terminal
            .shows("Delete 2 apps (a, b)?")
            .unwrap()
            .text()
            .replace('\n', "");
        assert!(text.contains("namespace default, context "), "{text}");
        assert!(text.contains(&cluster.url()), "{text}");
        terminal
    };
    let refused = ask();
    refused.send("n").unwrap();
    let (code, screen) = refused.end().unwrap();
    assert!(
        code == 1 && screen.text().ends_with("nothing was deleted"),
        "{}",
        screen.text()
    );
    assert_eq!(plugin.run("status -o name").ok().lines().count(), 2);
    let unasked = plugin.run("delete --all --cascade=orphan").fails(2);
    assert!(
        unasked.contains("  next: kubectl appdeploy delete --all --cascade=orphan --yes\n"),
        "{unasked}"
    );
    let agreed = ask();
    agreed.send("y").unwrap();
    let (code, screen) = agreed.end().unwrap();
    assert_eq!(code, 0, "{}", screen.text());
    assert_eq!(plugin.run("status -o name").ok(), "");
}

/// The plan names apps, and another app may take the same name while the question is open.
#[test]
fn uninstallation_is_rejected_if_its_plan_has_changed() {
    let (_cluster, plugin) = installed();
    plugin.run("create shop --image=nginx:1").ok();
    let terminal = plugin.at_terminal("uninstall --delete-apps");
    terminal.shows("Delete 1 app with all").unwrap();
    plugin.run("delete shop --cascade=background").ok();
    plugin.run("create shop --image=nginx:2").ok();
    terminal.send("y").unwrap();
    terminal
        .shows("the objects have changed since they were shown")
        .unwrap();
    let (code, screen) = terminal.end().unwrap();
    assert_eq!(code, 1, "{}", screen.text());
    assert_eq!(plugin.run("status -o name").ok(), "appdeploy.appdeploy.dev/shop\n");
}

//! Runs the commands of the guides, unchanged.

use anyhow::{Context as _, Result, bail, ensure};
use tests::guide;

use crate::environment::{Environment, TestContext};
use crate::queue_server::QueueServer;
use crate::registry::Registry;

pub fn first_app(environment: &Environment, context: &TestContext) -> Result<()> {
    follow(environment, context, "first-app")
}

pub fn podset(environment: &Environment, context: &TestContext) -> Result<()> {
    follow(environment, context, "podset")
}

pub fn looking(environment: &Environment, context: &TestContext) -> Result<()> {
    follow(environment, context, "looking")
}

pub fn changing(environment: &Environment, context: &TestContext) -> Result<()> {
    follow(environment, context, "changing")
}

pub fn containers(environment: &Environment, context: &TestContext) -> Result<()> {
    follow(environment, context, "containers")
}

pub fn gitops(environment: &Environment, context: &TestContext) -> Result<()> {
    follow(environment, context, "gitops")
}

pub fn workload_identity(environment: &Environment, context: &TestContext) -> Result<()> {
    follow(environment, context, "workload-identity")
}

pub fn queue(environment: &Environment, context: &TestContext) -> Result<()> {
    let _server = QueueServer::start(environment)?;
    follow(environment, context, "queue")
}

pub fn debugging(environment: &Environment, context: &TestContext) -> Result<()> {
    follow(environment, context, "debugging")
}

pub fn run_outside(environment: &Environment, context: &TestContext) -> Result<()> {
    let outcome = follow(environment, context, "run-outside");
    // The guide uninstalls the operator.
    environment.install()?;
    outcome
}

pub fn inside_and_outside(environment: &Environment, context: &TestContext) -> Result<()> {
    let _registry = Registry::start(&environment.checkout)?;
    let outcome = follow(environment, context, "inside-and-outside");
    environment.install()?;
    outcome
}

pub fn production(environment: &Environment, context: &TestContext) -> Result<()> {
    let outcome = follow(environment, context, "production");
    let _ = environment
        .shell
        .run("kubectl delete namespace rival --ignore-not-found");
    environment.install()?;
    outcome
}

pub fn config_files(environment: &Environment, context: &TestContext) -> Result<()> {
    let outcome = follow(environment, context, "config-files");
    // The guide installs the operator with another setting.
    environment.install()?;
    outcome
}

pub fn healing(environment: &Environment, context: &TestContext) -> Result<()> {
    let outcome = follow(environment, context, "healing");
    // The guide scales the operator to zero, and might fail before it scales it up.
    environment
        .shell
        .run("kubectl scale deployment appdeploy-operator --namespace appdeploy-system --replicas 2")?;
    outcome
}

fn follow(environment: &Environment, context: &TestContext, name: &str) -> Result<()> {
    let file = environment.checkout.root().join(format!("docs/guide/{name}.md"));
    let text = std::fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
    // The guides use the namespace `default`, the test its own.
    let text = text
        .replace(".default", &format!(".{}", context.namespace))
        .replace("-n default", &format!("-n {}", context.namespace))
        .replace("namespace default", &format!("namespace {}", context.namespace));
    let blocks = guide::blocks(&text);
    ensure!(!blocks.is_empty(), "{} has no commands to run", file.display());
    let printed = context.shell.run(&guide::script(&blocks))?;
    match guide::missing(&blocks, &printed) {
        Some(line) => bail!("{} has the line\n{line}\nbut the output is:\n{printed}", file.display()),
        None => Ok(()),
    }
}

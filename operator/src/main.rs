//! The operator's command.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use operator::settings::Settings;
use operator::{client, run, telemetry};

/// musl's allocator has one lock, and returns memory to the kernel with each burst of work: with it, the operator needs twice the
/// processor time (docs/adr/0020-allocator.md).
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let settings = Settings::parse();
    // One thread for all tasks (docs/adr/0022-one-thread.md).
    let started = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let result = started
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(operate(settings)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The log may not be there yet, and the last words should be readable in any case.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn operate(settings: Settings) -> anyhow::Result<()> {
    let (level, traces) = telemetry::start(&settings)?;
    // Several libraries could bring one; the process has one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = client::connect(settings.kubeconfig.as_deref()).await?;
    let ended = run::run(settings, client, level).await;
    traces.end().await;
    ended
}

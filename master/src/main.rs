//! `pccl-master`: the program around the library.

mod arguments;

use std::io::IsTerminal;
use std::process::ExitCode;

use arguments::Arguments;
use clap::Parser;
use pccl_master::{MasterServer, ServeError, StopHandle};
use tokio::signal;
use tracing_subscriber::EnvFilter;

/// Environment variable that says what to log.
const LOG_VARIABLE: &str = "PCCL_LOG";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match start_log().and_then(|()| run(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pccl-master: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why the program ends with a failure.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{LOG_VARIABLE} makes no sense: {0}")]
    Log(#[from] tracing_subscriber::filter::ParseError),
    #[error("{0}")]
    Serve(#[from] ServeError),
    #[error("the system refused what every program needs: {0}")]
    System(#[from] std::io::Error),
}

fn start_log() -> Result<(), Failure> {
    let wanted = std::env::var(LOG_VARIABLE).unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(wanted)?)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}

/// One thread: no message has to wait for another one to wake up.
fn run(arguments: Arguments) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(serve(arguments));
    // A ring solver may still be at work; nobody waits for its answer.
    runtime.shutdown_background();
    outcome
}

async fn serve(arguments: Arguments) -> Result<(), Failure> {
    let mut builder = MasterServer::builder()
        .config(arguments.config())
        .limits(arguments.limits());
    if let Some(directory) = arguments.record {
        builder = builder.record(directory);
    }
    let signals = Signals::new()?;
    let server = builder.bind(arguments.listen).await?;
    tracing::info!("pccl-master listens on {}", server.local_addr());
    let stop = server.handle();
    let serving = tokio::spawn(server.run());
    tokio::join!(serving, stop_on_signal(signals, stop)).0.ok();
    Ok(())
}

async fn stop_on_signal(mut signals: Signals, stop: StopHandle) {
    let signal = signals.next().await;
    tracing::info!("{signal}: stopping");
    stop.stop();
}

/// The signals that end the program.
struct Signals {
    #[cfg(unix)]
    interrupt: signal::unix::Signal,
    #[cfg(unix)]
    terminate: signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Result<Self, std::io::Error> {
        use signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    fn new() -> Result<Self, std::io::Error> {
        Ok(Self {})
    }

    async fn next(&mut self) -> &'static str {
        match signal::ctrl_c().await {
            Ok(()) => "Ctrl-C",
            // Without the signal the program is ended by force, as the system does by default.
            Err(_) => std::future::pending().await,
        }
    }
}

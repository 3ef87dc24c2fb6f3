//! `pccl-master`: the command-line program around the library.

mod addresses;
mod arguments;
mod commands;
mod tuning;

use std::convert::Infallible;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use addresses::Advertised;
use arguments::{Arguments, Serve};
use clap::Parser;
use commands::CommandError;
use pccl_master::{
    Address, AddressError, JoinString, MasterServer, ServeError, StopHandle, TrustError,
};
use tokio::signal;
use tracing_subscriber::EnvFilter;

/// Environment variable that sets the log filter.
const LOG_VARIABLE: &str = "PCCL_LOG";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = start_log().and_then(|()| match arguments.command {
        Some(command) => Ok(command.run()?),
        None => run(arguments.serve),
    });
    match outcome {
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
    #[error("{0}")]
    Trust(#[from] TrustError),
    #[error("{0}")]
    Address(#[from] AddressError),
    #[error("{0}")]
    Command(#[from] CommandError),
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

/// Runs everything on one thread, so that no message waits for another thread to wake up.
fn run(arguments: Serve) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(serve(arguments));
    // A ring solver may still be at work; nobody waits for its answer.
    runtime.shutdown_background();
    outcome
}

async fn serve(arguments: Serve) -> Result<(), Failure> {
    let signals = Signals::new()?;
    let server = bind(&arguments).await?;
    let listening = server.local_addrs().iter().map(ToString::to_string);
    let listening = listening.collect::<Vec<_>>().join(" and ");
    tracing::info!("pccl-master listens on {listening}");
    announce(&server, &arguments)?;
    let stop = server.handle();
    let serving = tokio::spawn(server.run());
    tokio::select! {
        // A panic was told, and has ended the master.
        served = serving => Ok(served.unwrap_or(Ok(())).map_err(ServeError::from)?),
        never = stop_on_signals(signals, stop) => match never {},
    }
}

async fn bind(arguments: &Serve) -> Result<MasterServer, Failure> {
    let mut builder = MasterServer::builder()
        .config(arguments.config())
        .limits(arguments.limits());
    if let Some(directory) = &arguments.record {
        builder = builder.record(directory);
    }
    if let Some(directory) = &arguments.journal {
        let syncs = !arguments.no_journal_sync;
        builder = builder.journal(directory).journal_sync(syncs);
    }
    if let Some(security) = arguments.security()? {
        builder = builder.security(security);
    }
    if arguments.is_open_to_strangers() && !tracing::enabled!(tracing::Level::WARN) {
        // Who has silenced the log still reads this.
        eprintln!("pccl-master: warning: without encryption, everybody may join and read");
    }
    Ok(builder.bind_all(&arguments.listen.0).await?)
}

/// Prints the join string, and stores the addresses for later invitations.
fn announce(server: &MasterServer, arguments: &Serve) -> Result<(), Failure> {
    if server.trust().is_none() {
        return Ok(());
    }
    let at = match arguments.advertise.as_slice() {
        [] => server.reachable_at(),
        said => Advertised::all_or_port(said, server.local_addr().port())?,
    };
    let Some(join) = server.join_string(&at)? else {
        return Ok(());
    };
    if let Some(directory) = &arguments.identity
        && let Err(error) = addresses::remember(directory, join.via(), &at)
    {
        tracing::warn!(%error, "the addresses cannot be kept: invite with --advertise");
    }
    let places: Vec<String> = at.iter().map(Address::to_string).collect();
    tracing::info!(
        "who has the join string may join, at {}; the master's key is {}",
        places.join(", "),
        join.master()
    );
    print(&join);
    Ok(())
}

/// If standard output is closed, the master serves nevertheless.
fn print(join: &JoinString) {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "join: {}", *join.to_word()).and_then(|()| out.flush());
    if let Err(error) = written {
        tracing::warn!(%error, "the join string cannot be printed");
    }
}

async fn stop_on_signals(mut signals: Signals, stop: StopHandle) -> Infallible {
    loop {
        let signal = signals.next().await;
        tracing::info!("{}: stopping", signal.name);
        match signal.ends_the_run {
            true => stop.stop(),
            false => stop.suspend(),
        }
    }
}

/// A signal that ends the program.
struct Signal {
    name: &'static str,
    /// Whether a run with a journal ends as well.
    ends_the_run: bool,
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

    async fn next(&mut self) -> Signal {
        let (name, ends_the_run) = tokio::select! {
            _ = self.interrupt.recv() => ("SIGINT", true),
            _ = self.terminate.recv() => ("SIGTERM", false),
        };
        Signal { name, ends_the_run }
    }
}

#[cfg(not(unix))]
impl Signals {
    fn new() -> Result<Self, std::io::Error> {
        Ok(Self {})
    }

    async fn next(&mut self) -> Signal {
        match signal::ctrl_c().await {
            Ok(()) => Signal {
                name: "Ctrl-C",
                ends_the_run: true,
            },
            // Without the signal the program is ended by force, as the system does by default.
            Err(_) => std::future::pending().await,
        }
    }
}

//! A command per host, and its output.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal as Kind, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::namespaces::Namespaces;
use super::plan::Plan;

/// What runs in a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The number of the host.
    pub host: usize,
    /// A program and its arguments.
    pub command: Vec<String>,
    /// Whether it is ended when those that are no services have ended.
    pub is_service: bool,
}

/// A command's output is waited for so long after its end: its children may hold it open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A service has so long to end by itself.
const FAREWELL: Duration = Duration::from_secs(2);

/// Signals that end a run: from a keyboard, a supervisor, a terminal that is closed.
#[derive(Debug)]
pub struct Signals([Signal; 3]);

impl Signals {
    /// From this moment on they do not end the process any more. Needs a runtime around it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    /// The exit code that the next signal stands for.
    pub async fn recv(&mut self) -> u8 {
        let [interrupt, terminate, hangup] = &mut self.0;
        let kind = tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
            _ = hangup.recv() => SignalKind::hangup(),
        };
        128 + u8::try_from(kind.as_raw_value()).unwrap_or(0)
    }
}

/// Runs all jobs until those that are no services have ended, and returns the greatest of their exit codes.
/// Lines of their output come out with the name of the host in front. If this is dropped they are killed.
///
/// # Errors
/// A command could not be started.
pub async fn run(plan: &Plan, namespaces: &Namespaces, jobs: &[Job]) -> io::Result<u8> {
    let mut waited_for = JoinSet::new();
    let mut services = Vec::new();
    for job in jobs {
        let running = Running::start(plan, namespaces, job)?;
        if job.is_service {
            services.push(running);
        } else {
            waited_for.spawn(running.end());
        }
    }
    let mut worst = 0;
    while let Some(ended) = waited_for.join_next().await {
        worst = worst.max(code(ended.map_err(io::Error::other)??));
    }
    for service in &services {
        let pid = service.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Kind::TERM);
        }
    }
    for service in services {
        // Who does not go is killed with its host.
        let _ = timeout(FAREWELL, service.end()).await;
    }
    Ok(worst)
}

/// A job that has begun.
struct Running {
    child: Child,
    /// Those who pass its output on.
    relays: Vec<JoinHandle<()>>,
}

impl Running {
    fn start(plan: &Plan, namespaces: &Namespaces, job: &Job) -> io::Result<Self> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespaces.name(job.host)]);
        command
            .args(&job.command)
            .envs(environment(plan, job.host))
            .env("WAN_LAUNCH", namespaces.launch());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let name = plan
            .hosts
            .get(job.host)
            .map_or("", |host| host.name.as_str());
        let mut relays = Vec::new();
        if let Some(out) = child.stdout.take() {
            relays.push(tokio::spawn(relay(out, format!("[{name}] "), io::stdout)));
        }
        if let Some(err) = child.stderr.take() {
            relays.push(tokio::spawn(relay(err, format!("[{name}] "), io::stderr)));
        }
        Ok(Self { child, relays })
    }

    /// Waits for its end and for the rest of its output.
    async fn end(mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        for relay in self.relays {
            let stop = relay.abort_handle();
            if timeout(LAST_WORDS, relay).await.is_err() {
                stop.abort();
            }
        }
        status
    }
}

/// Passes lines on, each with something in front.
async fn relay<W: Write>(from: impl AsyncRead + Unpin, prefix: String, to: impl Fn() -> W) {
    let mut from = BufReader::new(from);
    let mut line = prefix.clone().into_bytes();
    while let Ok(1..) = from.read_until(b'\n', &mut line).await {
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        // Nobody may be there to read it any more, which is no reason to end.
        let _ = to().write_all(&line);
        line.truncate(prefix.len());
    }
}

/// What a command is told of the box that it runs in.
fn environment(plan: &Plan, host: usize) -> Vec<(&'static str, String)> {
    let all = |say: fn((usize, &str)) -> String| {
        let names = plan.hosts.iter().map(|host| host.name.as_str());
        names.enumerate().map(say).collect::<Vec<_>>().join(" ")
    };
    let this = plan.hosts.get(host);
    vec![
        (
            "WAN_HOST",
            this.map_or_else(String::new, |host| host.name.clone()),
        ),
        (
            "WAN_SITE",
            this.map_or_else(String::new, |host| host.site.clone()),
        ),
        ("WAN_NUMBER", host.to_string()),
        ("WAN_COUNT", plan.hosts.len().to_string()),
        ("WAN_ADDRESS", Plan::address(host).to_string()),
        ("WAN_FIRST", Plan::address(0).to_string()),
        (
            "WAN_HOSTS",
            all(|(number, name)| format!("{name}={}", Plan::address(number))),
        ),
        (
            "WAN_ADDRESSES",
            all(|(number, _)| Plan::address(number).to_string()),
        ),
    ]
}

/// As a shell has it.
fn code(status: ExitStatus) -> u8 {
    let signal = || status.signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(u8::MAX)
}

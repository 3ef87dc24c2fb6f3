//! Hosts: network namespaces, each with one TUN device that this process holds the other end of.
//!
//! A namespace has a name that says which process made it, so that what a killed process left behind can be
//! told from what is in use.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, geteuid, kill_process, test_kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::plan::{PREFIX, Plan, System};

/// Why there is no box.
#[derive(Debug, thiserror::Error)]
pub enum NoBox {
    /// This user, kernel or machine cannot have one.
    #[error("{0}")]
    Impossible(String),
    /// The program `ip` did not do what it was asked for.
    #[error("ip {0}: {1}")]
    Ip(String, String),
    /// A device or a setting was refused.
    #[error("{0}: {1}")]
    Refused(String, io::Error),
    /// A thread that made a host has panicked.
    #[error("a thread has panicked")]
    Panicked,
}

/// The name of the device in every host.
const DEVICE: &str = "wan0";

/// Packets that wait until this process reads them; what is beyond is lost without having been sent. TCP
/// puts a whole window there at once.
const DEVICE_QUEUE: u32 = 100_000;

const PREFIX_OF_NAMES: &str = "wan";

/// All hosts of a plan. They end with this value, and so do the processes in them.
#[derive(Debug)]
pub struct Namespaces {
    names: Vec<String>,
}

/// Says why this machine cannot have a box, if so.
///
/// # Errors
/// It cannot.
pub fn is_possible() -> Result<(), NoBox> {
    if !geteuid().is_root() {
        return Err(NoBox::Impossible("network namespaces need root".into()));
    }
    if !Path::new("/dev/net/tun").exists() {
        return Err(NoBox::Impossible("there is no /dev/net/tun".into()));
    }
    // A container may have root and no right to do this.
    let name = format!("{PREFIX_OF_NAMES}-{}-probe{}", std::process::id(), number());
    let impossible = |error: NoBox| NoBox::Impossible(error.to_string());
    ip(&["netns", "add", &name]).map_err(impossible)?;
    ip(&["netns", "del", &name])
}

/// Another one with each call, so that several boxes of one process differ.
fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Namespaces {
    /// Makes the hosts of a plan, each with its address, and the wire's ends of their devices, which do not
    /// block. What processes left behind that are no more is taken away.
    ///
    /// # Errors
    /// Not possible here, or a step of it failed; then nothing is left.
    pub fn new(plan: &Plan) -> Result<(Self, Vec<SyncDevice>), NoBox> {
        is_possible()?;
        sweep();
        let number = number();
        let mut all = Self { names: Vec::new() };
        let mut devices = Vec::new();
        for host in 0..plan.hosts.len() {
            let address = Plan::address(host);
            let name = format!(
                "{PREFIX_OF_NAMES}-{}-{number}-{address}",
                std::process::id()
            );
            ip(&["netns", "add", &name])?;
            all.names.push(name);
            let device = all.within(host, || device(&plan.system))??;
            all.address(host)?;
            devices.push(device);
        }
        Ok((all, devices))
    }

    /// The name of a host's namespace, for `ip netns exec`.
    pub fn name(&self, host: usize) -> &str {
        self.names.get(host).map_or("", String::as_str)
    }

    /// What starts a program on a host, with `{host}` where its address belongs: what `all_reduce_perf --launch`
    /// takes.
    pub fn launch(&self) -> String {
        let first = self.name(0);
        let address = Plan::address(0).to_string();
        let prefix = first.strip_suffix(&address).unwrap_or_default();
        format!("ip netns exec {prefix}{{host}}")
    }

    /// Does something in a host, on a thread of its own. Sockets that it opens are that host's for good.
    ///
    /// # Errors
    /// There is no such host, or the thread panicked.
    pub fn within<R: Send>(&self, host: usize, act: impl FnOnce() -> R + Send) -> Result<R, NoBox> {
        let path = Path::new("/run/netns").join(self.name(host));
        let refused = |error: io::Error| NoBox::Refused(path.display().to_string(), error);
        let namespace = File::open(&path).map_err(refused)?;
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), kind).map(|()| act())
            });
            let result = thread.join().map_err(|_| NoBox::Panicked)?;
            result.map_err(|error| NoBox::Refused(path.display().to_string(), error.into()))
        })
    }

    /// Packets that hosts sent and nobody read, by their numbers: the wire was too slow.
    pub fn unread(&self, host: usize) -> u64 {
        let counter = || {
            let text = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(DEVICE));
            // Eight numbers of what it received, and then of what it sent: bytes, packets, errors, dropped.
            let dropped = line.and_then(|line| line.split_whitespace().nth(12));
            dropped
                .and_then(|dropped| dropped.parse().ok())
                .unwrap_or(0)
        };
        self.within(host, counter).unwrap_or(0)
    }

    fn address(&self, host: usize) -> Result<(), NoBox> {
        let name = self.name(host);
        let address = format!("{}/{PREFIX}", Plan::address(host));
        ip(&["-n", name, "link", "set", "lo", "up"])?;
        ip(&["-n", name, "addr", "add", &address, "dev", DEVICE])?;
        ip(&["-n", name, "link", "set", DEVICE, "up"])
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            end(name);
        }
    }
}

/// Kills the processes of a namespace, and takes it away.
fn end(name: &str) {
    let pids = Command::new("ip").args(["netns", "pids", name]).output();
    let pids = pids.map(|output| output.stdout).unwrap_or_default();
    for pid in String::from_utf8_lossy(&pids).split_whitespace() {
        let pid = pid.parse().ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|pid| *pid != rustix::process::getpid()) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    if let Err(error) = ip(&["netns", "del", name]) {
        eprintln!("wan: {error}");
    }
}

/// Takes away what this process made, whoever holds it: for its end.
pub fn end_all() {
    for name in names() {
        if maker(&name) == Some(rustix::process::getpid()) {
            end(&name);
        }
    }
}

/// Takes away what processes made that are no more.
fn sweep() {
    for name in names() {
        if maker(&name).is_some_and(|maker| test_kill_process(maker).is_err()) {
            end(&name);
        }
    }
}

/// The names of all namespaces.
fn names() -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// The process that a namespace of ours was made by.
fn maker(name: &str) -> Option<Pid> {
    let rest = name.strip_prefix(PREFIX_OF_NAMES)?.strip_prefix('-')?;
    let (pid, _) = rest.split_once('-')?;
    Pid::from_raw(pid.parse().ok()?)
}

/// Opens the device of the host that this thread is in, and tells its kernel what the file says.
fn device(system: &System) -> Result<SyncDevice, NoBox> {
    let refused = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| NoBox::Refused(what, error)
    };
    let builder = DeviceBuilder::new().name(DEVICE).mtu(system.mtu);
    // So that many packets come and go as one, which `train` cuts.
    let builder = builder
        .tx_queue_len(DEVICE_QUEUE)
        .offload(true)
        .enable(false);
    let device = builder.build_sync().map_err(refused("a TUN device"))?;
    device
        .set_nonblocking(true)
        .map_err(refused("a TUN device"))?;
    // The least, what a connection begins with, and the most. The beginnings are the kernel's.
    let memory = system.tcp_memory.max(131_072);
    let mut settings = vec![
        ("tcp_wmem", format!("4096 16384 {memory}")),
        ("tcp_rmem", format!("4096 131072 {memory}")),
        // A connection shall not begin with what an earlier one found out.
        ("tcp_no_metrics_save", "1".to_owned()),
    ];
    settings.extend(
        system
            .congestion
            .clone()
            .map(|name| ("tcp_congestion_control", name)),
    );
    for (name, value) in settings {
        let path = format!("/proc/sys/net/ipv4/{name}");
        std::fs::write(&path, value).map_err(refused(&path))?;
    }
    // Nothing that nobody asked for shall be on the wire.
    let path = format!("/proc/sys/net/ipv6/conf/{DEVICE}/disable_ipv6");
    if Path::new(&path).exists() {
        std::fs::write(&path, "1").map_err(refused(&path))?;
    }
    Ok(device)
}

fn ip(arguments: &[&str]) -> Result<(), NoBox> {
    let failed = |why: String| NoBox::Ip(arguments.join(" "), why);
    let output = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(
        String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    ))
}

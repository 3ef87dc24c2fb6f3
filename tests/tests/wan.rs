//! The internet in a box, with real hosts and packets. Needs root and Linux; without, each test says so.

#![cfg(target_os = "linux")]

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use pccl_tests::wan::driver::Driver;
use pccl_tests::wan::namespaces::{Namespaces, is_possible};
use pccl_tests::wan::plan::Plan;
use pccl_tests::wan::topology::Topology;
use rustix::process::{Pid, Signal, kill_process};

/// A test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

const TWO: &str = "
    [[site]]
    name = 'here'
    hosts = ['a', 'b']
    ";

/// Whether there can be a box here; says why not.
fn can_have_a_box() -> bool {
    let reason = is_possible();
    if let Err(reason) = &reason {
        println!("skipped: {reason}");
    }
    reason.is_ok()
}

/// Two hosts, and what is between them.
struct Two {
    hosts: Namespaces,
    plan: Plan,
    wire: Driver,
}

impl Two {
    fn new(more: &str) -> Self {
        let plan = Topology::parse(&format!("{TWO}{more}"))
            .unwrap()
            .plan()
            .unwrap();
        let (hosts, devices) = Namespaces::new(&plan).unwrap();
        let wire = Driver::start(&plan, 5, devices);
        Self { hosts, plan, wire }
    }

    /// Both ends of a connection that the first host opened.
    fn connection(&self) -> [TcpStream; 2] {
        let bind = || TcpListener::bind((Plan::address(1), 0)).unwrap();
        let listener = self.hosts.within(1, bind).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect(address).unwrap();
        let one = self.hosts.within(0, connect).unwrap();
        let ends = [one, listener.accept().unwrap().0];
        for end in &ends {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        ends
    }

    fn datagrams(&self) -> [UdpSocket; 2] {
        [0, 1].map(|host| {
            let bind = || UdpSocket::bind((Plan::address(host), 0)).unwrap();
            self.hosts.within(host, bind).unwrap()
        })
    }
}

/// A file of a topology that is there as long as this value.
struct TopologyFile(PathBuf);

impl TopologyFile {
    fn new(name: &str, text: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.toml"));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    /// The program with this file.
    fn wan(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wan"));
        command.arg("--topology").arg(&self.0).stdin(Stdio::null());
        command
    }
}

impl Drop for TopologyFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn each_host_runs_its_command_and_the_worst_exit_code_is_the_programs() {
    if !can_have_a_box() {
        return;
    }
    let file = TopologyFile::new("commands", TWO);
    let mut wan = file.wan();
    wan.args(["--host", "b=echo other $WAN_ADDRESS; exit 3"]);
    wan.args(["--service", "a=echo serving; sleep 1000"]);
    wan.args([
        "--",
        "sh",
        "-c",
        "echo $WAN_HOST $WAN_NUMBER $WAN_COUNT $WAN_HOSTS",
    ]);

    let output = wan.output().unwrap();

    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "[a] a 0 2 a=10.77.0.1 b=10.77.0.2",
        "[b] other 10.77.0.2",
        "[a] serving",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn hosts_and_what_runs_in_them_are_gone_after_an_interrupt() {
    if !can_have_a_box() {
        return;
    }
    let file = TopologyFile::new("interrupt", TWO);
    let mut wan = file.wan();
    wan.args(["--", "sh", "-c", "echo ready; sleep 1000"]);
    let mut wan = wan.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(wan.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        assert!(lines.next().unwrap().unwrap().ends_with("ready"));
    }
    let ours = format!("wan-{}-", wan.id());
    let left = || {
        let names = std::fs::read_dir("/run/netns").unwrap().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with(&ours)).count()
    };
    assert_eq!(left(), 2);

    let pid = Pid::from_raw(i32::try_from(wan.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();

    assert_eq!(wan.wait().unwrap().code(), Some(130));
    assert_eq!(left(), 0);
}

#[test]
fn every_byte_gets_through_a_path_that_loses_and_delays_packets() {
    if !can_have_a_box() {
        return;
    }
    let two =
        Two::new("[default]\ndelay = '1 ms'\njitter = '500 us'\nloss = '1 %'\nrate = '2 Gbit/s'");
    let [mut one, mut other] = two.connection();
    let sent: Vec<u8> = (0..16_000_000_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();

    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            one.write_all(&sent).unwrap();
            one.shutdown(std::net::Shutdown::Write).unwrap();
        });
        other.read_to_end(&mut received).unwrap();
    });

    assert!(sent == received);
    let counts = two.wire.end().unwrap();
    assert!(counts[two.plan.way(0, 1).unwrap()].lost > 0);
}

#[test]
fn a_path_that_is_cut_one_way_carries_packets_the_other_way() {
    if !can_have_a_box() {
        return;
    }
    let two = Two::new("[[cut]]\nfrom = 'a'\nto = 'b'\nat = '0 s'");
    let [a, b] = two.datagrams();
    a.set_read_timeout(Some(PATIENCE)).unwrap();

    a.send_to(b"lost", b.local_addr().unwrap()).unwrap();
    b.send_to(b"here", a.local_addr().unwrap()).unwrap();

    let mut heard = [0; 8];
    assert_eq!(a.recv(&mut heard).unwrap(), 4);
    let counts = two.wire.end().unwrap();
    assert_eq!(counts[two.plan.way(0, 1).unwrap()].cut, 1);
    b.set_nonblocking(true).unwrap();
    assert_eq!(
        b.recv(&mut heard).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

#[test]
fn a_connection_that_is_reset_ends_for_both() {
    if !can_have_a_box() {
        return;
    }
    // One of them comes when the connection stands.
    let resets: String = (1..60)
        .map(|at| format!("[[reset]]\nbetween = ['a', 'b']\nat = '{at} s'\n"))
        .collect();
    let two = Two::new(&resets);
    let [mut one, mut other] = two.connection();

    let ends: [io::Result<usize>; 2] = thread::scope(|scope| {
        [&mut one, &mut other]
            .map(|end| scope.spawn(move || end.read(&mut [0])))
            .map(|end| end.join().unwrap())
    });

    for end in ends {
        assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

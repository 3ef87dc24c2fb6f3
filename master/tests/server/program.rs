//! The program `pccl-master` as an operator sees it.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use pccl_core::messages::{Hello, ToMaster, ToPeer};
use pccl_core::wire::{Preamble, offer};
use pccl_master::JoinString;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use crate::support::client::{Client, hello, soon};
use crate::support::messages::announcing;

pub(crate) struct Program {
    process: Child,
    log: Lines<BufReader<ChildStderr>>,
    out: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(listen: &str) -> Self {
        Self::start_with(listen, &[])
    }

    pub(crate) fn start_with(listen: &str, arguments: &[&OsStr]) -> Self {
        Self::start_logging(listen, arguments, "info")
    }

    /// Logs so much.
    pub(crate) fn start_logging(listen: &str, arguments: &[&OsStr], level: &str) -> Self {
        let program = Command::new(env!("CARGO_BIN_EXE_pccl-master"));
        Self::start_by(program, listen, arguments, level)
    }

    /// Started by this command, which may be a shell that becomes the program.
    fn start_by(mut program: Command, listen: &str, arguments: &[&OsStr], level: &str) -> Self {
        let mut process = program
            .args(["--listen", listen])
            .args(arguments)
            .env("PCCL_LOG", level)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log = BufReader::new(process.stderr.take().unwrap()).lines();
        let out = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, log, out }
    }

    /// The join string that it prints.
    pub(crate) async fn join_string(&mut self) -> JoinString {
        let line = soon("a join string", self.out.next_line()).await.unwrap();
        let line = line.expect("a line on the standard output");
        line.strip_prefix("join: ").expect(&line).parse().unwrap()
    }

    /// Ends it, and gives what it has logged since the last line that was read.
    pub(crate) async fn rest_of_the_log(mut self) -> String {
        self.signal("TERM").await;
        let mut rest = String::new();
        while let Some(line) = soon("the log", self.log.next_line()).await.unwrap() {
            rest += &line;
            rest.push('\n');
        }
        rest
    }

    /// The next line that says this.
    pub(crate) async fn line(&mut self, with: &str) -> String {
        let found = async {
            while let Some(line) = self.log.next_line().await.unwrap() {
                if line.contains(with) {
                    return line;
                }
            }
            panic!("the log ended without {with:?}");
        };
        soon(with, found).await
    }

    pub(crate) async fn address(&mut self) -> SocketAddr {
        let line = self.line("listens on").await;
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    async fn signal(&self, name: &str) {
        let id = self.process.id().unwrap().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().await;
        assert!(sent.unwrap().success());
    }
}

#[tokio::test]
async fn the_program_tells_its_peers_and_ends_well_on_a_signal() {
    for signal in ["TERM", "INT"] {
        let mut program = Program::start("127.0.0.1:0");
        let address = program.address().await;
        let (mut founder, _) = Client::found(Client::dial(address).await).await;

        program.signal(signal).await;

        assert_eq!(founder.hear().await, ToPeer::Stopping);
        let status = soon("the end", program.process.wait()).await.unwrap();
        assert_eq!(status.code(), Some(0));
    }
}

#[tokio::test]
async fn the_log_tells_who_came_and_why_somebody_had_to_go() {
    let mut program = Program::start("127.0.0.1:0");
    let address = program.address().await;
    let (mut founder, _) = Client::found(Client::dial(address).await).await;

    founder.say_bytes(&announcing(16, &[0xff; 16])).await;

    program.line("peer 1 joins group 0 from 127.0.0.1").await;
    program.line("peer 1 is accepted").await;
    program.line("epoch 1 begins").await;
    program.line("peer 1 is kicked: it sent something").await;
}

#[tokio::test]
async fn the_log_tells_at_which_site_a_newcomer_is_if_it_names_one() {
    let mut program = Program::start("127.0.0.1:0");
    let address = program.address().await;
    let (_founder, _) = Client::found(Client::dial(address).await).await;
    let mut newcomer = Client::introduce(Client::dial(address).await).await;
    let site = "Zürich \"2\"".to_owned().try_into().unwrap();

    newcomer
        .say(&ToMaster::Hello(Hello { site, ..hello() }))
        .await;

    let unnamed = program.line("peer 1 joins").await;
    assert!(!unnamed.contains("site"), "{unnamed}");
    let named = program.line("peer 2 joins group 0 from 127.0.0.1").await;
    assert!(named.contains(r#", site "Zürich \"2\"", "#), "{named}");
}

#[tokio::test]
async fn the_log_tells_that_somebody_was_turned_away_and_what_to_do() {
    let few = ["--max-newcomers-per-address", "1"].map(OsStr::new);
    let mut program = Program::start_with("127.0.0.1:0", &few);
    let address = program.address().await;
    let (_founder, _) = Client::found(Client::dial(address).await).await;
    let _newcomer = Client::register(Client::dial(address).await).await;

    let mut another = Client::dial(address).await;
    let answer = soon("an answer", offer(&mut another, &Preamble::CONTROL)).await;

    let refused = answer.unwrap_err().to_string();
    assert!(refused.contains("--max-newcomers-per-address"), "{refused}");
    let line = program.line("is turned away").await;
    assert!(
        line.contains("WARN") && line.contains("127.0.0.1"),
        "{line}"
    );
}

#[tokio::test]
async fn a_port_in_use_gives_one_line_and_a_failure() {
    let mut first = Program::start("127.0.0.1:0");
    let address = first.address().await.to_string();

    let mut second = Program::start(&address);

    let line = second.line("already in use").await;
    assert!(line.contains(&address), "{line}");
    let status = soon("the end", second.process.wait()).await.unwrap();
    assert_eq!(status.code(), Some(1));
    assert_eq!(second.log.next_line().await.unwrap(), None);
}

#[tokio::test]
async fn a_name_is_as_good_as_an_address_to_listen_on() {
    let mut program = Program::start("localhost:0");

    let line = program.line("listens on").await;
    let all: Vec<_> = line
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();

    assert!(!all.is_empty(), "{line}");
    for address in all {
        drop(Client::register(Client::dial(address).await).await);
    }
}

/// As a session of a shell with a low limit has it.
#[tokio::test]
async fn a_master_without_descriptors_says_so_once_and_goes_on_when_some_are_free() {
    let mut shell = Command::new("sh");
    let master = env!("CARGO_BIN_EXE_pccl-master");
    let script = format!("ulimit -n 32; exec '{master}' \"$@\"");
    shell.args(["-c", &script, "sh"]);
    let mut program = Program::start_by(shell, "127.0.0.1:0", &[], "debug");
    let address = program.address().await;

    let crowd: Vec<_> = (0..40)
        .map(|_| std::net::TcpStream::connect(address).unwrap())
        .collect();
    let line = program.line("connections could not be accepted").await;
    for _ in 0..3 {
        program.line("a connection could not be accepted").await;
    }
    drop(crowd);

    drop(Client::register(Client::dial(address).await).await);
    let words =
        "too many files and sockets are open here: raise the limit of the process (ulimit -n)";
    assert!(line.contains("WARN") && line.contains(words), "{line}");
    let rest = program.rest_of_the_log().await;
    assert!(
        !rest.contains("connections could not be accepted"),
        "{rest}"
    );
}

#[tokio::test]
async fn an_ipv6_wildcard_serves_ipv4_as_well() {
    let mut program = Program::start_with("[::]:0", &["--plain".as_ref()]);
    let port = program.address().await.port();

    let four = Client::dial(([127, 0, 0, 1], port).into()).await;
    let (founder, _) = Client::found(four).await;

    assert_eq!(founder.peer.0, 1);
}

#[tokio::test]
async fn what_a_killed_master_recorded_comes_out_the_same_in_the_replay() {
    let name = format!("master-record-{}", std::process::id());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let arguments = ["--record".as_ref(), directory.as_os_str()];
    let mut program = Program::start_with("127.0.0.1:0", &arguments);
    let address = program.address().await;
    let _founder = Client::found(Client::dial(address).await).await;

    program.process.kill().await.unwrap();

    let summary = pccl_recording::conform(&directory).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    assert!(summary.is_equal(), "{summary}");
    assert_eq!(summary.equal_logs_of("master"), 1);
    assert!(summary.records() > 0);
}

#[tokio::test]
async fn a_master_that_cannot_record_says_so_and_serves() {
    let no_directory = Path::new(env!("CARGO_BIN_EXE_pccl-master"));
    let arguments = ["--record".as_ref(), no_directory.as_os_str()];
    let mut program = Program::start_with("127.0.0.1:0", &arguments);
    let address = program.address().await;

    program.line("nothing more is recorded").await;

    let (founder, _) = Client::found(Client::dial(address).await).await;
    assert_eq!(founder.peer.0, 1);
}

//! `--conform` as a program: what it prints, and how it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pccl_core::id::GroupId;
use pccl_core::master::{Master, MasterConfig, MasterInput};
use pccl_core::peer::{Call, Peer, PeerConfig, PeerInput};
use pccl_recording::Recorded;

/// A directory of one test, which is gone when the test is over.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let name = format!("conform-{test}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// With the logs of a master and of a peer.
    fn with_logs(test: &str) -> Self {
        let directory = Self::new(test);
        let here = Some(directory.0.as_path());
        let mut master = Recorded::<Master>::begin(MasterConfig::default(), here);
        master.handle(MasterInput::Stop, &mut Vec::new());
        let config = PeerConfig {
            group: GroupId(0),
            port: 48149,
            advertise: None,
            lanes: 4,
        };
        let mut peer = Recorded::<Peer>::begin(config, here);
        peer.handle(PeerInput::Call(Call::Connect), &mut Vec::new());
        directory
    }

    fn conform(&self) -> Output {
        Command::new(env!("CARGO_BIN_EXE_verification"))
            .arg("--conform")
            .arg(&self.0)
            .output()
            .unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn logs_that_are_equal_are_told_one_by_one_and_the_program_succeeds() {
    let directory = Directory::with_logs("equal");

    let output = directory.conform();

    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("master-") && told.contains("peer-"), "{told}");
    assert!(told.contains("100 % equal"), "{told}");
}

#[test]
fn one_changed_byte_makes_the_program_fail() {
    let directory = Directory::with_logs("changed");
    let mut logs = fs::read_dir(&directory.0).unwrap();
    let log = logs.next().unwrap().unwrap().path();
    let mut bytes = fs::read(&log).unwrap();
    let last = bytes.last_mut().unwrap();
    *last ^= 1;
    fs::write(&log, bytes).unwrap();

    let output = directory.conform();

    let told = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success(), "{told}");
    assert!(told.contains("DAMAGED"), "{told}");
}

#[test]
fn a_directory_without_any_log_is_a_failure() {
    let directory = Directory::new("nothing");

    let output = directory.conform();

    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{told}");
    assert!(told.contains("nothing was recorded there"), "{told}");
}

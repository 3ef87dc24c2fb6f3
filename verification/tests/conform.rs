//! `--conform` as a program: what it prints, and how it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pccl_core::id::{CallId, GroupId, PeerId, Round};
use pccl_core::master::{Master, MasterConfig, MasterInput};
use pccl_core::peer::{Call, Peer, PeerConfig, PeerInput};
use pccl_core::site::SiteName;
use pccl_core::topology::LinkId;
use pccl_recording::Recorded;

use run::{Files, Rings, Run};

#[allow(dead_code)]
#[path = "../../model/tests/recorded/doctor.rs"]
mod doctor;
#[allow(dead_code)]
#[path = "../../model/tests/recorded/run.rs"]
mod run;

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
            site: SiteName::NONE,
            name: Default::default(),
            collectives_max: 16,
        };
        let mut peer = Recorded::<Peer>::begin(config, here);
        peer.handle(
            PeerInput::Call {
                call: CallId(1),
                what: Call::Connect,
            },
            &mut Vec::new(),
        );
        directory
    }

    /// With these logs.
    fn of(test: &str, files: &Files) -> Self {
        let directory = Self::new(test);
        for (name, log) in files {
            fs::write(directory.0.join(name).with_extension("pccl-log"), log).unwrap();
        }
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
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("nothing was recorded there"), "{told}");
}

/// What is said of these logs, and how the program ends.
fn said_of(test: &str, files: &Files) -> (String, Option<i32>) {
    let output = Directory::of(test, files).conform();
    let told = String::from_utf8(output.stdout).unwrap();
    (told, output.status.code())
}

fn sound_run() -> Run {
    let mut run = Run::of(3);
    run.reduces();
    run
}

#[test]
fn a_sound_run_ends_with_0_and_says_what_was_joined() {
    let (told, code) = said_of("sound", &sound_run().ends());

    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("and 3 peers"), "{told}");
    assert!(told.contains("1 collectives committed"), "{told}");
}

#[test]
fn a_log_with_a_cut_end_and_a_missing_log_end_with_3_and_are_called_that() {
    let mut files = sound_run().ends();
    doctor::cut(&mut files, "peer-1", 3, 0);
    let (told, code) = said_of("cut", &files);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("CUT: peer-1"), "{told}");

    let mut files = sound_run().ends();
    files.remove("peer-1");
    let (told, code) = said_of("missing", &files);
    assert_eq!(code, Some(3), "{told}");
    assert!(
        told.contains("MISSING: master") && told.contains("peer 2"),
        "{told}"
    );
}

#[test]
fn a_report_of_a_round_that_was_never_adopted_ends_with_1_and_is_called_that() {
    let mut files = sound_run().ends();
    doctor::change_peer(&mut files, "peer-1", |inputs| {
        let leave = PeerInput::Leave;
        let at = inputs.iter().position(|input| *input == leave).unwrap();
        let (link, built) = (LinkId::to(PeerId(1)), Round(999));
        inputs.insert(at, PeerInput::LinkBroke { link, built });
    });

    let (told, code) = said_of("never-adopted", &files);

    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("100 % equal"), "{told}");
    assert!(
        told.contains("UNSOUND: peer-1") && told.contains("never adopted"),
        "{told}"
    );
}

#[test]
fn a_run_of_which_every_reduce_fails_without_a_cause_ends_with_1_and_is_called_that() {
    let mut run = Run::of(3);
    run.rings = Rings::LostForNothing;
    (0..4).for_each(|_| run.reduces());

    let (told, code) = said_of("no-progress", &run.ends());

    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("100 % equal"), "{told}");
    assert!(told.contains("NO PROGRESS: master"), "{told}");
    assert!(told.contains("WITHOUT CAUSE: master"), "{told}");
}

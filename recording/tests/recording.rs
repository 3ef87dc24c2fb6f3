//! Machines that are recorded into files, and the replay of those files.

use std::fs;
use std::path::{Path, PathBuf};

use pccl_core::id::{CallId, GroupId};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterTimer};
use pccl_core::peer::{Call, Peer, PeerConfig, PeerInput};
use pccl_recording::{NothingToReplay, Recorded, ReplayOutcome, conform};

/// A directory of one test, which is gone when the test is over.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let name = format!("recording-{test}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The names of its files.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn master(directory: &Directory) -> Recorded<Master> {
    Recorded::begin(MasterConfig::default(), Some(&directory.0))
}

fn peer(directory: &Directory) -> Recorded<Peer> {
    let config = PeerConfig {
        site: Default::default(),
        name: Default::default(),
        group: GroupId(0),
        port: 48149,
        advertise: None,
        lanes: 4,
        collectives_max: 16,
    };
    Recorded::begin(config, Some(&directory.0))
}

/// A directory with the logs of a master that was stopped and a peer that has connected.
fn two_logs(test: &str) -> Directory {
    let directory = Directory::new(test);
    master(&directory).handle(MasterInput::Stop, &mut Vec::new());
    peer(&directory).handle(
        PeerInput::Call {
            call: CallId(1),
            what: Call::Connect,
        },
        &mut Vec::new(),
    );
    directory
}

#[test]
fn what_was_recorded_is_equal_and_told_in_one_line_each() {
    let directory = two_logs("equal");

    let summary = conform(&directory.0).unwrap();

    assert!(summary.is_equal(), "{summary}");
    assert_eq!(summary.equal_logs_of("master"), 1);
    assert_eq!(summary.equal_logs_of("peer"), 1);
    assert_eq!(summary.records(), 2);
    let told = summary.to_string();
    assert_eq!(told.lines().count(), 4, "{told}");
    assert!(told.contains("100 % equal"), "{told}");
}

#[test]
fn a_recorded_machine_is_the_machine() {
    let directory = Directory::new("same");
    let mut recorded = master(&directory);
    let mut plain = Master::new(MasterConfig::default());
    let (mut said, mut expected) = (Vec::new(), Vec::new());
    for input in [
        MasterInput::TimerFired(MasterTimer::HeartbeatDue),
        MasterInput::Stop,
    ] {
        recorded.handle(input.clone(), &mut said);
        plain.handle(input, &mut expected);
    }

    assert_eq!(said, expected);
    assert_eq!(recorded.machine(), &plain);
}

#[test]
fn each_machine_of_a_process_has_a_file_of_its_own() {
    let directory = Directory::new("files");

    let machines = [peer(&directory), peer(&directory)];

    let process = std::process::id();
    let names = [0, 1].map(|n| format!("peer-{process}-{n}.pccl-log"));
    assert_eq!(directory.files(), names);
    assert!(machines.iter().all(Recorded::is_recording));
}

#[test]
fn a_directory_that_is_missing_is_made() {
    let directory = Directory::new("made");
    let deep = directory.0.join("a/b");

    let recorded = Recorded::<Master>::begin(MasterConfig::default(), Some(&deep));

    assert!(recorded.is_recording());
    assert_eq!(fs::read_dir(deep).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn a_log_is_readable_by_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let directory = two_logs("mode");

    for file in directory.files() {
        let mode = fs::metadata(directory.0.join(file))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_machine_whose_directory_cannot_be_made_runs_unrecorded() {
    let directory = Directory::new("not-made");
    let file = directory.0.join("file");
    fs::write(&file, "").unwrap();
    let mut said = Vec::new();

    let mut recorded = Recorded::<Master>::begin(MasterConfig::default(), Some(&file));
    recorded.handle(MasterInput::Stop, &mut said);

    assert!(!recorded.is_recording());
    assert!(!said.is_empty());
}

#[test]
fn without_a_directory_nothing_is_recorded() {
    let mut said = Vec::new();

    let mut recorded = Recorded::<Master>::begin(MasterConfig::default(), None);
    recorded.handle(MasterInput::Stop, &mut said);

    assert!(!recorded.is_recording());
    assert!(!said.is_empty());
}

#[test]
fn one_changed_byte_of_a_log_fails_and_is_told_with_its_file() {
    let directory = two_logs("changed");
    let name = &directory.files()[0];
    let path = directory.0.join(name);
    let written = fs::read(&path).unwrap();
    for at in 0..written.len() {
        let mut changed = written.clone();
        changed[at] ^= 1;
        fs::write(&path, changed).unwrap();

        let summary = conform(&directory.0).unwrap();

        assert!(!summary.is_equal(), "byte {at} of {name} went unnoticed");
        assert_eq!(summary.failed(), 1);
        assert!(matches!(summary.logs[0].outcome, ReplayOutcome::Failed(_)));
        assert!(
            summary.to_string().contains("1 of 2 logs FAILED"),
            "{summary}"
        );
    }
}

#[test]
fn a_directory_without_logs_is_an_error() {
    let directory = Directory::new("no-logs");
    fs::write(directory.0.join("notes.txt"), "no log").unwrap();

    let nothing = conform(&directory.0);

    assert!(matches!(nothing, Err(NothingToReplay::NoLogs { .. })));
    let missing = conform(&directory.0.join("missing"));
    assert!(matches!(missing, Err(NothingToReplay::Directory { .. })));
}

#[test]
fn logs_without_any_output_prove_nothing() {
    let directory = Directory::new("silent");
    fs::write(directory.0.join("peer-1-0.pccl-log"), "").unwrap();
    drop(master(&directory));

    let summary = conform(&directory.0).unwrap();

    assert_eq!(summary.failed(), 0);
    assert!(!summary.is_equal(), "{summary}");
}

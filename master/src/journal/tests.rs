//! A run that was killed goes on; a directory that makes no sense is refused.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use pccl_core::element::ElementType;
use pccl_core::id::{ConnId, ContentHash, GroupId, PeerId, ProtocolVersion, Revision};
use pccl_core::log::{Damage, LogError, ReplayError};
use pccl_core::messages::{Hello, ToMaster};
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::site::SiteName;

use super::*;

/// A directory of one test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pccl-journal-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn open(&self) -> Result<Begun, JournalError> {
        Journal::open(&self.0, true, MasterConfig::default())
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|kind| kind == "pccl-journal"))
            .collect();
        files.sort();
        files
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn connected(conn: u64) -> MasterInput {
    MasterInput::Connected {
        conn: ConnId(conn),
        hello: Hello {
            protocol: ProtocolVersion::CURRENT,
            group: GroupId(0),
            port: 1,
            advertise: None,
            lanes: 1,
            site: SiteName::NONE,
            name: Default::default(),
        },
        from: [192, 0, 2, 1].into(),
        identity: None,
    }
}

fn heartbeat() -> MasterInput {
    MasterInput::Message {
        peer: PeerId(1),
        message: ToMaster::Heartbeat { moved: false },
    }
}

/// A vote to synchronize takes more than this.
const LONG_VOTE_BYTES: u64 = 1024 * 1024;

/// It means nothing, and is kept nevertheless.
fn long_vote() -> MasterInput {
    let entry = |number: u64| EntryInfo {
        name: format!("{number:0250}"),
        element: ElementType::F32,
        count: 1,
        hash: ContentHash(1),
        allow_content_inequality: false,
    };
    MasterInput::Message {
        // Nobody.
        peer: PeerId(99),
        message: ToMaster::SyncSharedState(SyncVote {
            revision: Revision(1),
            strategy: SyncStrategy::EnforcePopular,
            restart: false,
            entries: (0..LONG_VOTE_BYTES / 250).map(entry).collect(),
        }),
    }
}

/// Takes a step as a desk does, without flushing.
fn step(begun: &mut Begun, input: MasterInput) {
    let mut outputs = Vec::new();
    begun.journal.heard(&input).unwrap();
    begun.durable.handle(input, &mut outputs);
    begun.journal.said(&outputs).unwrap();
}

#[test]
fn another_process_has_the_run_that_the_one_before_had() {
    let scratch = Scratch::new();
    let mut first = scratch.open().unwrap();
    assert_eq!(first.replayed, None);
    for input in [connected(1), heartbeat(), connected(2)] {
        step(&mut first, input);
        first.journal.flush().unwrap();
    }
    // What nobody has been told is lost with the process.
    let durable = first.durable.clone();
    step(&mut first, heartbeat());
    drop(first.journal);

    let second = scratch.open().unwrap();

    assert_eq!(second.durable, durable);
    assert_eq!(second.replayed.unwrap().records, 3);
    assert_eq!(scratch.files().len(), 1);
}

#[test]
fn a_torn_record_is_as_if_it_had_never_been() {
    let scratch = Scratch::new();
    let mut first = scratch.open().unwrap();
    step(&mut first, connected(1));
    first.journal.flush().unwrap();
    let durable = first.durable.clone();
    step(&mut first, connected(2));
    first.journal.flush().unwrap();
    drop(first.journal);
    let file = scratch.files().remove(0);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();

    let second = scratch.open().unwrap();

    assert_eq!(second.durable, durable);
    assert!(second.replayed.unwrap().torn > 0);
}

#[test]
fn a_changed_byte_is_found_and_nothing_is_changed() {
    let scratch = Scratch::new();
    let mut first = scratch.open().unwrap();
    step(&mut first, connected(1));
    first.journal.flush().unwrap();
    drop(first.journal);
    let file = scratch.files().remove(0);
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&file, &bytes).unwrap();

    let error = scratch.open().err().unwrap();

    let JournalError::Replay { error, .. } = error else {
        panic!("{error}");
    };
    let damage = Damage::BadChecksum;
    assert!(
        matches!(error, ReplayError::Log(LogError { damage: found, .. }) if found == damage),
        "{error}"
    );
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

#[test]
fn two_masters_do_not_share_a_directory() {
    let scratch = Scratch::new();
    let first = scratch.open().unwrap();

    let refused = scratch.open().err().unwrap();
    assert!(matches!(refused, JournalError::InUse { .. }), "{refused}");

    drop(first);
    scratch.open().unwrap();
}

#[test]
fn a_journal_that_has_become_long_is_followed_by_a_short_one() {
    let scratch = Scratch::new();
    let mut begun = scratch.open().unwrap();
    step(&mut begun, connected(1));
    let mut votes = 0;
    while !begun.journal.is_long() {
        step(&mut begun, long_vote());
        begun.journal.flush().unwrap();
        votes += 1;
        assert!(
            votes <= LONG_BYTES / LONG_VOTE_BYTES,
            "{} bytes",
            begun.journal.bytes
        );
    }
    let before = scratch.files();

    begun.journal.compact(&begun.durable).unwrap();

    assert!(!begun.journal.is_long());
    let after = scratch.files();
    assert_eq!((before.len(), after.len()), (1, 1));
    assert_ne!(before, after);
    step(&mut begun, heartbeat());
    begun.journal.flush().unwrap();
    drop(begun.journal);
    let next = scratch.open().unwrap();
    assert_eq!(next.durable, begun.durable);
    assert_eq!(next.replayed.unwrap().records, 1);
}

#[test]
fn a_file_that_was_not_finished_is_not_the_journal() {
    let scratch = Scratch::new();
    let mut first = scratch.open().unwrap();
    step(&mut first, connected(1));
    first.journal.flush().unwrap();
    let durable = first.durable.clone();
    drop(first.journal);
    // As if the process had died while it wrote a snapshot.
    fs::write(scratch.0.join("next"), b"PCCL-LOG").unwrap();

    assert_eq!(scratch.open().unwrap().durable, durable);
}

#[test]
fn a_disk_that_takes_nothing_more_is_told_and_the_journal_stays_as_it_was() {
    let scratch = Scratch::new();
    let mut first = scratch.open().unwrap();
    step(&mut first, connected(1));
    first.journal.flush().unwrap();
    let durable = first.durable.clone();
    first.journal.fill_the_disk();

    step(&mut first, connected(2));
    let error = first.journal.flush().unwrap_err();

    assert!(matches!(error, JournalError::File { .. }), "{error}");
    drop(first.journal);
    assert_eq!(scratch.open().unwrap().durable, durable);
}

#[test]
fn a_run_that_has_ended_leaves_no_journal() {
    let scratch = Scratch::new();
    let mut first = scratch.open().unwrap();
    step(&mut first, connected(1));
    first.journal.flush().unwrap();

    first.journal.end();
    drop(first.journal);

    assert_eq!(scratch.files(), Vec::<PathBuf>::new());
    assert_eq!(scratch.open().unwrap().replayed, None);
}

#[test]
fn a_run_that_was_being_stopped_when_its_process_was_killed_is_over() {
    let scratch = Scratch::new();
    let mut first = scratch.open().unwrap();
    step(&mut first, connected(1));
    step(&mut first, MasterInput::Stop);
    first.journal.flush().unwrap();
    drop(first.journal);

    let second = scratch.open().unwrap();

    assert_eq!(second.replayed, None);
    assert!(second.durable.sessions.is_empty());
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_the_key_of_the_tickets() {
    use std::os::unix::fs::PermissionsExt;

    let scratch = Scratch::new();
    let _begun = scratch.open().unwrap();

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&scratch.0), 0o700);
    assert_eq!(mode(&scratch.files()[0]), 0o600);
}

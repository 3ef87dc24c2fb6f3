//! A desk with a journal: what it tells, what it keeps, and what another one has of it.

use std::path::PathBuf;

use pccl_core::messages::ToPeer;

use super::*;
use crate::connection::{Resumed, Returning, Session};
use crate::journal::Begun;

/// A directory of one test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let name = format!("pccl-desk-{}-{test}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn journal(&self) -> Begun {
        Journal::open(&self.0, true, MasterConfig::default()).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

async fn office_of(scratch: &Scratch) -> Office {
    let keep = |desk: &mut Desk| desk.keep(scratch.journal()).unwrap();
    Office::open_with(MasterConfig::default(), Limits::default(), keep).await
}

impl Office {
    /// The peer asks, and the master answers at once.
    fn question_arrives(&mut self) {
        self.desk.take(Event::Message {
            peer: self.peer,
            conn: ConnId(1),
            message: ToMaster::ArePeersPending,
            share: None,
        });
    }

    /// Number of messages that the peer's connection may write.
    fn released(&self) -> u64 {
        self.desk.peers[&self.peer].outbox.released()
    }
}

/// Comes back to this desk, having received so many messages.
async fn comes_back(desk: &mut Desk, peer: PeerId, received: u64) -> Option<Resumed> {
    let (resumed, mut answer) = oneshot::channel();
    let from = SocketAddr::from(([127, 0, 0, 1], 2));
    let turn = Gate::new(&Limits::default()).arrive(from.ip());
    let permit = turn.expect("a turn").comes().await.expect("a place");
    desk.take(Event::Return(Returning {
        conn: ConnId(0),
        from,
        session: Session {
            peer,
            token: desk.mint.session(peer),
            received,
            attempt: 1,
        },
        identity: None,
        pulse: Arc::clone(permit.pulse()),
        granted: Arc::new(Granted::new(permit)),
        resumed,
    }));
    answer.try_recv().ok()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_before_it_is_in_the_journal() {
    let scratch = Scratch::new("released");
    let mut office = office_of(&scratch).await;
    assert_eq!(office.released(), 0);

    office.desk.release();
    let welcome_and_ring = office.released();
    office.question_arrives();
    let before = office.released();
    office.desk.release();

    assert_eq!((welcome_and_ring, before), (2, 2));
    assert_eq!(office.released(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_the_disk_does_not_take_is_told_to_nobody_and_ends_the_process() {
    let scratch = Scratch::new("full");
    let mut office = office_of(&scratch).await;
    office.desk.release();
    let journaling = office.desk.journal.as_mut().unwrap();
    journaling.journal.fill_the_disk();

    office.question_arrives();
    office.desk.release();

    assert_eq!(office.released(), 2);
    assert!(office.desk.stopped);
    office.question_arrives();
    office.desk.release();
    assert_eq!(office.released(), 2, "it does not recover");
    let ended = office.desk.end_journal(Stopping::ForGood);
    assert!(matches!(ended, Err(JournalError::File { .. })), "{ended:?}");
    let peers = scratch.journal().durable.sessions;
    assert!(peers.contains_key(&office.peer), "the run can go on");
}

#[tokio::test(start_paused = true)]
async fn another_desk_has_the_peers_of_the_one_before_and_they_come_back() {
    let scratch = Scratch::new("next");
    let mut office = office_of(&scratch).await;
    office.question_arrives();
    office.desk.release();
    // Nobody has been told of this one.
    office.question_arrives();
    let (peer, limits) = (office.peer, Limits::default());
    drop(office);

    let (_events, queue) = mpsc::channel(1);
    let mut desk = Desk::new(MasterConfig::default(), limits.clone(), queue, None);
    desk.keep(scratch.journal()).unwrap();

    let resumed = comes_back(&mut desk, peer, 1).await.expect("the session");
    // The hello and one question.
    assert_eq!(resumed.heard, 2);
    let kept = resumed.outbox.kept().unwrap();
    let answer = ToPeer::PeersPending { pending: false };
    assert_eq!(kept.iter().last(), Some(&answer));
    assert_eq!(kept.sent(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_come_back_to_the_next_desk_has_time_to_miss_the_one_before() {
    let scratch = Scratch::new("away");
    let mut office = office_of(&scratch).await;
    office.desk.release();
    let (peer, stop) = (office.peer, office.stop.clone());
    drop(office);
    let (_events, queue) = mpsc::channel(1);
    let mut desk = Desk::new(MasterConfig::default(), Limits::default(), queue, None);
    desk.keep(scratch.journal()).unwrap();
    let begun = Instant::now();

    while desk.peers.contains_key(&peer) {
        desk.turn(pin!(stop.stopped())).await;
        desk.release();
    }

    assert_eq!(begun.elapsed(), 2 * MasterConfig::default().silence);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_was_told_more_than_the_journal_knows_is_refused() {
    let scratch = Scratch::new("ahead");
    let mut office = office_of(&scratch).await;
    office.desk.release();
    let peer = office.peer;
    drop(office);
    let (_events, queue) = mpsc::channel(1);
    let mut desk = Desk::new(MasterConfig::default(), Limits::default(), queue, None);
    desk.keep(scratch.journal()).unwrap();

    assert!(comes_back(&mut desk, peer, 3).await.is_none());

    assert!(!desk.peers.contains_key(&peer));
}

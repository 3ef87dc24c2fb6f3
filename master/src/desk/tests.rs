//! Which of a deadline and a message that has arrived goes first.

mod durable;
mod sessions;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::{ConnId, GroupId, PeerId, ProtocolVersion};
use pccl_core::master::MasterConfig;
use pccl_core::messages::{Hello, ToMaster};
use pccl_core::site::SiteName;
use tokio::sync::{mpsc, oneshot};
use tokio::time::advance;

use super::*;
use crate::gate::Gate;
use crate::limits::Limits;

const HEARTBEAT: Duration = Duration::from_secs(1);
const SILENCE: Duration = Duration::from_secs(5);

/// A desk with one registered peer, whose heartbeat is due and whose silence ends as in `config`.
struct Office {
    desk: Desk,
    events: mpsc::Sender<Event>,
    stop: StopHandle,
    peer: PeerId,
}

impl Office {
    async fn turn(&mut self) -> Stopping {
        self.desk.turn(pin!(self.stop.stopped())).await
    }

    async fn open(heartbeat: Duration, silence: Duration) -> Self {
        let config = MasterConfig {
            heartbeat,
            silence,
            ..MasterConfig::default()
        };
        Self::open_with(config, Limits::default(), |_| ()).await
    }

    /// With a desk that is prepared so.
    async fn open_with(
        config: MasterConfig,
        limits: Limits,
        prepare: impl FnOnce(&mut Desk),
    ) -> Self {
        let (events, queue) = mpsc::channel(64);
        let mut desk = Desk::new(config, limits, queue, None);
        prepare(&mut desk);
        let (registered, mut identity) = oneshot::channel();
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        let turn = Gate::new(&Limits::default()).arrive(from.ip());
        let permit = turn.expect("a turn").comes().await.expect("a place");
        desk.take(Event::Hello(Newcomer {
            conn: ConnId(1),
            hello: Hello {
                protocol: ProtocolVersion::CURRENT,
                group: GroupId(0),
                port: 1,
                advertise: None,
                lanes: 1,
                site: SiteName::NONE,
                name: Default::default(),
            },
            from,
            identity: None,
            outbox: Arc::new(Outbox::new(1 << 20)),
            pulse: Arc::clone(permit.pulse()),
            granted: Arc::new(Granted::new(permit)),
            registered,
        }));
        let peer = identity.try_recv().expect("a peer");
        Self {
            desk,
            events,
            stop: StopHandle::new(),
            peer,
        }
    }

    fn heartbeat_arrives(&self) {
        self.events
            .try_send(heartbeat_of(self.peer))
            .expect("room in the queue");
    }

    fn knows_the_peer(&self) -> bool {
        self.desk.peers.contains_key(&self.peer)
    }
}

fn heartbeat_of(peer: PeerId) -> Event {
    Event::Message {
        peer,
        conn: ConnId(1),
        message: ToMaster::Heartbeat { moved: false },
        share: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_has_arrived_is_dealt_with_before_a_deadline_that_has_passed() {
    let mut office = Office::open(10 * SILENCE, SILENCE).await;
    advance(SILENCE).await;
    office.heartbeat_arrives();

    office.turn().await;

    assert!(office.knows_the_peer());
    let deadline = office.desk.timers.next_deadline();
    assert_eq!(deadline, Some(Instant::now() + SILENCE));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_waits_for_what_a_connection_is_about_to_tell() {
    let mut office = Office::open(10 * SILENCE, SILENCE).await;
    advance(SILENCE).await;
    let (events, peer) = (office.events.clone(), office.peer);
    tokio::spawn(async move {
        events.send(heartbeat_of(peer)).await.ok();
    });

    office.turn().await;

    assert!(office.knows_the_peer());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_counts_where_nothing_has_arrived() {
    let mut office = Office::open(10 * SILENCE, SILENCE).await;

    office.turn().await;

    assert!(!office.knows_the_peer());
}

#[tokio::test(start_paused = true)]
async fn a_flood_holds_a_timer_up_for_one_heartbeat_at_most() {
    let mut office = Office::open(HEARTBEAT, 10 * SILENCE).await;
    let due = office.desk.timers.next_deadline().unwrap();
    let mut fired = None;

    // One message per tenth of a heartbeat, and never an empty queue.
    for _ in 0..40 {
        office.heartbeat_arrives();
        office.turn().await;
        let next = office.desk.timers.next_deadline().unwrap();
        if next > due {
            fired.get_or_insert(Instant::now());
        }
        advance(HEARTBEAT / 10).await;
    }

    assert_eq!(fired, Some(due + HEARTBEAT));
}

#[tokio::test(start_paused = true)]
async fn a_master_that_stood_still_reads_on_before_it_counts_anything_as_late() {
    let mut office = Office::open(HEARTBEAT, SILENCE).await;
    advance(12 * SILENCE).await;

    office.turn().await;

    // It has given its sign of life, and the next one is what comes first.
    assert!(office.knows_the_peer());
    let deadline = office.desk.timers.next_deadline();
    assert_eq!(deadline, Some(Instant::now() + HEARTBEAT));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_was_heard_late_before_is_given_more_time_and_one_that_was_not_is_not() {
    for (gap, is_known) in [(HEARTBEAT, false), (SILENCE / 2, true)] {
        let mut office = Office::open(10 * SILENCE, SILENCE).await;
        let pulse = Arc::clone(&office.desk.peers[&office.peer].pulse);
        for _ in 0..3 {
            advance(gap).await;
            pulse.beat();
            office.heartbeat_arrives();
            office.turn().await;
        }

        advance(SILENCE).await;
        office.turn().await;

        assert_eq!(office.knows_the_peer(), is_known, "{gap:?}");
        if is_known {
            advance(SILENCE / 2).await;
            office.turn().await;
            assert!(!office.knows_the_peer(), "{gap:?}");
        }
    }
}

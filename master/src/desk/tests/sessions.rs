//! Peers that come back over another connection, and those that do not.

use pccl_core::id::{Identity, Ticket};
use pccl_core::transport::LaneError;
use pccl_core::wire::{ControlError, DecodeError};
use pccl_transport_memory::{Path, pair};
use tokio::time::timeout;

use super::*;
use crate::connection::{Resumed, Returning, Session};

const NETWORK_FAILED: ControlError = ControlError::Lane(LaneError::TimedOut);
const PROCESS_DIED: ControlError = ControlError::Ended;

impl Office {
    fn connection_ends(&mut self, conn: u64, error: ControlError) {
        let (peer, conn) = (self.peer, ConnId(conn));
        self.desk.take(Event::Gone {
            peer,
            conn,
            error,
            may_return: true,
        });
    }

    fn heartbeat_over(&mut self, conn: u64) {
        let (peer, conn) = (self.peer, ConnId(conn));
        let message = ToMaster::Heartbeat { moved: false };
        let share = None;
        self.desk.take(Event::Message {
            peer,
            conn,
            message,
            share,
        });
    }

    fn token(&self) -> Ticket {
        self.desk.mint.session(self.peer)
    }

    async fn comes_back(&mut self, how: impl FnOnce(&mut Returning)) -> Option<Resumed> {
        let (resumed, mut answer) = oneshot::channel();
        let from = SocketAddr::from(([127, 0, 0, 1], 2));
        let turn = Gate::new(&Limits::default()).arrive(from.ip());
        let permit = turn.expect("a turn").comes().await.expect("a place");
        let mut returning = Returning {
            conn: ConnId(2),
            from,
            session: Session {
                peer: self.peer,
                token: self.token(),
                // Nothing is written here.
                received: 0,
                attempt: self
                    .desk
                    .peers
                    .get(&self.peer)
                    .map_or(1, |peer| peer.attempt + 1),
            },
            identity: None,
            pulse: Arc::clone(permit.pulse()),
            granted: Arc::new(Granted::new(permit)),
            resumed,
        };
        how(&mut returning);
        self.desk.take(Event::Return(returning));
        answer.try_recv().ok()
    }

    /// How many of the peer's messages the machine has processed.
    fn heard(&self) -> u64 {
        self.desk.peers[&self.peer].heard
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_whose_network_failed_comes_back_and_its_messages_count_once() {
    let mut office = Office::open(HEARTBEAT, SILENCE).await;
    office.heartbeat_over(1);
    office.connection_ends(1, NETWORK_FAILED);
    assert!(office.knows_the_peer());

    let resumed = office.comes_back(|_| ()).await.expect("the session");

    // Its hello and a heartbeat.
    assert_eq!(resumed.heard, 2);
    office.heartbeat_over(1);
    assert_eq!(office.heard(), 2, "it is sent again over the other one");
    office.heartbeat_over(2);
    assert_eq!(office.heard(), 3);
    office.connection_ends(1, PROCESS_DIED);
    assert!(office.knows_the_peer(), "that was the connection before");
    office.connection_ends(2, PROCESS_DIED);
    assert!(!office.knows_the_peer());
}

#[tokio::test(start_paused = true)]
async fn a_peer_may_come_back_before_its_connection_has_ended_here() {
    let mut office = Office::open(HEARTBEAT, SILENCE).await;

    assert!(office.comes_back(|_| ()).await.is_some());

    office.connection_ends(1, PROCESS_DIED);
    assert!(office.knows_the_peer());
}

/// The peer has dialled, then something has come over the connection that it has, and it has said so.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_overtaken_is_not_the_end_of_a_session() {
    let mut office = Office::open(HEARTBEAT, SILENCE).await;
    let outbox = Arc::clone(&office.desk.peers[&office.peer].outbox);
    let received = outbox.released();
    assert!(received > 0);
    let (lane, _peer) = pair(Path::DIRECT, Path::DIRECT);
    let (by, mut tx) = (outbox.first_attachment(), lane.tx);
    let writing = outbox.write_to(&mut *tx, &by, &[], SILENCE);
    assert!(timeout(HEARTBEAT, writing).await.is_err());
    outbox.acknowledge(received).unwrap();

    let overtaken = |returning: &mut Returning| returning.session.received = received - 1;
    assert!(office.comes_back(overtaken).await.is_none());

    assert!(office.knows_the_peer());
    let another = |returning: &mut Returning| returning.session.received = received;
    assert!(office.comes_back(another).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_peer_whose_process_died_is_lost_at_once() {
    let mut office = Office::open(HEARTBEAT, SILENCE).await;

    office.connection_ends(1, PROCESS_DIED);

    assert!(!office.knows_the_peer());
    assert!(office.comes_back(|_| ()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_peer_of_which_damaged_bytes_have_come_is_not_blamed_for_them() {
    let mut office = Office::open(HEARTBEAT, SILENCE).await;

    office.connection_ends(1, DecodeError::Damaged.into());

    assert!(office.knows_the_peer());
    assert!(office.comes_back(|_| ()).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_may_reconnect_is_lost_when_its_time_is_over() {
    let limit = SILENCE / 2;
    for ending in [
        PROCESS_DIED,
        ControlError::Lane(LaneError::Reset),
        NETWORK_FAILED,
    ] {
        let mut office = Office::open(HEARTBEAT, SILENCE).await;
        office.desk.limits.reconnect = limit;
        office.connection_ends(1, ending);
        assert!(office.knows_the_peer(), "{ending}");

        let until = if ending == NETWORK_FAILED {
            SILENCE
        } else {
            limit
        };
        advance(until).await;
        office.desk.fire_timers();

        assert!(!office.knows_the_peer(), "{ending}");
    }
}

/// Beyond what an instant can hold.
#[tokio::test(start_paused = true)]
async fn a_peer_may_have_all_the_time_that_there_is_to_come_back() {
    let limits = Limits {
        reconnect: Duration::MAX,
        ..Limits::default()
    };
    let mut office = Office::open_with(MasterConfig::default(), limits, |_| ()).await;

    office.connection_ends(1, PROCESS_DIED);

    assert!(office.knows_the_peer());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_comes_back_in_time_is_not_lost_later() {
    let mut office = Office::open(HEARTBEAT, 10 * SILENCE).await;
    office.desk.limits.reconnect = SILENCE;
    office.connection_ends(1, PROCESS_DIED);
    assert!(office.comes_back(|_| ()).await.is_some());

    advance(SILENCE).await;
    office.desk.fire_timers();

    assert!(office.knows_the_peer());
}

#[tokio::test(start_paused = true)]
async fn a_stranger_gets_no_session_and_disturbs_none() {
    let mut office = Office::open(HEARTBEAT, SILENCE).await;
    let nobody = PeerId(office.peer.0 + 1);

    let guessed = office.comes_back(|other| other.session.token.0 ^= 1).await;
    let of_nobody = office.comes_back(|other| other.session.peer = nobody).await;
    let as_another = |other: &mut Returning| other.identity = Some(Identity([7; 32]));
    let as_another = office.comes_back(as_another).await;

    assert!(guessed.is_none() && of_nobody.is_none() && as_another.is_none());
    office.heartbeat_over(1);
    assert_eq!(office.heard(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_lacks_what_is_not_kept_is_lost() {
    let mut office = Office::open(HEARTBEAT, SILENCE).await;
    office.connection_ends(1, NETWORK_FAILED);

    let resumed = office
        .comes_back(|other| other.session.received = 1000)
        .await;

    assert!(resumed.is_none());
    assert!(!office.knows_the_peer());
}

#[tokio::test(start_paused = true)]
async fn a_peer_whose_invitation_was_revoked_does_not_come_back() {
    let mut office = Office::open(HEARTBEAT, SILENCE).await;
    office.desk.limits.reconnect = SILENCE;

    office.connection_ends(1, ControlError::Lane(LaneError::Untrusted));

    assert!(!office.knows_the_peer());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_overtaken_disturbs_nothing() {
    let mut office = Office::open(HEARTBEAT, SILENCE).await;
    office.connection_ends(1, NETWORK_FAILED);
    assert!(
        office
            .comes_back(|other| other.session.attempt = 2)
            .await
            .is_some()
    );

    let late = |other: &mut Returning| (other.session.attempt, other.conn) = (1, ConnId(3));
    assert!(office.comes_back(late).await.is_none());

    office.heartbeat_over(2);
    assert_eq!(office.heard(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_the_peer_gives_up_does_not_end_its_session() {
    let mut office = Office::open(HEARTBEAT, SILENCE).await;
    office.connection_ends(1, NETWORK_FAILED);
    assert!(office.comes_back(|_| ()).await.is_some());

    office.connection_ends(2, PROCESS_DIED);
    assert!(office.knows_the_peer(), "its reply may have come too late");

    let again = |other: &mut Returning| other.conn = ConnId(3);
    assert!(office.comes_back(again).await.is_some());
    office.heartbeat_over(3);
    office.connection_ends(3, PROCESS_DIED);
    assert!(!office.knows_the_peer());
}

#[tokio::test(start_paused = true)]
async fn a_peer_whose_long_message_came_too_slowly_does_not_come_back() {
    let mut office = Office::open(HEARTBEAT, SILENCE).await;

    let (peer, conn) = (office.peer, ConnId(1));
    office.desk.take(Event::Gone {
        peer,
        conn,
        error: NETWORK_FAILED,
        may_return: false,
    });

    assert!(!office.knows_the_peer());
}

//! A master that says nothing, under tokio's paused clock: when a peer dials it again, and what comes of it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pccl_core::id::{PeerId, Ticket};
use pccl_core::messages::ToPeer;
use pccl_core::peer::PeerTimer;
use pccl_core::transport::{Lane, Listener, recv_some, send_all};
use pccl_core::wire::{
    Purpose, Reply, SessionFrame, SessionTerms, encode_control, recv_count, recv_preamble,
    send_reply,
};
use pccl_plane::PlaneConfig;
use tokio::sync::watch;
use tokio::time::{advance, sleep};

use super::*;
use crate::calls::View;
use crate::destination::Destination;
use crate::engine::live::Happened;
use crate::engine::returning::{Home, Shown};
use crate::engine::upkeep::Upkeep;
use crate::simulated::{Arrivals, Dialler, listener};

const SILENCE: Duration = Duration::from_secs(2);
const HEARTBEAT: Duration = Duration::from_millis(400);
const TOKEN: Ticket = Ticket(7);

/// A peer that has heard the master once.
struct Stage {
    live: Live,
    /// Connections to the master.
    arrivals: Arrivals,
    _doors: Box<dyn Fn(&str) -> Dialler>,
}

/// What it means to the machine.
fn noted(live: &mut Live, happened: Happened) -> Vec<PeerInput> {
    let mut inputs = Vec::new();
    live.note(happened, &mut inputs);
    inputs
}

impl Stage {
    /// `away_max`: how long the master may be away. Returns the master's end of the first connection as well.
    async fn new(away_max: Duration) -> (Self, Lane) {
        let (mut arrivals, dialler) = listener();
        let (lanes, doors) = listener();
        let transport = Arc::new(dialler("127.0.0.1:7"));
        let control = transport.dial();
        let mut first = coming(&mut arrivals).await;
        let home = Home {
            destination: Destination::of("127.0.0.1:48148"),
            answer: Duration::from_secs(5),
        };
        let mut live = Live::new(
            (control, home),
            Box::new(lanes),
            transport,
            watch::channel(View::default()).0,
            1,
            PlaneConfig::default(),
            (Upkeep::new(Arc::default(), SILENCE), Arc::default()),
        );
        live.is_known_as(PeerId(3));
        let mut stage = Self {
            live,
            arrivals,
            _doors: Box::new(doors),
        };
        let mut opened = Vec::new();
        let token = TOKEN;
        SessionFrame::Opened(SessionTerms { token, away_max }).encode(&mut opened);
        send_all(&mut *first.tx, &opened, &[]).await.unwrap();
        say_heartbeat(&mut first).await;
        stage.until_heard().await;
        (stage, first)
    }

    /// Lets the peer go on until its machine is told something.
    async fn next_inputs(&mut self) -> Vec<PeerInput> {
        loop {
            let happened = self.live.next(None).await;
            let inputs = noted(&mut self.live, happened);
            if !inputs.is_empty() {
                return inputs;
            }
        }
    }

    /// The machine hears the master, and has patience again.
    async fn until_heard(&mut self) {
        let inputs = self.next_inputs().await;
        assert_eq!(inputs, [PeerInput::Message(ToPeer::Heartbeat)]);
        self.live.start_timer(PeerTimer::MasterSilence, SILENCE);
    }

    /// Lets the peer go on while the master does this. Its machine is told nothing.
    async fn meanwhile<T>(&mut self, master: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            done = master => done,
            inputs = self.next_inputs() => panic!("{inputs:?}"),
        }
    }

    /// Lets the peer go on until it has opened another connection, of which this is the master's end.
    async fn until_dialled(&mut self) -> Lane {
        let Self { live, arrivals, .. } = self;
        let mut incoming = std::pin::pin!(coming(arrivals));
        loop {
            tokio::select! {
                biased;
                lane = &mut incoming => return lane,
                happened = live.next(None) => assert_eq!(noted(live, happened), []),
            }
        }
    }
}

async fn coming(arrivals: &mut Arrivals) -> Lane {
    let incoming = poll_fn(|cx| arrivals.poll_accept(cx)).await;
    incoming.unwrap().lane
}

async fn say_heartbeat(lane: &mut Lane) {
    let mut frame = Vec::new();
    encode_control(&ToPeer::Heartbeat, &mut frame).unwrap();
    send_all(&mut *lane.tx, &frame, &[]).await.unwrap();
}

/// What a peer shows that wants to go on with its session.
async fn shown_on(lane: &mut Lane) -> Shown {
    let preamble = recv_preamble(lane).await.unwrap();
    assert_eq!(preamble.purpose, Purpose::Resume);
    Shown {
        peer: preamble.from,
        token: preamble.ticket,
        received: recv_count(lane).await.unwrap(),
        attempt: recv_count(lane).await.unwrap(),
    }
}

/// The master takes the peer back, and has received nothing from it.
async fn take_back(lane: &mut Lane) {
    let shown = shown_on(lane).await;
    assert_eq!((shown.peer, shown.token), (PeerId(3), TOKEN));
    assert_eq!(shown.received, 1);
    send_reply(&mut *lane.tx, &Reply::Accepted).await.unwrap();
    let received = 0_u64.to_le_bytes();
    send_all(&mut *lane.tx, &received, &[]).await.unwrap();
}

/// The round trip counts as well.
fn assert_about(elapsed: Duration, expected: Duration) {
    let latest = expected + Duration::from_millis(10);
    assert!((expected..latest).contains(&elapsed), "{elapsed:?}");
}

async fn until_ended(lane: &mut Lane) {
    while recv_some(&mut *lane.rx, &mut [0; 64]).await.unwrap_or(0) > 0 {}
}

#[tokio::test(start_paused = true)]
async fn a_silent_master_is_dialled_again_at_half_of_its_time_and_the_session_goes_on_there() {
    let (mut stage, first) = Stage::new(Duration::ZERO).await;
    let heard = Instant::now();

    let mut second = stage.until_dialled().await;

    assert_about(heard.elapsed(), SILENCE / 2);
    stage.meanwhile(take_back(&mut second)).await;
    say_heartbeat(&mut second).await;
    stage.until_heard().await;
    // It means nothing any more.
    drop(first);
    say_heartbeat(&mut second).await;
    stage.until_heard().await;
}

#[tokio::test(start_paused = true)]
async fn a_master_that_is_heard_again_is_dialled_no_longer() {
    let (mut stage, mut first) = Stage::new(Duration::ZERO).await;
    let mut second = stage.until_dialled().await;

    say_heartbeat(&mut first).await;
    stage.until_heard().await;

    stage.meanwhile(until_ended(&mut second)).await;
    for _ in 0..20 {
        stage.meanwhile(sleep(HEARTBEAT)).await;
        say_heartbeat(&mut first).await;
        stage.until_heard().await;
    }
    let third = poll_fn(|cx| Poll::Ready(stage.arrivals.poll_accept(cx))).await;
    assert!(third.is_pending(), "it has dialled once more");
}

/// The master may have taken the second connection for the right one.
#[tokio::test(start_paused = true)]
async fn attempts_that_are_given_up_keep_their_numbers() {
    let (mut stage, mut first) = Stage::new(Duration::ZERO).await;
    let mut second = stage.until_dialled().await;
    let shown = stage.meanwhile(shown_on(&mut second)).await;
    say_heartbeat(&mut first).await;
    stage.until_heard().await;

    drop(first);
    let mut third = stage.until_dialled().await;

    let given_up = shown.attempt;
    let next = stage.meanwhile(shown_on(&mut third)).await.attempt;
    assert!(next > given_up, "{next} after {given_up}");
}

#[tokio::test(start_paused = true)]
async fn a_master_without_a_journal_that_stays_silent_is_lost_when_its_time_is_over() {
    let (mut stage, _first) = Stage::new(Duration::ZERO).await;
    let heard = Instant::now();
    let _second = stage.until_dialled().await;

    let inputs = stage.next_inputs().await;

    assert_eq!(inputs, [PeerInput::TimerFired(PeerTimer::MasterSilence)]);
    assert_about(heard.elapsed(), SILENCE);
}

#[tokio::test(start_paused = true)]
async fn a_master_with_a_journal_is_looked_for_as_long_as_it_may_be_away() {
    let away_max = Duration::from_secs(60);
    let (mut stage, _first) = Stage::new(away_max).await;
    let heard = Instant::now();

    let inputs = stage.next_inputs().await;

    assert_eq!(inputs, [PeerInput::TimerFired(PeerTimer::MasterSilence)]);
    assert_about(heard.elapsed(), SILENCE + away_max);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stood_still_listens_before_it_dials() {
    let (mut stage, _first) = Stage::new(Duration::ZERO).await;

    stage.live.start_timer(PeerTimer::HeartbeatDue, HEARTBEAT);
    advance(2 * SILENCE).await;
    let resumed = Instant::now();
    let inputs = stage.next_inputs().await;
    assert_eq!(inputs, [PeerInput::TimerFired(PeerTimer::HeartbeatDue)]);

    stage.until_dialled().await;

    assert_about(resumed.elapsed(), PAUSE);
}

#[tokio::test(start_paused = true)]
async fn collectives_that_stall_wait_on_until_the_master_is_back() {
    let (mut stage, first) = Stage::new(Duration::from_secs(60)).await;
    assert!(!stage.live.data.stalls_are_excused());

    drop(first);
    let mut second = stage.until_dialled().await;
    assert!(stage.live.data.stalls_are_excused());

    stage.meanwhile(take_back(&mut second)).await;
    say_heartbeat(&mut second).await;
    stage.until_heard().await;
    assert!(!stage.live.data.stalls_are_excused());
}

//! The faults; what every transport must do is tested for all of them together.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use pccl_core::transport::{
    Endpoint, Lane, LaneError, LaneRx, LaneTx, Listener, Security, Transport, close, recv_exact,
    recv_some, send_all,
};
use tokio::task::JoinHandle;

use crate::{MemoryHost, MemoryNet};

/// A lane between two hosts, and all that keeps it alive.
struct Joined {
    net: MemoryNet,
    alpha: MemoryHost,
    beta: MemoryHost,
    listener: Box<dyn Listener>,
    opened: Lane,
    accepted: Lane,
}

async fn joined() -> Joined {
    let net = MemoryNet::with_capacity(1000);
    let (alpha, beta) = (net.transport(), net.transport());
    let mut listener = beta.listen(beta.any_port(), Security::Plain).await.unwrap();
    let to = Endpoint::Address(listener.local_addr());
    let opened = alpha.open(&to, None).await.unwrap();
    let accepted = accept(&mut *listener).await;
    Joined {
        net,
        alpha,
        beta,
        listener,
        opened,
        accepted,
    }
}

async fn accept(listener: &mut dyn Listener) -> Lane {
    let incoming = poll_fn(|cx| listener.poll_accept(cx)).await;
    incoming.unwrap().lane
}

impl Joined {
    fn listening(&self) -> Endpoint {
        Endpoint::Address(self.listener.local_addr())
    }

    fn cut(&self) {
        self.net.cut(self.beta.ip(), self.alpha.ip());
    }

    fn stall(&self) {
        self.net.stall(self.alpha.ip(), self.beta.ip());
    }

    fn resume(&self) {
        self.net.resume(self.alpha.ip(), self.beta.ip());
    }
}

/// The outcome of a task that must not need the clock: in paused time a hang is over at once.
async fn without_waiting<T>(task: JoinHandle<T>) -> T {
    let outcome = tokio::time::timeout(Duration::from_secs(1), task).await;
    outcome.expect("the task is woken").unwrap()
}

/// What the lane answers at once, `None` where it waits.
async fn recv_now(rx: &mut dyn LaneRx) -> Option<Result<usize, LaneError>> {
    poll_fn(|cx| match rx.poll_recv(cx, &mut [0; 16]) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

async fn send_now(tx: &mut dyn LaneTx, bytes: &[u8]) -> Option<Result<usize, LaneError>> {
    poll_fn(|cx| match tx.poll_send(cx, &[bytes]) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn a_cut_resets_both_ends_and_loses_what_is_under_way() {
    let mut between = joined().await;
    send_all(&mut *between.opened.tx, b"lost", b"")
        .await
        .unwrap();

    between.cut();

    let reset = Err(LaneError::Reset);
    assert_eq!(recv_now(&mut *between.accepted.rx).await, Some(reset));
    assert_eq!(recv_now(&mut *between.opened.rx).await, Some(reset));
    assert_eq!(send_now(&mut *between.opened.tx, b"x").await, Some(reset));
    assert_eq!(send_now(&mut *between.accepted.tx, b"x").await, Some(reset));
}

#[tokio::test(start_paused = true)]
async fn a_cut_wakes_whoever_waits() {
    let mut between = joined().await;
    let waiting = tokio::spawn(async move { recv_some(&mut *between.accepted.rx, &mut [0]).await });
    tokio::task::yield_now().await;

    between.net.cut(between.alpha.ip(), between.beta.ip());

    assert_eq!(without_waiting(waiting).await, Err(LaneError::Reset));
}

#[tokio::test]
async fn a_cut_concerns_only_the_two_hosts_and_only_lanes_that_are_open() {
    let mut between = joined().await;
    let gamma = between.net.transport();
    let mut bystander = gamma.open(&between.listening(), None).await.unwrap();
    let mut other = accept(&mut *between.listener).await;

    between.cut();

    send_all(&mut *bystander.tx, b"on", b"").await.unwrap();
    let mut word = [0; 2];
    recv_exact(&mut *other.rx, &mut word).await.unwrap();
    assert_eq!(&word, b"on");
    assert!(between.alpha.open(&between.listening(), None).await.is_ok());
}

#[tokio::test]
async fn a_refused_host_is_refused_in_one_direction_until_allowed() {
    let between = joined().await;
    let (alpha, beta) = (between.alpha.ip(), between.beta.ip());
    let homeward = between
        .alpha
        .listen(between.alpha.any_port(), Security::Plain)
        .await
        .unwrap();
    let home = Endpoint::Address(homeward.local_addr());

    between.net.refuse(alpha, beta);

    let refused = between.alpha.open(&between.listening(), None).await;
    assert_eq!(refused.unwrap_err(), LaneError::Refused);
    assert!(between.beta.open(&home, None).await.is_ok());
    between.net.allow(alpha, beta);
    assert!(between.alpha.open(&between.listening(), None).await.is_ok());
}

#[tokio::test]
async fn a_stalled_lane_is_silent_but_not_closed_and_loses_nothing() {
    let mut between = joined().await;

    between.stall();
    send_all(&mut *between.opened.tx, b"late", b"")
        .await
        .unwrap();
    close(&mut *between.opened.tx).await.unwrap();

    assert_eq!(recv_now(&mut *between.accepted.rx).await, None);
    between.resume();
    assert_eq!(recv_now(&mut *between.accepted.rx).await, Some(Ok(4)));
    assert_eq!(recv_now(&mut *between.accepted.rx).await, Some(Ok(0)));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_lane_fills_up_and_wakes_both_ends_when_it_goes_on() {
    let mut between = joined().await;
    between.stall();
    let full = [7; 1500];

    assert_eq!(
        send_now(&mut *between.opened.tx, &full).await,
        Some(Ok(1000))
    );
    assert_eq!(send_now(&mut *between.opened.tx, &full).await, None);
    let Lane {
        mut tx, rx: _rx, ..
    } = between.opened;
    let sending = tokio::spawn(async move { send_all(&mut *tx, &[8; 500], b"").await });
    let Lane {
        mut rx, tx: _tx, ..
    } = between.accepted;
    let receiving = tokio::spawn(async move {
        let mut all = [0; 1500];
        recv_exact(&mut *rx, &mut all).await.map(|()| all)
    });
    tokio::task::yield_now().await;
    between.net.resume(between.alpha.ip(), between.beta.ip());

    without_waiting(sending).await.unwrap();
    let all = without_waiting(receiving).await.unwrap();
    assert_eq!(all[999..1001], [7, 8]);
}

#[tokio::test]
async fn one_way_can_be_stalled_alone() {
    let mut between = joined().await;
    between
        .net
        .stall_one_way(between.alpha.ip(), between.beta.ip());

    send_all(&mut *between.opened.tx, b"held", b"")
        .await
        .unwrap();
    send_all(&mut *between.accepted.tx, b"free", b"")
        .await
        .unwrap();

    assert_eq!(recv_now(&mut *between.accepted.rx).await, None);
    assert_eq!(recv_now(&mut *between.opened.rx).await, Some(Ok(4)));
}

#[tokio::test(start_paused = true)]
async fn opening_over_a_stalled_path_gives_up_by_the_clock() {
    let between = joined().await;
    between.stall();
    let patient = between.alpha.clone().open_timeout(Duration::from_secs(600));

    let outcome = patient.open(&between.listening(), None).await;

    assert_eq!(outcome.unwrap_err(), LaneError::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn opening_goes_on_when_the_path_does() {
    let between = joined().await;
    between.stall();
    let (alpha, to) = (between.alpha.clone(), between.listening());
    let opening = tokio::spawn(async move { alpha.open(&to, None).await.map(drop) });
    tokio::task::yield_now().await;

    between.resume();

    assert_eq!(without_waiting(opening).await, Ok(()));
}

#[tokio::test]
async fn names_lead_to_hosts_and_unknown_ones_nowhere() {
    let between = joined().await;
    between.net.name("beta", between.beta.ip());
    let port = between.listener.local_addr().port();

    let known = Endpoint::Name(format!("beta:{port}"));
    let unknown = Endpoint::Name(format!("gamma:{port}"));

    assert!(between.alpha.open(&known, None).await.is_ok());
    let outcome = between.alpha.open(&unknown, None).await;
    assert_eq!(outcome.unwrap_err(), LaneError::NameNotResolved);
}

#[tokio::test]
async fn a_host_listens_on_its_own_address_or_on_all_of_them() {
    let net = MemoryNet::new();
    let (alpha, beta) = (net.transport(), net.transport());

    let all = alpha
        .listen("0.0.0.0:7".parse().unwrap(), Security::Plain)
        .await
        .unwrap();
    let foreign = alpha.listen(beta.any_port(), Security::Plain).await;

    assert_eq!(all.local_addr(), "0.0.0.0:7".parse().unwrap());
    let to = Endpoint::Name(format!("{}:7", alpha.ip()));
    assert!(beta.open(&to, None).await.is_ok());
    assert!(
        alpha
            .open(&Endpoint::Address(all.local_addr()), None)
            .await
            .is_ok()
    );
    assert_eq!(foreign.err(), Some(LaneError::AddressNotAvailable));
}

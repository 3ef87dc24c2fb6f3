//! Processes that were killed, and others that listen in their place: how soon those at the other ends learn of it.

use std::net::UdpSocket;
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Instant;

use pccl_core::transport::recv_some;
use quinn::ConnectionIdGenerator;
use quinn::crypto::HmacKey;
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

use super::relay::Relay;
use super::*;
use crate::resets::{Ids, Tokens};

/// A process that can be killed: a runtime that drops everything, so that nothing is sent any more.
struct Mortal {
    runtime: Runtime,
    address: SocketAddr,
}

impl Mortal {
    /// It listens, and reads the first words of a lane.
    fn listening(on: SocketAddr, pair: &KeyPair) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let quic = Quic::new().key_pair(pair);
        let (bound, address) = channel();
        runtime.spawn(async move {
            let mut listener = quic.listen(on, Security::Proven).await.unwrap();
            bound.send(listener.local_addr()).unwrap();
            let mut lanes = Vec::new();
            loop {
                let mut lane = accept(&mut *listener).await.lane;
                hear_hello(&mut lane).await;
                send_all(&mut *lane.tx, b"hel", b"lo").await.unwrap();
                lanes.push(lane);
            }
        });
        let address = address.recv().unwrap();
        Self { runtime, address }
    }
}

/// As SIGKILL does it. The port is free afterwards.
async fn kill(mortal: Mortal) {
    let killing = spawn_blocking(|| mortal.runtime.shutdown_timeout(GUARD));
    killing.await.unwrap();
}

/// The error of a lane to a process that is killed, and whose place is taken by one with this key pair. The path between
/// them goes on all the time, so that no system says that nobody listens.
async fn outlive(first: &KeyPair, second: &KeyPair) -> LaneError {
    let idle = Duration::from_secs(2);
    let caller = Host::with(Quic::new().idle_timeout(idle));
    let mortal = Mortal::listening(V4, first);
    let address = mortal.address;
    let relay = Relay::to(address).await;
    let to = Endpoint::Address(relay.local_addr());
    let opened = caller.quic.open(&to, Some(identity(first))).await;
    let mut lane = opened.unwrap();
    send_all(&mut *lane.tx, b"hel", b"lo").await.unwrap();
    hear_hello(&mut lane).await;

    kill(mortal).await;
    let next = Mortal::listening(address, second);

    send_all(&mut *lane.tx, b"still there?", b"").await.unwrap();
    let read = timeout(GUARD, recv_some(&mut *lane.rx, &mut [0])).await;
    kill(next).await;
    read.expect("no hang").expect_err("its process is gone")
}

#[tokio::test]
async fn connections_of_a_process_that_was_killed_are_reset_by_the_next_one_with_its_key() {
    let pair = pair();

    assert_eq!(outlive(&pair, &pair).await, LaneError::Reset);
}

#[tokio::test]
async fn a_process_with_another_key_resets_no_connection_of_the_one_before() {
    assert_eq!(outlive(&pair(), &pair()).await, LaneError::TimedOut);
}

/// A packet with a short header to this connection id, of nobody who has a key.
fn packet(id: &[u8]) -> Vec<u8> {
    [&[0x40], id, &[7; 40]].concat()
}

#[tokio::test]
async fn packets_whose_connection_ids_are_foreign_draw_no_reset() {
    let pair = pair();
    let host = Quic::new().key_pair(&pair);
    let listener = host.listen(V4, Security::Proven).await.unwrap();
    let to = listener.local_addr();
    let own = Ids::of(&pair, to.port()).generate_cid();
    let stranger = tokio::net::UdpSocket::bind(V4).await.unwrap();

    for number in 0..50 {
        stranger.send_to(&packet(&[number; 12]), to).await.unwrap();
    }
    stranger.send_to(&packet(&own), to).await.unwrap();

    let mut answer = [0; 100];
    let heard = timeout(GUARD, stranger.recv(&mut answer)).await;
    let answer = &answer[..heard.expect("a reset").unwrap()];
    let tokens = Tokens::of(&pair, to.port());
    let mut token = [0; 32];
    tokens.sign(&own, &mut token);
    assert!(answer.ends_with(&token[..16]), "a foreign id drew a reset");
    assert!(answer.len() < packet(&own).len());
}

#[tokio::test]
async fn many_peers_that_send_at_once_are_reset_without_sending_often() {
    const PEERS: usize = 200;
    let pair = pair();
    let host = Quic::new().key_pair(&pair);
    let listener = host.listen(V4, Security::Proven).await.unwrap();
    let to = listener.local_addr();
    let mut ids = Ids::of(&pair, to.port());
    let asking = UdpSocket::bind(V4).unwrap();
    asking
        .set_read_timeout(Some(Duration::from_millis(5)))
        .unwrap();
    let ids: Vec<_> = (0..PEERS).map(|_| ids.generate_cid()).collect();

    // Rounds without any answer do not count: this process may have been held up.
    let rounds_with_answers = spawn_blocking(move || {
        let until = Instant::now() + GUARD;
        let (mut answered, mut rounds) = (0, 0);
        while answered < PEERS && Instant::now() < until {
            let before = answered;
            for id in &ids[answered..] {
                asking.send_to(&packet(id), to).unwrap();
                // Peers do not send in the same microsecond. Of those that do, one is reset.
                sleep(Duration::from_micros(200));
            }
            while asking.recv(&mut [0; 100]).is_ok() {
                answered += 1;
            }
            rounds += usize::from(answered > before);
        }
        (answered >= PEERS).then_some(rounds)
    });

    let rounds = rounds_with_answers.await.unwrap();
    // quinn would have a reset each 20 ms, so three in a round.
    let rounds = rounds.expect("all are answered");
    assert!(rounds <= 10, "{rounds}");
}

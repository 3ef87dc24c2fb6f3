//! Many connections at once: who means well comes in, and who does not costs little.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use pccl_core::element::ElementType;
use pccl_core::id::{ContentHash, Revision};
use pccl_core::messages::{Misdeed, ToMaster, ToPeer};
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::transport::Lane;
use pccl_core::wire::{ControlError, Preamble, offer};
use pccl_master::{Limits, MasterConfig, MasterServer, spawn};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, sleep};

use crate::support::client::{Client, hello, pair, soon};
use crate::support::messages::announcing;
use crate::support::pipes::{ADDRESS, Pipes};

/// A master within this process, and pipes to it. Nobody is silent for too long.
async fn piped(limits: Limits) -> Pipes {
    let pipes = Pipes::new(64 * 1024);
    let config = MasterConfig {
        silence: Duration::from_secs(3600),
        ..MasterConfig::default()
    };
    let builder = MasterServer::builder()
        .transport(pipes.transport())
        .config(config)
        .limits(limits)
        .seed([1; 32]);
    tokio::spawn(builder.bind(ADDRESS).await.unwrap().run());
    pipes
}

/// An address of no site in particular.
fn site(number: u8) -> IpAddr {
    [192, 0, 2, number].into()
}

async fn all_register(lanes: Vec<Lane>) -> Vec<Client> {
    let mut registering = JoinSet::new();
    for lane in lanes {
        registering.spawn(Client::register(lane));
    }
    registering.join_all().await
}

async fn a_crowd_at(master: SocketAddr, size: usize) -> Vec<Client> {
    let mut dialling = JoinSet::new();
    for _ in 0..size {
        dialling.spawn(Client::dial(master));
    }
    all_register(dialling.join_all().await).await
}

#[tokio::test]
async fn sixty_four_peers_of_one_address_that_start_together_are_all_welcomed() {
    let master = spawn("127.0.0.1:0").unwrap();

    let peers = a_crowd_at(master.local_addr(), 64).await;

    assert_eq!(peers.len(), 64);
}

#[tokio::test]
async fn two_hundred_peers_of_one_address_are_welcomed_where_so_many_may_wait_to_be_admitted() {
    let limits = Limits {
        newcomers_per_address_max: 200,
        ..Limits::default()
    };
    let builder = MasterServer::builder().limits(limits);
    let master = builder.spawn("127.0.0.1:0").unwrap();

    let peers = a_crowd_at(master.local_addr(), 200).await;

    assert_eq!(peers.len(), 200);
}

#[tokio::test(start_paused = true)]
async fn who_is_admitted_makes_room_for_newcomers_of_its_address() {
    let pipes = piped(Limits {
        newcomers_per_address_max: 1,
        ..Limits::default()
    })
    .await;

    let (mut first, _second) = pair(|| async { pipes.dial() }).await;
    let third = Client::register(pipes.dial()).await;

    let mut fourth = pipes.dial();
    let refused = offer(&mut fourth, &Preamble::CONTROL).await.unwrap_err();
    assert!(refused.to_string().contains("update_topology"), "{refused}");
    drop(third);
    sleep(Duration::from_millis(1)).await;
    Client::register(pipes.dial()).await;
    first.say(&ToMaster::Heartbeat { moved: false }).await;
}

#[tokio::test(start_paused = true)]
async fn silent_connections_of_four_addresses_keep_newcomers_out_for_one_second_at_most() {
    let pipes = piped(Limits::default()).await;
    let mut silent = Vec::new();
    for number in 0..4 {
        silent.extend((0..16).map(|_| pipes.dial_from(site(number))));
    }
    sleep(Duration::from_millis(1)).await;
    let begin = Instant::now();

    let newcomer = Client::register(pipes.dial_from(site(99))).await;
    let waited = begin.elapsed();
    // Nor do they keep out who comes from one of their addresses.
    let other = Client::register(pipes.dial_from(site(0))).await;

    assert_ne!(newcomer.peer, other.peer);
    assert!(waited <= Duration::from_secs(1), "{waited:?}");
    assert!(begin.elapsed() <= Duration::from_secs(1));
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_has_to_give_way_is_told_so() {
    let pipes = piped(Limits {
        strangers_max: 1,
        ..Limits::default()
    })
    .await;
    let mut silent = Client::introduce(pipes.dial()).await;

    let _next = Client::register(pipes.dial()).await;

    assert!(matches!(silent.hear().await, ToPeer::Refused(_)));
    assert_eq!(silent.listen().await, Err(ControlError::Ended));
}

#[tokio::test(start_paused = true)]
async fn who_waits_has_all_its_time_for_the_handshake_once_it_is_let_in() {
    let limits = Limits {
        strangers_max: 1,
        grace: Duration::from_secs(3600),
        waiting: 2 * Limits::default().handshake,
        ..Limits::default()
    };
    let handshake = limits.handshake;
    let pipes = piped(limits).await;
    let _silent = Client::introduce(pipes.dial()).await;
    let waiting = pipes.dial();
    sleep(handshake + Duration::from_millis(1)).await;

    let mut late = Client::introduce(waiting).await;
    sleep(handshake - Duration::from_secs(1)).await;

    late.say(&ToMaster::Hello(hello())).await;
    assert!(matches!(late.hear().await, ToPeer::Welcome { .. }));
}

/// Length of a vote to synchronize, and the first bytes of it.
fn beginning_of_a_long_message(length: u32) -> Vec<u8> {
    announcing(length, &[9; 64])
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_has_nothing_long_to_say_until_it_is_admitted() {
    let pipes = piped(Limits::default()).await;
    let (_founder, _) = Client::found(pipes.dial()).await;
    let mut newcomer = Client::register(pipes.dial()).await;

    newcomer.say_bytes(&beginning_of_a_long_message(4097)).await;

    assert_eq!(newcomer.hear().await, ToPeer::Kicked(Misdeed::Malformed));
    assert_eq!(newcomer.listen().await, Err(ControlError::Ended));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_was_admitted_may_say_long_things_at_once() {
    let pipes = piped(Limits::default()).await;
    let (mut founder, _) = Client::found(pipes.dial()).await;

    let entry = |number: usize| EntryInfo {
        name: format!("{number:0200}"),
        element: ElementType::F32,
        count: 1,
        hash: ContentHash(1),
        allow_content_inequality: false,
    };
    let vote = SyncVote {
        entries: (0..10_000).map(entry).collect(),
        revision: Revision(0),
        strategy: SyncStrategy::EnforcePopular,
        restart: false,
    };
    founder.say(&ToMaster::SyncSharedState(vote)).await;

    let answer = founder.hear().await;
    assert!(
        matches!(
            answer,
            ToPeer::SharedStatePlan(_) | ToPeer::SharedStateConcluded { .. }
        ),
        "{answer:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stranger_whose_hello_was_unread_while_the_master_stood_still_is_welcomed() {
    let pipes = piped(Limits::default()).await;
    let mut stranger = Client::introduce(pipes.dial()).await;
    sleep(Duration::from_millis(1)).await;

    advance(Duration::from_secs(60)).await;

    stranger.say(&ToMaster::Hello(hello())).await;
    let answer = soon("a welcome", stranger.hear()).await;
    assert!(matches!(answer, ToPeer::Welcome { .. }), "{answer:?}");
}

//! Peers come, vote and go.

use std::time::Duration;

use pccl_core::messages::{Misdeed, ToMaster, ToPeer};
use pccl_core::topology::{BrokenLinks, LinkId, LinkOrder};
use pccl_core::wire::{CONTROL_FRAME_MAX, ControlError, encode_control};
use pccl_master::{Limits, MasterConfig, MasterServer, spawn};
use tokio::time::{Instant, advance, sleep};

use crate::support::client::{Client, hello, pair};
use crate::support::messages::announcing;
use crate::support::pipes::{ADDRESS, Pipes};

#[tokio::test]
async fn a_lone_peer_is_admitted() {
    let master = spawn("127.0.0.1:0").unwrap();

    let lane = Client::dial(master.local_addr()).await;
    let (founder, topology) = Client::found(lane).await;

    assert_eq!(topology.ring.0, [founder.peer]);
    assert_eq!(topology.world.global, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_newcomer_is_admitted_on_many_threads_as_well() {
    let server = MasterServer::bind(([127, 0, 0, 1], 0).into())
        .await
        .unwrap();
    let address = server.local_addr();
    tokio::spawn(server.run());

    let (first, second) = pair(|| Client::dial(address)).await;

    assert_ne!(first.peer, second.peer);
}

#[tokio::test(start_paused = true)]
async fn the_death_of_the_last_missing_voter_completes_the_ballot_at_once() {
    let pipes = Pipes::new(64 * 1024);
    let builder = MasterServer::builder().transport(pipes.transport());
    tokio::spawn(builder.bind(ADDRESS).await.unwrap().run());
    let (mut first, second) = pair(|| async { pipes.dial() }).await;
    first.say(&ToMaster::ArePeersPending).await;
    let begin = Instant::now();

    drop(second);

    let answer = first.hear().await;
    assert_eq!(answer, ToPeer::PeersPending { pending: false });
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_that_is_gone_before_its_welcome_does_not_wait_to_be_admitted() {
    let pipes = Pipes::new(64 * 1024);
    let builder = MasterServer::builder().transport(pipes.transport());
    tokio::spawn(builder.bind(ADDRESS).await.unwrap().run());
    let (mut founder, _) = Client::found(pipes.dial()).await;
    let mut fleeting = Client::introduce(pipes.dial()).await;

    fleeting.say(&ToMaster::Hello(hello())).await;
    drop(fleeting);
    sleep(Duration::from_millis(1)).await;

    founder.say(&ToMaster::ArePeersPending).await;
    let answer = founder.hear().await;
    assert_eq!(answer, ToPeer::PeersPending { pending: false });
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_falls_silent_reads_that_it_was_kicked_for_it() {
    let pipes = Pipes::new(64 * 1024);
    let builder = MasterServer::builder().transport(pipes.transport());
    tokio::spawn(builder.bind(ADDRESS).await.unwrap().run());
    let (mut founder, _) = Client::found(pipes.dial()).await;

    let last = founder.hear().await;

    assert_eq!(last, ToPeer::Kicked(Misdeed::Silent));
    assert_eq!(founder.listen().await, Err(ControlError::Ended));
}

#[tokio::test(start_paused = true)]
async fn a_peer_whose_message_trickles_in_is_not_silent() {
    let pipes = Pipes::new(64 * 1024);
    let builder = MasterServer::builder().transport(pipes.transport());
    tokio::spawn(builder.bind(ADDRESS).await.unwrap().run());
    let (mut founder, _) = Client::found(pipes.dial()).await;
    let mut frame = Vec::new();
    let (epoch, broken) = (founder.epoch, BrokenLinks::NONE);
    encode_control(&ToMaster::UpdateTopology { epoch, broken }, &mut frame).unwrap();

    for byte in frame {
        founder.say_bytes(&[byte]).await;
        sleep(Duration::from_millis(1200)).await;
    }

    let answer = founder.hear().await;
    assert!(
        matches!(answer, ToPeer::TopologyEstablished { .. }),
        "{answer:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_master_that_stood_still_does_not_blame_its_peers_for_the_silence() {
    let pipes = Pipes::new(64 * 1024);
    let builder = MasterServer::builder().transport(pipes.transport());
    tokio::spawn(builder.bind(ADDRESS).await.unwrap().run());
    let (mut founder, _) = Client::found(pipes.dial()).await;

    advance(Duration::from_secs(60)).await;
    founder.say(&ToMaster::ArePeersPending).await;

    let answer = founder.hear().await;
    assert_eq!(answer, ToPeer::PeersPending { pending: false });
}

#[tokio::test(start_paused = true)]
async fn a_master_that_stood_still_does_not_count_the_time_in_any_deadline() {
    let pipes = Pipes::new(64 * 1024);
    let builder = MasterServer::builder().transport(pipes.transport());
    tokio::spawn(builder.bind(ADDRESS).await.unwrap().run());
    let (mut founder, _) = Client::found(pipes.dial()).await;
    let mut newcomer = Client::register(pipes.dial()).await;
    founder.update().await;
    let mut orders = Vec::new();
    for peer in [&mut founder, &mut newcomer] {
        match peer.hear().await {
            ToPeer::EstablishLinks { round, links } => orders.push((round, links)),
            other => panic!("heard {other:?} where a ring was due"),
        }
    }
    let ordered = orders
        .iter()
        .map(|(_, links)| links.iter().map(LinkOrder::link));
    let ordered: Vec<Vec<LinkId>> = ordered.map(Iterator::collect).collect();
    let both_ways = |peer| vec![LinkId::to(peer), LinkId::from(peer)];
    assert_eq!(ordered, [both_ways(newcomer.peer), both_ways(founder.peer)]);

    advance(Duration::from_secs(3600)).await;

    for (peer, (round, links)) in [&mut founder, &mut newcomer].into_iter().zip(orders) {
        for link in links.iter().map(LinkOrder::link) {
            peer.say(&ToMaster::LinkUp { round, link }).await;
        }
    }
    for peer in [&mut founder, &mut newcomer] {
        let answer = peer.hear().await;
        assert!(
            matches!(answer, ToPeer::TopologyEstablished { .. }),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn a_peer_that_sends_garbage_reads_why_it_was_kicked() {
    let patient = Limits {
        farewell: Duration::from_secs(20),
        ..Limits::default()
    };
    let builder = MasterServer::builder().limits(patient);
    let server = builder.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let lane = Client::dial(server.local_addr()).await;
    tokio::spawn(server.run());
    let (mut founder, _) = Client::found(lane).await;

    // More than the buffers between the two hold: the master has to hear it out.
    let garbage = vec![0xff; 16 * 1024 * 1024];
    let frame = announcing(16, &[0xff; 16]);
    founder.say_bytes(&[frame, garbage].concat()).await;

    let last = founder.hear().await;
    assert_eq!(last, ToPeer::Kicked(Misdeed::Malformed));
    assert_eq!(founder.listen().await, Err(ControlError::Ended));
}

#[tokio::test]
async fn a_peer_that_announces_a_message_beyond_the_limit_is_kicked_before_it_sends_it() {
    // The second one is a session frame.
    for announced in [CONTROL_FRAME_MAX as u32 + 1, u32::MAX] {
        let master = spawn("127.0.0.1:0").unwrap();
        let lane = Client::dial(master.local_addr()).await;
        let (mut founder, _) = Client::found(lane).await;

        founder.say_bytes(&announcing(announced, &[])).await;

        let last = founder.hear().await;
        assert_eq!(last, ToPeer::Kicked(Misdeed::Malformed), "{announced}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_kicked_and_the_others_go_on() {
    let pipes = Pipes::new(1024);
    let builder = MasterServer::builder()
        .transport(pipes.transport())
        .config(MasterConfig::default())
        .limits(Limits {
            outbox_bytes_max: 4096,
            ..Limits::default()
        });
    tokio::spawn(builder.bind(ADDRESS).await.unwrap().run());
    let (mut reader, mut sluggard) = pair(|| async { pipes.dial() }).await;

    // Each round is an answer to both; only one of them reads it.
    let mut rounds = 0;
    while rounds < 10_000 {
        reader.say(&ToMaster::ArePeersPending).await;
        sluggard.say(&ToMaster::ArePeersPending).await;
        reader.hear().await;
        rounds += 1;
        if rounds % 1000 == 0 && kicked(&mut sluggard, rounds).await {
            break;
        }
    }

    assert!(rounds < 10_000, "nobody was kicked");
    reader.say(&ToMaster::ArePeersPending).await;
    let answer = reader.hear().await;
    assert_eq!(answer, ToPeer::PeersPending { pending: false });
}

/// Reads all that was sent; what comes last says whether the peer was kicked.
async fn kicked(sluggard: &mut Client, most: u32) -> bool {
    for _ in 0..most {
        if let ToPeer::Kicked(reason) = sluggard.hear().await {
            assert_eq!(reason, Misdeed::SlowReader);
            return true;
        }
    }
    false
}

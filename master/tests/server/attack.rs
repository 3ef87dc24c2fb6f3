//! Strangers in great number and of ill will.

use std::net::SocketAddr;
use std::time::Duration;

use pccl_core::messages::{ToMaster, ToPeer};
use pccl_master::{Limits, MasterServer, RunningMaster};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::support::client::{Client, pair, soon};
use crate::support::fuzz::{Attack, attack};

/// A ballot of both, which the master answers.
async fn vote((first, second): &mut (Client, Client)) {
    for peer in [&mut *first, &mut *second] {
        peer.say(&ToMaster::ArePeersPending).await;
    }
    for peer in [first, second] {
        let answer = peer.hear().await;
        assert!(matches!(answer, ToPeer::PeersPending { .. }), "{answer:?}");
    }
}

/// Vote again and again until the future is done; how many ballots were answered meanwhile.
async fn vote_during<T>(peers: &mut (Client, Client), future: impl Future<Output = T>) -> (u32, T) {
    let mut future = std::pin::pin!(future);
    let mut answered = 0;
    loop {
        let round = async {
            vote(peers).await;
            sleep(Duration::from_millis(1)).await;
        };
        tokio::pin!(round);
        tokio::select! {
            biased;
            () = &mut round => answered += 1,
            done = &mut future => {
                round.await;
                return (answered, done);
            }
        }
    }
}

async fn flood(master: SocketAddr, connections: usize) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(TcpStream::connect(master).await.unwrap());
    }
    open
}

#[tokio::test]
async fn a_flood_of_mute_connections_leaves_the_peers_working() {
    let master = pccl_master::spawn("127.0.0.1:0").unwrap();
    let address = master.local_addr();
    let mut peers = pair(|| Client::dial(address)).await;

    let (_, mute) = vote_during(&mut peers, flood(address, 300)).await;

    // While the strangers that the master lets in wait to be heard.
    for _ in 0..10 {
        vote(&mut peers).await;
    }
    drop(mute);
}

/// A master that lets every attacker come as far as it can.
fn hospitable() -> RunningMaster {
    let limits = Limits {
        strangers_max: 64,
        strangers_per_address_max: 64,
        // Whoever joins and vanishes keeps its place until it falls silent.
        newcomers_per_address_max: usize::MAX,
        ..Limits::default()
    };
    let builder = MasterServer::builder().limits(limits);
    builder.spawn("127.0.0.1:0").unwrap()
}

#[tokio::test]
async fn a_master_survives_random_and_mutated_bytes_from_fifty_connections() {
    let master = hospitable();
    let address = master.local_addr();
    let mut peers = pair(|| Client::dial(address)).await;
    let onslaught = Attack {
        seed: 7,
        connections: 50,
        lasting: Duration::from_secs(2),
    };

    let (answered, tally) = vote_during(&mut peers, attack(address, onslaught)).await;

    println!("{tally:?}, {answered} ballots meanwhile");
    assert!(answered > 0);
    assert!(tally.ended > 0, "the attack met no resistance: {tally:?}");
    let late = soon("a newcomer", Client::register(Client::dial(address).await)).await;
    assert!(late.peer > peers.1.peer);
}

//! Mistakes with where others reach a peer.

use pccl::Error;

use super::world::{FIRST, MASTER, SECOND, World, admits_until, ip};
use super::{Told, expect, seconds};

/// What the first peer reads, who is not turned away.
const ALONE: &str = "WARN peer 2 was to connect to port 48149 of this peer, and has not: if it is still there it does not reach \
                     that port; open it in the firewall, or say with Builder::advertise where others reach it";

/// What becomes of a second peer, and of the first one.
async fn second_beside_a_first(world: &World) -> Vec<Result<(), Error>> {
    world.start_master().await;
    let mut first = world.peer(MASTER).connect_async().await.unwrap();
    let second = world.peer(MASTER).connect_async();
    let second = admits_until(&mut first, second).await;
    let alone = first.update_topology_async().await;
    vec![alone.map(drop), second.map(drop)]
}

#[test]
fn neither_of_two_peers_reaches_the_port_of_the_other() {
    let told = Told {
        peers: &[
            "",
            "the master refused this peer: peer 1 cannot reach this peer at 10.77.0.2:48149: the connection was refused; \
             open that port in the firewall, or advertise another address",
        ],
        log: &[ALONE],
        within: seconds(30),
    };
    expect(told, async |world| {
        world.net.refuse(ip(FIRST), ip(SECOND));
        world.net.refuse(ip(SECOND), ip(FIRST));
        second_beside_a_first(world).await
    });
}

#[test]
fn firewalls_of_two_peers_drop_what_the_other_one_sends() {
    let told = Told {
        peers: &[
            "",
            "the master refused this peer: peer 1 cannot reach this peer at 10.77.0.2:48149: there was no answer in time; \
             open that port in the firewall, or advertise another address",
        ],
        log: &[ALONE],
        within: seconds(60),
    };
    expect(told, async |world| {
        world.net.stall(ip(FIRST), ip(SECOND));
        second_beside_a_first(world).await
    });
}

#[test]
fn the_port_that_a_mapped_port_leads_to_is_taken() {
    let told = Told {
        peers: &[
            "",
            "cannot listen on [::]:48149: the address is already in use; choose another address or first port",
        ],
        within: seconds(1),
        ..Told::default()
    };
    expect(told, async |world| {
        world.start_master().await;
        let host = world.host();
        let first = World::peer_on(host.clone(), MASTER).connect_async().await;
        let second = World::peer_on(host, MASTER).advertise(31_001);
        let second = second.connect_async().await;
        vec![first.map(drop), second.map(drop)]
    });
}

//! Calls that wait for others, and whom the log names.

use std::time::Duration;

use pccl::{
    AwaitedCall, Builder, CollectiveKind, Communicator, Error, NamedPeer, PeerId, Reduce,
    SharedState, SyncStrategy, Tag, Wait,
};
use tokio::time::timeout;

use super::world::{MASTER, World};
use super::{Told, expect, seconds};

/// How long a call of these programs waits.
const WAITED: Duration = seconds(12 + 1);

/// Two members, of which the second has a name.
async fn two_members(world: &World) -> (Communicator, Communicator) {
    members(world, world.peer(MASTER)).await
}

/// The same; the first one is built by this.
async fn members(world: &World, first: Builder) -> (Communicator, Communicator) {
    world.start_master().await;
    let mut first = first.connect_async().await.unwrap();
    // The first update after an admission is that admission.
    first.update_topology_async().await.unwrap();
    let second = world.peer(MASTER).name("node-7");
    let (second, updated) = tokio::join!(second.connect_async(), async {
        while !first.are_peers_pending_async().await? {}
        first.update_topology_async().await
    });
    updated.unwrap();
    (first, second.unwrap())
}

/// Ends a call that nobody else makes.
async fn in_vain<T>(call: impl Future<Output = Result<T, Error>>) -> Result<(), Error> {
    match timeout(WAITED, call).await {
        Ok(ended) => ended.map(drop),
        Err(_) => Ok(()),
    }
}

#[test]
fn a_peer_calls_all_reduce_and_the_other_one_never_does() {
    let told = Told {
        peers: &[""],
        log: &["WARN all-reduce with tag 0 waits for peer 2 (node-7) to make the same call"],
        within: WAITED,
    };
    expect(told, async |world| {
        let (first, _second) = two_members(world).await;
        let mut buffer = [1.0_f32; 4];
        vec![in_vain(first.all_reduce_async(&mut buffer, Reduce::sum())).await]
    });
}

#[test]
fn a_peer_synchronizes_and_the_other_one_never_does() {
    let told = Told {
        peers: &[""],
        log: &["WARN sync_shared_state waits for peer 2 (node-7) to make the same call"],
        within: WAITED,
    };
    expect(told, async |world| {
        let (mut first, _second) = two_members(world).await;
        let mut weights = [1.0_f32; 4];
        let mut state = SharedState::at(0);
        state.entry("weights", &mut weights).unwrap();
        let call = first.sync_shared_state_async(&mut state, SyncStrategy::EnforcePopular);
        vec![in_vain(call).await]
    });
}

#[test]
fn two_communicators_of_one_task_wait_for_each_other() {
    let limit = seconds(20);
    let told = Told {
        peers: &["the run did not admit this peer within 20s; connect again"],
        log: &["INFO waiting to be admitted by 1 peer: 1 (node-1) to call update_topology"],
        within: limit,
    };
    expect(told, async |world| {
        world.start_master().await;
        let first = world.peer(MASTER).name("node-1");
        let first = first.connect_async().await.unwrap();
        let second = world.peer(MASTER).admission_timeout(limit);
        let second = second.connect_async().await;
        assert_eq!(
            second.as_ref().err(),
            Some(&Error::AdmissionTimedOut { after: limit })
        );
        drop(first);
        vec![second.map(drop)]
    });
}

#[test]
fn a_program_wants_to_know_whom_it_waits_for() {
    let told = Told {
        within: seconds(1),
        ..Told::default()
    };
    expect(told, async |world| {
        let (first, second) = two_members(world).await;
        let before = first.waiting_on_async().await.unwrap();
        assert_eq!(before.waits, []);

        let reduce = first.start_all_reduce(vec![1.0_f32; 4], Reduce::sum().tag(3));
        let awaited = first.waiting_on_async().await.unwrap();
        let asked_elsewhere = second.waiting_on_async().await.unwrap();

        let named = NamedPeer {
            peer: PeerId(2),
            name: "node-7".to_owned().try_into().unwrap(),
        };
        let call = AwaitedCall::Collective {
            tag: Tag(3),
            kind: CollectiveKind::AllReduce,
        };
        let wait = Wait {
            call,
            peers: vec![named],
            others: 0,
        };
        assert_eq!(awaited.waits, [wait]);
        assert_eq!(asked_elsewhere.waits, []);
        drop(reduce);
        Vec::new()
    });
}

#[test]
fn the_time_before_the_warning_is_the_programs_to_choose() {
    let told = Told {
        peers: &[""],
        log: &["WARN barrier waits for peer 2 (node-7) to make the same call"; 2],
        within: WAITED,
    };
    expect(told, async |world| {
        let (first, _second) = members(world, world.peer(MASTER).warn_after(seconds(1))).await;
        vec![in_vain(first.barrier_async()).await]
    });
}

#[test]
fn a_name_has_a_limit() {
    let told = Told {
        peers: &[
            "the name of a peer has at most 64 bytes, not 65",
            "the name of a peer has no control characters",
        ],
        within: seconds(1),
        ..Told::default()
    };
    expect(told, async |world| {
        let mut ends = Vec::new();
        for name in ["n".repeat(65), "node\n7".to_owned()] {
            let peer = world.peer(MASTER).name(name);
            ends.push(peer.connect_async().await.map(drop));
        }
        ends
    });
}

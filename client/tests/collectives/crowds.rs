//! More collectives at once than a peer may have in flight at the master.

use std::sync::Barrier;

use pccl::{CollectiveHandle, Communicator, Error, Reduce, ReduceItem, Tag};
use pccl_master::{MasterBuilder, MasterConfig};

use crate::support::{Run, together, together_with};

/// More than the master allows a peer to have in flight.
const MANY: u64 = 1_100;

fn start(peer: &Communicator, tag: u64) -> CollectiveHandle<Vec<u64>> {
    peer.start_all_reduce(vec![tag], Reduce::sum().tag(tag))
}

/// Every peer has contributed the tag.
fn sums(peers: u64) -> Vec<u64> {
    (0..MANY).map(|tag| tag * peers).collect()
}

fn first(buffers: impl IntoIterator<Item = Vec<u64>>) -> Vec<u64> {
    buffers.into_iter().map(|buffer| buffer[0]).collect()
}

#[test]
fn any_number_of_handles_may_be_started_and_awaited_in_another_order() {
    let run = Run::new();
    let mut peers = run.peers(2);

    let results = together(&mut peers, |peer| {
        let handles: Vec<_> = (0..MANY).map(|tag| start(peer, tag)).collect();
        let last_first = handles.into_iter().rev();
        let mut results = first(last_first.map(|handle| handle.wait().unwrap().buffer));
        results.reverse();
        results
    });

    assert_eq!(results, [sums(2), sums(2)]);
}

#[test]
fn peers_may_start_them_in_orders_in_which_few_overtake_any() {
    let run = Run::new();
    let mut peers = run.peers(2);

    let results = together_with(&mut peers, |index, peer| {
        let mut tags: Vec<u64> = (0..MANY).collect();
        if index == 1 {
            // Pieces in reverse: nobody overtakes more than 499 others.
            tags.chunks_mut(500).for_each(<[u64]>::reverse);
        }
        let handles: Vec<_> = tags.iter().map(|tag| start(peer, *tag)).collect();
        let mut results = first(
            handles
                .into_iter()
                .map(|handle| handle.wait().unwrap().buffer),
        );
        results.sort_unstable();
        results
    });

    assert_eq!(results, [sums(2), sums(2)]);
}

#[test]
fn a_list_may_be_as_long_as_one_likes_and_ask_for_more_at_once_than_may_be() {
    let run = Run::new();
    let mut peers = run.peers(2);

    let results = together(&mut peers, |peer| {
        let mut buffers: Vec<[u64; 1]> = (0..MANY).map(|tag| [tag]).collect();
        let mut items: Vec<_> = (0..)
            .zip(&mut buffers)
            .map(|(tag, buffer)| ReduceItem::new(buffer, Reduce::sum().tag(tag)))
            .collect();
        let reports = peer.all_reduce_many_with_retry(&mut items, 2_000).unwrap();
        assert_eq!(reports.len(), buffers.len());
        buffers.concat()
    });

    assert_eq!(results, [sums(2), sums(2)]);
}

#[test]
fn a_tag_that_waits_is_in_use_and_keeps_major_calls_away() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let others_may_call = Barrier::new(2);

    let results = together_with(&mut peers, |index, peer| {
        if index == 1 {
            others_may_call.wait();
        }
        let handles: Vec<_> = (0..MANY).map(|tag| start(peer, tag)).collect();
        let mut errors = Vec::new();
        if index == 0 {
            errors.extend(start(peer, MANY - 1).wait().map_err(Error::from).err());
            errors.extend(peer.update_topology().err());
            others_may_call.wait();
        }
        let buffers = handles
            .into_iter()
            .map(|handle| handle.wait().unwrap().buffer);
        (first(buffers), errors)
    });

    let refused = vec![Error::TagInUse(Tag(MANY - 1)), Error::PendingCollectives];
    assert_eq!(results, [(sums(2), refused), (sums(2), Vec::new())]);
}

#[test]
fn a_handle_that_is_dropped_while_it_waits_is_as_one_that_was_never_started() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let others_may_call = Barrier::new(2);

    let results = together_with(&mut peers, |index, peer| {
        if index == 1 {
            others_may_call.wait();
        }
        let mut handles: Vec<_> = (0..MANY).map(|tag| start(peer, tag)).collect();
        if index == 0 {
            // None has ended, so the last one waits.
            drop(handles.pop());
            handles.push(start(peer, MANY - 1));
            others_may_call.wait();
        }
        first(
            handles
                .into_iter()
                .map(|handle| handle.wait().unwrap().buffer),
        )
    });

    assert_eq!(results, [sums(2), sums(2)]);
}

#[test]
fn a_master_cannot_be_told_to_allow_fewer_than_peers_take() {
    let config = MasterConfig {
        tags_max: 2,
        ..MasterConfig::default()
    };
    let master = MasterBuilder::default().config(config);
    let run = Run::of(master.spawn("127.0.0.1:0").unwrap());
    let mut peers = run.peers(2);

    let results = together(&mut peers, |peer| {
        let handles: Vec<_> = (0..5).map(|tag| start(peer, tag)).collect();
        first(
            handles
                .into_iter()
                .map(|handle| handle.wait().unwrap().buffer),
        )
    });

    assert_eq!(results, [[0, 2, 4, 6, 8]; 2]);
}

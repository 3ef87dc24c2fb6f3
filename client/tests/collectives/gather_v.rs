//! All-gathers to which each peer contributes as much as it likes: what every peer ends with, also when peers go.

use std::fmt::Debug;

use pccl::half::{bf16, f16};
use pccl::{
    Communicator, Element, ElementType, Error, GatherV, PeerId, Quantization, Reduce, SpecField,
    Tag,
};

use crate::support::lanes::Distance;
use crate::support::{Run, disagreement, together_with};

/// What the user's memory holds before a call that fails.
const BEFORE: [u32; 3] = [7, 8, 9];

/// Elements of each of eight peers: odd, of nobody, of one alone, of all but one, less than a frame and more.
const LENGTHS: [[usize; 8]; 6] = [
    [3, 1, 7, 5, 13, 9, 11, 1],
    [0; 8],
    [0, 33_333, 0, 0, 0, 0, 0, 0],
    [1025, 0, 4099, 17, 1, 2049, 3, 501],
    [0, 1, 0, 3, 0, 1, 0, 70_001],
    [40_001, 20_001, 1, 0, 7, 10_003, 5, 0],
];

/// An element that is another one at each peer and place.
trait Made: Element + PartialEq + Debug {
    fn made(peer: usize, place: usize) -> Self;
}

macro_rules! made {
    ($($type:ty),*) => {
        $(impl Made for $type {
            fn made(peer: usize, place: usize) -> Self {
                (peer * 13 + place * 7 + place / 50) as Self
            }
        })*
    };
}

made!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl Made for f16 {
    fn made(peer: usize, place: usize) -> Self {
        Self::from_bits((peer * 1000 + place % 900) as u16)
    }
}

impl Made for bf16 {
    fn made(peer: usize, place: usize) -> Self {
        Self::from_bits((peer * 1000 + place % 900) as u16)
    }
}

fn made<T: Made>(peer: usize, count: usize) -> Vec<T> {
    (0..count).map(|place| T::made(peer, place)).collect()
}

/// What all peers have, by rank.
fn reference<T: Made>(ids: &[PeerId], ring: &[PeerId], lengths: &[usize]) -> Vec<T> {
    let index = |peer: &PeerId| ids.iter().position(|id| id == peer).unwrap();
    let of = |peer: &PeerId| made(index(peer), lengths[index(peer)]);
    ring.iter().flat_map(of).collect()
}

fn ids(peers: &[Communicator]) -> Vec<PeerId> {
    peers.iter().map(Communicator::peer_id).collect()
}

fn gathers<T: Made>(peer: &Communicator, index: usize, ids: &[PeerId]) {
    let mut all = vec![T::made(0, 0)];
    for lengths in LENGTHS {
        let mine: Vec<T> = made(index, lengths[index]);

        let gathered = peer
            .all_gather_v(&mine, &mut all, GatherV::default())
            .unwrap();

        let ring = &gathered.report.contributors;
        assert_eq!(all, reference(ids, ring, &lengths), "{}", T::TYPE);
        let parts: Vec<(PeerId, usize)> = gathered
            .parts()
            .map(|(peer, range)| (peer, range.len()))
            .collect();
        let index = |peer: &PeerId| ids.iter().position(|id| id == peer).unwrap();
        let expected = ring.iter().map(|peer| (*peer, lengths[index(peer)]));
        assert_eq!(parts, expected.collect::<Vec<_>>());
        let own = gathered.range(peer.peer_id()).unwrap();
        assert_eq!(all[own], mine);
        assert_eq!(gathered.range(PeerId(1000)), None);
        all.truncate(lengths[0] % 2);
    }
}

#[test]
fn every_peer_ends_with_what_all_have_in_the_order_of_the_ranks() {
    for world in [1, 2, 3, 4, 5, 8] {
        let run = Run::new();
        let mut peers = run.peers(world);
        let ids = ids(&peers);

        together_with(&mut peers, |index, peer| {
            gathers::<u8>(peer, index, &ids);
            gathers::<i8>(peer, index, &ids);
            gathers::<u16>(peer, index, &ids);
            gathers::<i16>(peer, index, &ids);
            gathers::<u32>(peer, index, &ids);
            gathers::<i32>(peer, index, &ids);
            gathers::<u64>(peer, index, &ids);
            gathers::<i64>(peer, index, &ids);
            gathers::<f16>(peer, index, &ids);
            gathers::<bf16>(peer, index, &ids);
            gathers::<f32>(peer, index, &ids);
            gathers::<f64>(peer, index, &ids);
        });
    }
}

#[test]
fn what_is_quantized_is_the_same_on_all_peers_and_what_it_is_made_of_stays() {
    const LARGEST: f32 = 100.0;
    let to_words = Quantization::MinMax {
        to: ElementType::U16,
    };
    let how = GatherV::default().quantize(to_words);
    let bound = how.error_bound(ElementType::F32, LARGEST.into()).unwrap();
    let run = Run::new();
    let mut peers = run.peers(3);
    let ids = ids(&peers);
    let own = |index: usize| -> Vec<f32> {
        let place = |place: usize| (place * (index + 1)) as f32 % 997.0 / 997.0 * LARGEST;
        (0..[0, 100_001, 70_003][index]).map(place).collect()
    };

    let results = together_with(&mut peers, |index, peer| {
        let (mine, mut all) = (own(index), Vec::new());
        let gathered = peer.all_gather_v(&mine, &mut all, how).unwrap();
        assert_eq!(mine, own(index));
        for (id, range) in gathered.parts() {
            let exact = own(ids.iter().position(|known| *known == id).unwrap());
            let errors = all[range].iter().zip(&exact);
            let errors = errors.map(|(got, exact)| f64::from((got - exact).abs()));
            assert!(errors.fold(0.0, f64::max) <= bound);
        }
        (all, gathered.report.bytes_sent)
    });

    let sent: u64 = results.iter().map(|(_, sent)| sent).sum();
    // Two bytes for each element that comes to two peers, and the parameters of its frames.
    assert!((680_000..690_000).contains(&sent), "{sent}");
    let results: Vec<Vec<f32>> = results.into_iter().map(|(all, _)| all).collect();
    assert!(results[0] != [own(0), own(1), own(2)].concat());
    assert!(results.iter().all(|all| *all == results[0]));
}

/// Each peer is the one that has nearly all in its turn.
#[test]
fn much_of_one_and_little_of_others_comes_to_all() {
    let run = Run::new();
    let mut peers = run.peers(3);
    let ids = ids(&peers);

    together_with(&mut peers, |index, peer| {
        for turn in 0..3 {
            let mut lengths = [2_000_003, 0, 7];
            lengths.rotate_left(turn);
            let (mine, mut all) = (made::<u64>(index, lengths[index]), Vec::new());
            let gathered = peer
                .all_gather_v(&mine, &mut all, GatherV::at_most(2_000_010))
                .unwrap();

            let ring = &gathered.report.contributors;
            assert!(all == reference::<u64>(&ids, ring, &lengths));
        }
    });
}

/// One peer has all of it, which its lanes share.
#[test]
fn between_machines_all_lanes_carry_what_one_peer_has() {
    const LANES: usize = 4;
    let run = Run::over(LANES as u16, Distance::Far);
    let mut peers = run.peers(2);

    together_with(&mut peers, |index, peer| {
        let mine = made::<u32>(0, 3 * 1024 * 1024 * (1 - index));
        let mut all = Vec::new();
        peer.all_gather_v(&mine, &mut all, GatherV::default())
            .unwrap();
        assert!(all == made::<u32>(0, 3 * 1024 * 1024));
    });

    let sent = run.traffic.bytes_sent();
    // A quarter is 3 MiB; the lanes to the master carry a few hundred bytes.
    let busy = sent.iter().filter(|sent| **sent > 2 * 1024 * 1024);
    assert_eq!(busy.count(), LANES, "{sent:?}");
}

#[test]
fn several_run_side_by_side_under_different_tags() {
    let run = Run::new();
    let mut peers = run.peers(3);
    let ids = ids(&peers);

    together_with(&mut peers, |index, peer| {
        std::thread::scope(|scope| {
            for tag in 0..4 {
                let (ids, peer) = (&ids, &*peer);
                scope.spawn(move || {
                    let lengths = [100_001 * tag, 3 * tag, 50_000 / (tag + 1)];
                    let (mine, mut all) = (made::<i16>(index, lengths[index]), Vec::new());
                    let how = GatherV::default().tag(tag as u64);
                    let gathered = peer.all_gather_v(&mine, &mut all, how).unwrap();
                    let ring = &gathered.report.contributors;
                    assert_eq!(all, reference(ids, ring, &lengths));
                });
            }
        });
    });
}

#[test]
fn more_than_all_allow_is_refused_to_all_who_hear_how_much_it_is() {
    let run = Run::new();
    let mut peers = run.peers(3);

    together_with(&mut peers, |index, peer| {
        let (mine, mut all) = (made::<u32>(index, 4), BEFORE.to_vec());
        let refused = peer.all_gather_v(&mine, &mut all, GatherV::at_most(11));

        let (tag, total, limit) = (Tag(0), 12, 11);
        assert_eq!(refused, Err(Error::TooLong { tag, total, limit }));
        assert_eq!(all, BEFORE);
        let allowed = peer.all_gather_v(&mine, &mut all, GatherV::at_most(12));
        assert_eq!(allowed.map(|gathered| gathered.report.world_size), Ok(3));
        assert_eq!(all.len(), 12);
    });
}

#[test]
fn peers_that_want_different_things_are_told_in_what_they_differ() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let mut sorted = ids(&peers);
    sorted.sort();

    let told = together_with(&mut peers, |index, peer| {
        let (mine, mut all) = (made::<u32>(index, index), BEFORE.to_vec());
        let limits = peer.all_gather_v(&mine, &mut all, GatherV::at_most(10 + index));
        let types = match index {
            0 => peer.all_gather_v(&mine, &mut all, GatherV::default()),
            _ => peer.all_gather_v(&[1.0_f64], &mut vec![2.0], GatherV::default()),
        };
        let kinds = match index {
            0 => peer
                .all_gather_v(&mine, &mut all, GatherV::default())
                .map(drop),
            _ => peer.all_reduce(&mut [1_u32], Reduce::sum()).map(drop),
        };
        assert_eq!(all, BEFORE);
        [limits.map(drop), types.map(drop), kinds]
    });

    let fields = [SpecField::Limit, SpecField::ElementType, SpecField::Kind];
    for errors in told {
        let told = errors.map(|error| disagreement(&error.unwrap_err()));
        assert_eq!(told, fields.map(|field| (Tag(0), field, sorted.clone())));
    }
}

/// The doomed peer dies with its first frame, or in the middle. What it has is in nobody's result, and the next one is
/// of those who are left, who have other lengths then.
#[test]
fn a_peer_that_dies_in_the_middle_aborts_it_for_all_and_its_part_is_left_out_of_the_next() {
    const COUNT: usize = 1_000_000;
    for times in [1, 3] {
        let run = Run::new();
        let mut peers = run.peers(2);
        let ids = ids(&peers);
        let doomed = run.join_doomed(
            &mut peers,
            ("frame_sent", times),
            move |doomed| async move {
                let mine = vec![9_u32; COUNT];
                let mut all = Vec::new();
                let how = GatherV::default();
                let _ = doomed.all_gather_v_async(&mine, &mut all, how).await;
            },
        );

        together_with(&mut peers, |index, peer| {
            let (mine, mut all) = (made::<u32>(index, 500_000 * index + 1), BEFORE.to_vec());
            let failed = peer.all_gather_v(&mine, &mut all, GatherV::default());
            let failed = failed.unwrap_err();
            assert!(matches!(failed, Error::Aborted { .. }), "{failed}");
            assert_eq!(all, BEFORE);

            let lengths = [4, 5];
            let mine: Vec<u32> = made(index, lengths[index]);
            let next = peer.all_gather_v(&mine, &mut all, GatherV::default());
            let ring = next.unwrap().report.contributors;
            assert_eq!(all, reference(&ids, &ring, &lengths));
        });
        doomed.join().unwrap();
    }
}

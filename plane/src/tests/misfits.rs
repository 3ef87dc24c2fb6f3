//! Why a frame is not taken: each fault of a neighbour has its name, and none is taken for a defect.

use pccl_core::element::{CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::plan::{Algorithm, Reach};
use pccl_core::wire::{COPIED_PAYLOAD_MAX, FRAME_PAYLOAD_MAX, FrameHeader};

use super::hostile::{COUNT, first, second};
use super::support::spec;
use super::worker::Worker;
use crate::memory::Pool;
use crate::pace::Pace;
use crate::work::{Exit, Misfit, NotTaken, Place};

/// Rank 0 of so many, whose neighbours send what they should not.
pub(super) fn rank_of(world: u32) -> Worker {
    rank_with(Algorithm::Ring, world)
}

fn rank_with(algorithm: Algorithm, world: u32) -> Worker {
    rank_of_sum(COUNT, algorithm, world)
}

/// The same, of a sum of so many elements.
fn rank_of_sum(count: usize, algorithm: Algorithm, world: u32) -> Worker {
    let place = Place {
        world,
        rank: 0,
        lanes: 2,
    };
    let pace = Pace {
        frame_bytes: 1000,
        window: None,
        stripe_bytes: 16 * 1024,
    };
    let exit = |rank| Exit {
        rank,
        leaves_machine: false,
        lanes: vec![0],
    };
    let exits: Vec<Exit> = match algorithm.reach() {
        Reach::Ring => vec![exit(1)],
        Reach::Mesh => (1..world).map(exit).collect(),
    };
    let sum = spec(ReduceOp::Sum, ElementType::U16, count);
    let data = vec![1; 2 * count];
    Worker::new(
        (&sum, algorithm),
        place,
        (pace, &exits),
        data,
        &Pool::new(1),
    )
}

impl Worker {
    /// Why it does not take a frame. `None`: it does.
    fn objection(&mut self, lane: u16, header: FrameHeader) -> Option<NotTaken> {
        let previous = self.world - 1;
        self.objection_to((previous, lane), header)
    }

    /// The same about a frame that comes from a rank on a lane.
    fn objection_to(&mut self, from: (u32, u16), header: FrameHeader) -> Option<NotTaken> {
        let (work, mut buffers) = self.parts();
        let frame = match work.announce(from, &header, &mut buffers) {
            Ok(frame) => frame,
            Err(objection) => return Some(objection),
        };
        work.accept(frame, &mut buffers).unwrap();
        None
    }

    /// Its own contribution leaves.
    fn contribute(&mut self) {
        self.contribute_by(0);
    }

    /// Another frame leaves. `false`: there is none.
    fn contributes_more(&mut self) -> bool {
        let (work, mut buffers) = self.parts();
        let own = work.next_out(0, &mut buffers).unwrap();
        own.map(|own| work.has_left(0, own)).is_some()
    }

    fn contribute_by(&mut self, outlet: u16) {
        let (work, mut buffers) = self.parts();
        let own = work.next_out(outlet, &mut buffers).unwrap().unwrap();
        work.has_left(outlet, own);
    }
}

#[test]
fn a_frame_of_no_flow_is_told_from_one_that_is_out_of_order_or_of_no_length() {
    let sound = first();
    let cases = [
        (FrameHeader { stripe: 1, ..sound }, Misfit::NoSuchFlow),
        (FrameHeader { step: 2, ..sound }, Misfit::NoSuchFlow),
        (
            FrameHeader {
                step: u32::MAX,
                ..sound
            },
            Misfit::NoSuchFlow,
        ),
        (FrameHeader { offset: 2, ..sound }, Misfit::OutOfOrder),
        (
            FrameHeader {
                offset: u64::MAX,
                ..sound
            },
            Misfit::OutOfOrder,
        ),
        (
            FrameHeader {
                length: COUNT as u32 + 2,
                ..sound
            },
            Misfit::OutOfOrder,
        ),
        (
            FrameHeader {
                length: 65,
                ..sound
            },
            Misfit::Length,
        ),
        (
            FrameHeader {
                length: 62,
                ..sound
            },
            Misfit::Length,
        ),
        (FrameHeader { length: 0, ..sound }, Misfit::Length),
    ];
    for (header, misfit) in cases {
        let objection = rank_of(2).objection(0, header);

        assert_eq!(objection, Some(NotTaken::Misfit(misfit)), "{header:?}");
    }
    assert_eq!(rank_of(2).objection(0, sound), None);
}

#[test]
fn a_result_that_comes_before_the_contribution_has_left_is_too_early() {
    let mut rank = rank_of(2);

    let before = rank.objection(0, second());
    rank.contribute();
    let after = rank.objection(0, second());

    assert_eq!(before, Some(NotTaken::Misfit(Misfit::TooEarly)));
    assert_eq!(after, None);
    assert_eq!(
        rank.objection(0, second()),
        Some(NotTaken::Misfit(Misfit::OutOfOrder))
    );
}

#[test]
fn a_result_that_comes_before_its_partial_sum_is_too_early() {
    // Chunk 1 of three is combined in step 0 and copied in step 3.
    let mut rank = rank_of(3);
    let partial = FrameHeader {
        offset: 2 * 34,
        length: 2 * 33,
        ..first()
    };
    let result = FrameHeader { step: 3, ..partial };

    assert_eq!(
        rank.objection(0, result),
        Some(NotTaken::Misfit(Misfit::TooEarly))
    );
    assert_eq!(rank.objection(0, partial), None);
    assert_eq!(rank.objection(0, result), None);
}

#[test]
fn frames_of_a_stripe_come_on_one_lane() {
    let mut rank = rank_of(2);
    let half_of_it = FrameHeader {
        length: COUNT as u32 - 20,
        ..first()
    };
    let rest = FrameHeader {
        offset: COUNT as u64 - 20,
        length: 20,
        ..first()
    };

    assert_eq!(rank.objection(1, half_of_it), None);
    assert_eq!(
        rank.objection(0, rest),
        Some(NotTaken::Misfit(Misfit::OtherLane))
    );
    assert_eq!(rank.objection(1, rest), None);
}

/// Rank 0 of two that send a sum of single precision in bytes.
fn quantized() -> Worker {
    let place = Place {
        world: 2,
        rank: 0,
        lanes: 1,
    };
    let pace = Pace {
        frame_bytes: 1000,
        window: None,
        stripe_bytes: 16 * 1024,
    };
    let exit = Exit {
        rank: 1,
        leaves_machine: false,
        lanes: vec![0],
    };
    let sum = CollectiveSpec {
        quantization: Quantization::MinMax {
            to: ElementType::U8,
        },
        ..spec(ReduceOp::Sum, ElementType::F32, COUNT)
    };
    let data = vec![0; 4 * COUNT];
    Worker::new(
        (&sum, Algorithm::Ring),
        place,
        (pace, &[exit]),
        data,
        &Pool::new(1),
    )
}

#[test]
fn an_encoded_frame_has_one_length_and_no_other() {
    let is_taken = |length: &u32| {
        let length = *length;
        let frame = FrameHeader { length, ..first() };
        let mut rank = quantized();
        let (work, mut buffers) = rank.parts();
        let announced = work.announce((1, 0), &frame, &mut buffers);
        let misfit = announced.map(|_| ());
        assert!(
            matches!(misfit, Ok(()) | Err(NotTaken::Misfit(Misfit::Length))),
            "{misfit:?}"
        );
        misfit.is_ok()
    };

    let taken: Vec<u32> = (0..1000).filter(is_taken).collect();

    assert_eq!(taken.len(), 1, "{taken:?}");
}

/// Rank 0 of three that exchange directly: it combines 0..34, rank 1 34..67, rank 2 67..100.
fn direct() -> Worker {
    rank_with(Algorithm::Direct, 3)
}

/// What rank 2 contributes to the chunk of rank 0.
fn of_rank_2() -> FrameHeader {
    FrameHeader {
        step: 0,
        offset: 0,
        length: 2 * 34,
        ..first()
    }
}

#[test]
fn what_another_rank_should_have_sent_directly_is_not_taken() {
    let mut rank = direct();

    let from_1 = rank.objection_to((1, 0), of_rank_2());
    let from_2 = rank.objection_to((2, 0), of_rank_2());
    let again = rank.objection_to((2, 0), of_rank_2());

    assert_eq!(from_1, Some(NotTaken::Misfit(Misfit::OtherLane)));
    assert_eq!(from_2, None);
    assert_eq!(again, Some(NotTaken::Misfit(Misfit::OutOfOrder)));
}

#[test]
fn a_result_told_directly_before_the_contribution_to_it_has_left_is_too_early() {
    // Of rank 2, to which the second contribution goes.
    let result = FrameHeader {
        step: 2,
        offset: 2 * 67,
        length: 2 * 33,
        ..first()
    };
    let mut rank = direct();

    rank.contribute_by(0);
    let before = rank.objection_to((2, 0), result);
    rank.contribute_by(1);
    let after = rank.objection_to((2, 0), result);

    assert_eq!(before, Some(NotTaken::Misfit(Misfit::TooEarly)));
    assert_eq!(after, None);
}

#[test]
fn a_direct_exchange_has_no_steps_beyond_its_results_and_one_lane_from_each_rank() {
    let mut rank = direct();
    let beyond = FrameHeader {
        step: 4,
        ..of_rank_2()
    };
    let half = FrameHeader {
        length: 64,
        ..of_rank_2()
    };
    let rest = FrameHeader {
        offset: 64,
        length: 4,
        ..of_rank_2()
    };

    let no_such = rank.objection_to((2, 0), beyond);
    assert_eq!(no_such, Some(NotTaken::Misfit(Misfit::NoSuchFlow)));
    assert_eq!(rank.objection_to((2, 1), half), None);
    let other_lane = rank.objection_to((2, 0), rest);
    assert_eq!(other_lane, Some(NotTaken::Misfit(Misfit::OtherLane)));
    assert_eq!(rank.objection_to((2, 1), rest), None);
}

/// In a world of two, each rank's chunk is added first. The results of the other one come then, and take no memory but
/// that of the result.
#[test]
fn a_frame_may_be_longer_if_it_is_copied_than_if_it_is_added() {
    let half = 2 * COPIED_PAYLOAD_MAX as u64;
    let mut rank = rank_of_sum(2 * COPIED_PAYLOAD_MAX, Algorithm::Ring, 2);
    let added = |length: usize| FrameHeader {
        length: length as u32,
        ..first()
    };
    let copied = |length: usize| FrameHeader {
        step: 1,
        offset: half,
        ..added(length)
    };

    let too_long_to_add = rank.objection(0, added(FRAME_PAYLOAD_MAX + 2));
    let added = rank.objection(0, added(FRAME_PAYLOAD_MAX));
    while rank.contributes_more() {}
    let too_long = rank.objection(0, copied(COPIED_PAYLOAD_MAX + 2));
    let copied = rank.objection(0, copied(COPIED_PAYLOAD_MAX));

    assert_eq!(too_long_to_add, Some(Misfit::Length.into()));
    assert_eq!(too_long, Some(Misfit::Length.into()));
    assert_eq!((added, copied), (None, None));
}

//! Why a frame is not taken: each fault of a neighbour has its name, and none is taken for a defect.

use pccl_core::element::{ElementType, ReduceOp};
use pccl_core::wire::FrameHeader;

use super::super::pool::Pool;
use super::super::work::{Misfit, NotTaken, Pace, Place};
use super::hostile::{COUNT, first, second};
use super::support::spec;
use super::worker::Worker;

/// Rank 0 of so many, whose neighbours send what they should not.
fn rank_of(world: u32) -> Worker {
    let place = Place {
        world,
        rank: 0,
        lanes: 2,
    };
    let pace = Pace {
        frame_bytes: 1000,
        window: None,
        leaves_machine: false,
        lanes: 1,
        small_bytes: 0,
        stripe_bytes: 16 * 1024,
    };
    let sum = spec(ReduceOp::Sum, ElementType::U16, COUNT);
    Worker::new(&sum, place, pace, vec![1; 2 * COUNT], &Pool::new(1))
}

impl Worker {
    /// Why it does not take a frame. `None`: it does.
    fn objection(&mut self, lane: u16, header: FrameHeader) -> Option<NotTaken> {
        let (work, mut buffers) = self.parts();
        let frame = match work.announce(lane, &header, &mut buffers) {
            Ok(frame) => frame,
            Err(objection) => return Some(objection),
        };
        work.accept(frame, &mut buffers).unwrap();
        None
    }

    /// Its own contribution leaves.
    fn contribute(&mut self) {
        let (work, buffers) = self.parts();
        let own = work.next_out(0, &buffers).unwrap().unwrap();
        work.has_left(0, own);
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
        (
            FrameHeader {
                offset: COUNT as u64 + 2,
                ..sound
            },
            Misfit::OutOfOrder,
        ),
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
    // Chunk 2 of three is combined in step 0 and copied in step 3.
    let mut rank = rank_of(3);
    let partial = FrameHeader {
        offset: 2 * 67,
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
        offset: 2 * COUNT as u64 - 20,
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

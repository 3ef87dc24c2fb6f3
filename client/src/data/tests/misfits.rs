//! Why a frame is not taken: each fault of a neighbour has its name, and none is taken for a defect.

use pccl_core::element::{CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::Seq;
use pccl_core::wire::FrameHeader;

use super::super::buffers::{Backup, RingBuffers};
use super::super::pool::Pool;
use super::super::work::{Misfit, NotTaken, Pace, Place, RingWork};

/// Bytes of half of the buffer, which is one chunk of two peers.
const HALF: u64 = 100;

/// Rank 0.
struct Rank {
    work: RingWork,
    data: Vec<u8>,
    backup: Backup,
}

impl Rank {
    /// Of two.
    fn new() -> Self {
        Self::of(2)
    }

    fn of(world: u32) -> Self {
        let spec = CollectiveSpec {
            op: ReduceOp::Sum,
            element: ElementType::U16,
            count: HALF,
            quantization: Quantization::None,
        };
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
        let mut rank = Self {
            work: RingWork::new(Seq(1), &spec, place, pace, &Pool::new(1)).unwrap(),
            data: vec![1; 2 * HALF as usize],
            backup: Backup::default(),
        };
        let slots = rank.work.slots();
        rank.buffers().begin(slots);
        rank
    }

    fn buffers(&mut self) -> RingBuffers<'_> {
        RingBuffers::InPlace {
            data: &mut self.data,
            backup: &mut self.backup,
        }
    }

    /// Why it does not take a frame. `None`: it does.
    fn objection(&mut self, lane: u16, header: FrameHeader) -> Option<NotTaken> {
        let mut buffers = RingBuffers::InPlace {
            data: &mut self.data,
            backup: &mut self.backup,
        };
        let frame = match self.work.announce(lane, &header, &mut buffers) {
            Ok(frame) => frame,
            Err(objection) => return Some(objection),
        };
        self.work.accept(frame, &mut buffers).unwrap();
        None
    }

    /// Its own contribution leaves.
    fn contribute(&mut self) {
        let buffers = RingBuffers::InPlace {
            data: &mut self.data,
            backup: &mut self.backup,
        };
        let own = self.work.next_out(0, &buffers).unwrap().unwrap();
        self.work.has_left(0, own);
    }
}

/// Rank 1's own half, which rank 0 finishes.
fn contribution() -> FrameHeader {
    FrameHeader {
        seq: Seq(1),
        offset: HALF,
        length: HALF as u32,
        step: 0,
        stripe: 0,
        flags: 0,
    }
}

/// Rank 0's half, finished by rank 1.
fn result() -> FrameHeader {
    FrameHeader {
        offset: 0,
        step: 1,
        ..contribution()
    }
}

#[test]
fn a_frame_of_no_flow_is_told_from_one_that_is_out_of_order_or_of_no_length() {
    let sound = contribution();
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
                offset: HALF + 2,
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
                length: HALF as u32 + 2,
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
        let objection = Rank::new().objection(0, header);

        assert_eq!(objection, Some(NotTaken::Misfit(misfit)), "{header:?}");
    }
    assert_eq!(Rank::new().objection(0, sound), None);
}

#[test]
fn a_result_that_comes_before_the_contribution_has_left_is_too_early() {
    let mut rank = Rank::new();

    let before = rank.objection(0, result());
    rank.contribute();
    let after = rank.objection(0, result());

    assert_eq!(before, Some(NotTaken::Misfit(Misfit::TooEarly)));
    assert_eq!(after, None);
    assert_eq!(
        rank.objection(0, result()),
        Some(NotTaken::Misfit(Misfit::OutOfOrder))
    );
}

#[test]
fn a_result_that_comes_before_its_partial_sum_is_too_early() {
    // Chunk 2 of three is combined in step 0 and copied in step 3.
    let mut rank = Rank::of(3);
    let partial = FrameHeader {
        offset: 2 * 67,
        length: 2 * 33,
        ..contribution()
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
    let mut rank = Rank::new();
    let half_of_it = FrameHeader {
        length: HALF as u32 - 20,
        ..contribution()
    };
    let rest = FrameHeader {
        offset: 2 * HALF - 20,
        length: 20,
        ..contribution()
    };

    assert_eq!(rank.objection(1, half_of_it), None);
    assert_eq!(
        rank.objection(0, rest),
        Some(NotTaken::Misfit(Misfit::OtherLane))
    );
    assert_eq!(rank.objection(1, rest), None);
}

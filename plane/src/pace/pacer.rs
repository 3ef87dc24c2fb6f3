//! Whose own contributions are put under way.
//!
//! Every operation passes on what it receives, at once and always: so nothing that was sent ever waits
//! for a decision of this peer, and peers may decide differently. What is decided is who may begin the
//! way of frames of its own. The operations with the lowest numbers may, up to a limit, which bounds the
//! memory that operations need.
//!
//! Where no frame leaves the machine, large operations contribute one after the other: frames of
//! many of them would wait for each other, and be in no cache any more when it is their turn to leave. The
//! oldest has a [`Share`] of what may be under way, so that none waits for ever, and the one with the
//! fewest bytes, so that it need not wait for a larger one; often they are the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pccl_core::id::Seq;

use super::Share;
use crate::handover::{Delivery, DeliverySender};

/// Lets operations contribute. Each is told of its share; before that it has none.
#[derive(Debug)]
pub(crate) struct Pacer {
    limit: usize,
    /// Operations of no more bytes take no turns.
    small: u64,
    /// A frame that had left this machine has come back to it.
    leaves_machine: AtomicBool,
    /// Operations that have begun and not ended.
    open: Mutex<BTreeMap<Seq, Entry>>,
}

/// An operation that has begun.
#[derive(Debug)]
struct Entry {
    address: DeliverySender,
    /// Bytes of its buffer.
    bytes: u64,
    takes_turns: bool,
    /// What it was told last.
    share: Share,
}

/// An operation's place in the order. Dropping it says that the operation has ended.
#[derive(Debug)]
pub(crate) struct Pass {
    pacer: Arc<Pacer>,
    seq: Seq,
}

impl Pacer {
    /// At most `limit` operations contribute at a time, at least one.
    pub(crate) fn new(limit: usize, small: u64) -> Arc<Self> {
        Arc::new(Self {
            limit: limit.max(1),
            small,
            leaves_machine: AtomicBool::new(false),
            open: Mutex::default(),
        })
    }

    /// Other links stand: no frame has been around them.
    pub(crate) fn links_changed(&self) {
        self.leaves_machine.store(false, Ordering::Relaxed);
    }

    /// Has a frame come back that had left this machine?
    pub(crate) fn leaves_machine(&self) -> bool {
        self.leaves_machine.load(Ordering::Relaxed)
    }

    /// An operation on a buffer of so many bytes begins. Do its frames stay on this machine, as far as
    /// is known?
    pub(crate) fn begin(
        self: &Arc<Self>,
        (seq, address): (Seq, DeliverySender),
        bytes: u64,
        is_local: bool,
    ) -> Pass {
        let entry = Entry {
            address,
            bytes,
            takes_turns: is_local && bytes > self.small,
            share: Share::Nothing,
        };
        let mut open = self.open();
        open.insert(seq, entry);
        self.share_out(&mut open);
        Pass {
            pacer: Arc::clone(self),
            seq,
        }
    }

    /// Tells those whose share has changed.
    fn share_out(&self, open: &mut BTreeMap<Seq, Entry>) {
        let in_turns = open.iter().take(self.limit);
        let in_turns = in_turns.filter(|(_, entry)| entry.takes_turns);
        let in_turns = in_turns.map(|(seq, entry)| (entry.bytes, *seq));
        let oldest = in_turns.clone().next().map(|(_, seq)| seq);
        let smallest = in_turns.min().map(|(_, seq)| seq);
        let in_turn = if oldest == smallest {
            Share::Whole
        } else {
            Share::Half
        };
        for (seq, entry) in open.iter_mut().take(self.limit) {
            let chosen = oldest == Some(*seq) || smallest == Some(*seq);
            let share = match (entry.takes_turns, chosen) {
                (false, _) => Share::Whole,
                (true, true) => in_turn,
                (true, false) => Share::Nothing,
            };
            if entry.share != share {
                entry.share = share;
                // Fails only where nobody runs it any more.
                let _ = entry.address.send(Delivery::Share(share));
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<Seq, Entry>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// Has a frame of any operation come back that had left this machine?
    pub(crate) fn leaves_machine(&self) -> bool {
        self.pacer.leaves_machine()
    }

    /// Frames leave this machine on their way: nobody takes turns.
    pub(crate) fn note_left_machine(&self) {
        self.pacer.leaves_machine.store(true, Ordering::Relaxed);
        let mut open = self.pacer.open();
        for entry in open.values_mut() {
            entry.takes_turns = false;
        }
        self.pacer.share_out(&mut open);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut open = self.pacer.open();
        open.remove(&self.seq);
        self.pacer.share_out(&mut open);
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;
    use crate::handover::Inbox;

    /// Operations that are told of their shares.
    struct Told {
        pass: Pass,
        inbox: Inbox,
        share: Share,
    }

    impl Told {
        fn begin(pacer: &Arc<Pacer>, seq: u64, bytes: u64, is_local: bool) -> Self {
            let (address, inbox) = Inbox::new();
            Self {
                pass: pacer.begin((Seq(seq), address), bytes, is_local),
                inbox,
                share: Share::Nothing,
            }
        }

        fn share(&mut self) -> Share {
            let told = iter::from_fn(|| self.inbox.try_next());
            for delivery in told {
                if let Delivery::Share(share) = delivery {
                    self.share = share;
                }
            }
            self.share
        }
    }

    fn shares(told: &mut [Told]) -> Vec<Share> {
        told.iter_mut().map(Told::share).collect()
    }

    const SMALL: u64 = 100;

    #[test]
    fn large_operations_of_one_size_contribute_one_after_the_other_in_their_order() {
        let pacer = Pacer::new(16, SMALL);
        let mut told: Vec<Told> = (1..=3)
            .map(|seq| Told::begin(&pacer, seq, 1000, true))
            .collect();

        let mut seen = vec![shares(&mut told)];
        told.remove(0);
        seen.push(shares(&mut told));

        use Share::{Nothing, Whole};
        assert_eq!(seen, [vec![Whole, Nothing, Nothing], vec![Whole, Nothing]]);
    }

    #[test]
    fn the_oldest_shares_with_the_one_that_has_the_fewest_bytes() {
        let pacer = Pacer::new(16, SMALL);
        let sizes = [1000, 2000, 500, 500];
        let mut told: Vec<Told> = (1..)
            .zip(sizes)
            .map(|(seq, bytes)| Told::begin(&pacer, seq, bytes, true))
            .collect();

        let mut seen = vec![shares(&mut told)];
        told.remove(2);
        seen.push(shares(&mut told));
        told.remove(2);
        seen.push(shares(&mut told));

        use Share::{Half, Nothing, Whole};
        assert_eq!(seen[0], [Half, Nothing, Half, Nothing]);
        assert_eq!(seen[1], [Half, Nothing, Half]);
        assert_eq!(seen[2], [Whole, Nothing]);
    }

    #[test]
    fn small_operations_and_those_between_machines_take_no_turns() {
        let pacer = Pacer::new(16, SMALL);
        let mut told = [
            Told::begin(&pacer, 1, 1000, true),
            Told::begin(&pacer, 2, SMALL, true),
            Told::begin(&pacer, 3, 1000, false),
        ];

        assert_eq!(shares(&mut told), [Share::Whole; 3]);
    }

    #[test]
    fn operations_beyond_the_limit_have_no_share_until_one_before_them_ends() {
        let pacer = Pacer::new(2, SMALL);
        let mut told: Vec<Told> = (1..=4)
            .map(|seq| Told::begin(&pacer, seq, 1, false))
            .collect();

        let before = shares(&mut told);
        told.remove(1);
        let after = shares(&mut told);

        use Share::{Nothing, Whole};
        assert_eq!(before, [Whole, Whole, Nothing, Nothing]);
        assert_eq!(after, [Whole, Whole, Nothing]);
    }

    #[test]
    fn where_the_ring_turns_out_to_leave_the_machine_all_contribute_at_once() {
        let pacer = Pacer::new(16, SMALL);
        let mut told: Vec<Told> = (1..=3)
            .map(|seq| Told::begin(&pacer, seq, 1000, true))
            .collect();

        told[0].pass.note_left_machine();

        assert_eq!(shares(&mut told), [Share::Whole; 3]);
    }
}

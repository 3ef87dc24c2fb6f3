//! Plans of all ranks, carried out against a clock: when the last of what they send has arrived.
//!
//! A rank has four ports: out of it and into it, to other sites and inside its own. A port carries one message after
//! the other, in the order in which they come to it, at the rate of paths of that kind; a message takes the port out of
//! its sender while its bytes leave, and the port into its receiver while they arrive, a latency later if that port is
//! free. Sender and receiver spend half of [`MESSAGE_NS`] each on it, on one message after the other. A flow that is
//! longer than a frame travels in frames. A frame goes on once it is there, and a frame of a sum once it is there of
//! all terms, as in the data plane. Messages that share a port at the same time, queues in between and lost packets are
//! not simulated. What has to be done before an element is overwritten is, in this network, always done by then; that
//! is asserted.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::super::super::cost::MESSAGE_NS;
use super::super::*;
use super::schedule::{Part, Schedule, Sent};
use crate::paths::{FRAME_BYTES, Measurement};

/// A buffer travels in at most about so many frames: those of long ones are larger than [`FRAME_BYTES`], or it would
/// take too long to simulate them.
const FRAMES_OF_BUFFER_MAX: u64 = 1024;

impl Schedule<'_> {
    /// How long all of it takes, in nanoseconds, for a buffer of so many bytes, a multiple of the number of ranks. All
    /// paths inside a site are alike, and so are all others.
    ///
    /// # Panics
    ///
    /// If something that a rank expects never arrives.
    pub(super) fn time(&self, bytes: u64, near: Measurement, far: Measurement) -> u64 {
        let shard = bytes / u64::from(self.sites.world());
        let frame = FRAME_BYTES.max(bytes / FRAMES_OF_BUFFER_MAX);
        let mut clock = Clock::new(self, (shard, frame), [near, far]);
        clock.run();
        clock.done_ns
    }
}

/// A frame of a flow, by its step and number.
type Frame = (u32, u32);

/// What travels at once: a frame, or flows that leave together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Message {
    from: u32,
    to: u32,
    bytes: u64,
    frames: Vec<Frame>,
}

/// That the first byte of a message comes to the port of its receiver, or that all of it is there.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at_ns: u64,
    /// No two events have the same: those of one time happen in this order.
    number: u64,
    is_there: bool,
    message: Message,
}

/// When something that serves one message after the other is free.
#[derive(Clone, Copy, Default)]
struct Free(u64);

impl Free {
    /// Takes it for so long, as soon as it is free, but not before a time. When that began, and when it ends.
    fn take(&mut self, not_before: u64, for_ns: u64) -> (u64, u64) {
        let begin = self.0.max(not_before);
        self.0 = begin + for_ns;
        (begin, self.0)
    }
}

/// What a rank has and waits for.
#[derive(Clone, Default)]
struct Rank {
    processor: Free,
    /// By kind of path: inside the site, and to others.
    ports_out: [Free; 2],
    ports_in: [Free; 2],
    /// By sum, and by number of the frame: how many terms are missing.
    missing: Vec<Vec<u32>>,
    /// What waits for the flows that it leaves with, as in [`Part::bundles`].
    bundled: BTreeMap<(u32, u32), Message>,
    /// By step: how many frames have arrived, which come in their order.
    arrived: Vec<u32>,
}

struct Clock<'a> {
    schedule: &'a Schedule<'a>,
    shard_bytes: u64,
    frame_bytes: u64,
    paths: [Measurement; 2],
    ranks: Vec<Rank>,
    events: BinaryHeap<Reverse<Event>>,
    /// How many there were.
    numbers: u64,
    /// When the last one was.
    done_ns: u64,
}

impl<'a> Clock<'a> {
    fn new(
        schedule: &'a Schedule<'a>,
        (shard_bytes, frame_bytes): (u64, u64),
        paths: [Measurement; 2],
    ) -> Self {
        let mut clock = Self {
            schedule,
            shard_bytes,
            frame_bytes,
            paths,
            ranks: Vec::new(),
            events: BinaryHeap::new(),
            numbers: 0,
            done_ns: 0,
        };
        let rank = |part: &Part<'_>| {
            let sums = part.sums.iter();
            let missing = sums.map(|sum| vec![sum.terms; clock.frames(sum.shards) as usize]);
            Rank {
                missing: missing.collect(),
                arrived: vec![0; part.arrivals.len()],
                ..Rank::default()
            }
        };
        clock.ranks = schedule.parts.iter().map(rank).collect();
        clock
    }

    /// How many frames so many shards are.
    fn frames(&self, shards: u64) -> u32 {
        (shards * self.shard_bytes).div_ceil(self.frame_bytes) as u32
    }

    fn run(&mut self) {
        let schedule = self.schedule;
        for (rank, part) in (0..).zip(&schedule.parts) {
            for sent in &part.contributions {
                for frame in 0..self.frames(sent.shards) {
                    self.send(0, rank, *sent, frame);
                }
            }
        }
        while let Some(Reverse(event)) = self.events.pop() {
            match event.is_there {
                false => self.enter(event.at_ns, event.message),
                true => self.arrive(event.at_ns, &event.message),
            }
        }
        for (rank, part) in self.ranks.iter().zip(&schedule.parts) {
            for (arrived, flow) in rank.arrived.iter().zip(&part.arrivals) {
                assert_eq!(*arrived, self.frames(flow.shards), "frames never come");
            }
        }
    }

    /// A frame is ready to leave.
    fn send(&mut self, now: u64, from: u32, sent: Sent, frame: u32) {
        let all = sent.shards * self.shard_bytes;
        let bytes = (self.frame_bytes).min(all - u64::from(frame) * self.frame_bytes);
        let (to, step) = (sent.to.rank, sent.to.step);
        let part = &self.schedule.parts[from as usize];
        let mut message = Message {
            from,
            to,
            bytes,
            frames: vec![(step, frame)],
        };
        if let Some(number) = part.plan.leaves_with(step) {
            assert!(
                all <= self.frame_bytes,
                "what leaves together is of one frame"
            );
            let bundled = &mut self.ranks[from as usize].bundled;
            if let Some(others) = bundled.remove(&(to, number)) {
                message.bytes += others.bytes;
                message.frames.extend(others.frames);
            }
            if message.frames.len() < part.bundles[&(to, number)] {
                bundled.insert((to, number), message);
                return;
            }
        }
        self.leave(now, message);
    }

    fn leave(&mut self, now: u64, message: Message) {
        let kind = self.kind(&message);
        let path = self.paths[kind];
        let rank = &mut self.ranks[message.from as usize];
        let (_, ready) = rank.processor.take(now, MESSAGE_NS as u64 / 2);
        let (begin, _) = rank.ports_out[kind].take(ready, transfer_ns(path, message.bytes));
        self.push(begin + path.latency_ns(), false, message);
    }

    fn enter(&mut self, now: u64, message: Message) {
        let kind = self.kind(&message);
        let port = &mut self.ranks[message.to as usize].ports_in[kind];
        let (_, end) = port.take(now, transfer_ns(self.paths[kind], message.bytes));
        self.push(end, true, message);
    }

    fn arrive(&mut self, now: u64, message: &Message) {
        let (to, schedule) = (message.to, self.schedule);
        let (part, rank) = (&schedule.parts[to as usize], to as usize);
        let (_, now) = self.ranks[rank].processor.take(now, MESSAGE_NS as u64 / 2);
        for (step, frame) in &message.frames {
            let flow = &part.arrivals[*step as usize];
            self.assert_may_overwrite(rank, flow.after, *frame);
            let arrived = &mut self.ranks[rank].arrived[*step as usize];
            assert_eq!(*arrived, *frame, "frames of a flow come in their order");
            *arrived += 1;
            for sent in &flow.onward {
                self.send(now, to, *sent, *frame);
            }
            if let Some(sum) = flow.sum {
                self.add(now, to, sum, *frame);
            }
        }
        self.done_ns = self.done_ns.max(now);
    }

    /// A term of a frame of a sum is there.
    fn add(&mut self, now: u64, rank: u32, sum: u32, frame: u32) {
        let missing = &mut self.ranks[rank as usize].missing[sum as usize][frame as usize];
        *missing -= 1;
        if *missing > 0 {
            return;
        }
        let schedule = self.schedule;
        let sum = &schedule.parts[rank as usize].sums[sum as usize];
        for sent in &sum.told {
            self.send(now, rank, *sent, frame);
        }
        if let Some(onto) = sum.onto {
            self.add(now, rank, onto, frame);
        }
    }

    fn assert_may_overwrite(&self, rank: usize, after: After, frame: u32) {
        let rank = &self.ranks[rank];
        let is_done = match after {
            // Contributions are the first that leaves, and what arrives is their result.
            After::Nothing | After::Contribution(_) => true,
            After::Arrival(step) => rank.arrived[step as usize] > frame,
            After::Sum(sum) => rank.missing[sum as usize][frame as usize] == 0,
        };
        assert!(is_done, "what a frame overwrites is needed");
    }

    /// 0 inside a site, 1 between two.
    fn kind(&self, message: &Message) -> usize {
        let site = |rank| self.schedule.sites.of_rank(rank);
        usize::from(site(message.from) != site(message.to))
    }

    fn push(&mut self, at_ns: u64, is_there: bool, message: Message) {
        self.numbers += 1;
        self.events.push(Reverse(Event {
            at_ns,
            number: self.numbers,
            is_there,
            message,
        }));
    }
}

fn transfer_ns(path: Measurement, bytes: u64) -> u64 {
    bytes * 1_000_000_000 / path.bytes_per_s
}

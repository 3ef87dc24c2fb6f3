//! What stands between a simulated peer and its lanes: it traces every byte, and kills at certain messages.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::task::{Poll, ready};

use pccl_core::id::Identity;
use pccl_core::messages::{ToMaster, ToPeer};
use pccl_core::transport::{Endpoint, Lane, LaneError};
use pccl_core::wire::{ControlReader, PREAMBLE_BYTES, Reply};
use pccl_transport_memory::{Interceptor, on_recv, on_send};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::trace::hash_of;
use super::world::World;
use crate::churn::numbers::mixed;

/// The longest message that is understood.
const MESSAGE_MAX: usize = 1 << 22;

/// First words that are kept, and the bytes of each.
const FIRST_WORDS: (usize, usize) = (64, 512);

/// A process dies at a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Armed {
    pub(super) number: usize,
    pub(super) at: At,
}

/// Which message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// So many more leave for the master.
    Word(u32),
    /// So many more of the master are heard.
    Hearing(u32),
    /// All others have voted to complete a collective.
    LastVote,
    /// A verdict.
    Verdict,
}

/// The ears of one process.
pub(super) struct Ears {
    pub(super) world: Weak<World>,
    pub(super) number: usize,
}

impl Ears {
    pub(super) fn of(world: &Arc<World>, number: usize) -> Self {
        Self {
            world: Arc::downgrade(world),
            number,
        }
    }

    fn on(&self, lane: Lane, to: Option<SocketAddr>, kind: u64) -> Lane {
        let number = self.number;
        let (sends, receives) = (self.world.clone(), self.world.clone());
        let mut said = Words::default();
        let mut heard = Words::default();
        let mut is_first = true;
        let tx = on_send(lane.tx, move |tx, cx, parts| {
            let Some(world) = sends.upgrade() else {
                return tx.poll_send(cx, parts);
            };
            let is_control = to.is_some() && to == world.with(|state| state.master_at);
            if is_control && dies_saying(&world, number, &mut said, &parts.concat()) {
                return Poll::Ready(Err(LaneError::Reset));
            }
            let sent = ready!(tx.poll_send(cx, parts));
            let length = sent.unwrap_or(0);
            let hash = hash_of_parts(parts, length);
            world.trace.note([kind, number as u64, 1, hash]);
            if is_first && let Some(to) = to {
                is_first = false;
                let all = parts.concat();
                remember(&world, to, all.get(..length).unwrap_or_default());
            }
            said.took(length);
            Poll::Ready(sent)
        });
        let rx = on_recv(lane.rx, move |rx, cx, into| {
            let received = ready!(rx.poll_recv(cx, into));
            let Some(world) = receives.upgrade() else {
                return Poll::Ready(received);
            };
            let bytes = into.get(..received.unwrap_or(0)).unwrap_or_default();
            world.trace.note([kind, number as u64, 2, hash_of(bytes)]);
            let is_control = to.is_some() && to == world.with(|state| state.master_at);
            if is_control && dies_hearing(&world, number, &mut heard, bytes) {
                return Poll::Ready(Err(LaneError::Reset));
            }
            Poll::Ready(received)
        });
        Lane { tx, rx, ..lane }
    }
}

/// A number that depends on each of the first so many bytes.
fn hash_of_parts(parts: &[&[u8]], mut length: usize) -> u64 {
    let mut hash = 0;
    for part in parts {
        let part = part.get(..length).unwrap_or(part);
        length -= part.len();
        hash = mixed(hash, hash_of(part));
    }
    hash
}

impl Interceptor for Ears {
    fn opened(&self, lane: Lane, to: &Endpoint, _: Option<Identity>) -> Lane {
        let to = match to {
            Endpoint::Address(to) => Some(*to),
            Endpoint::Name(name) => name.parse().ok(),
        };
        self.on(lane, to, 1)
    }

    fn accepted(&self, lane: Lane, _: SocketAddr) -> Lane {
        self.on(lane, None, 2)
    }
}

/// Keeps the beginning of what was said on a lane, for strangers who say it again.
fn remember(world: &World, to: SocketAddr, bytes: &[u8]) {
    let (words_max, bytes_max) = FIRST_WORDS;
    let kept = bytes.get(..bytes_max.min(bytes.len())).unwrap_or_default();
    world.with(|state| {
        if state.first_words.len() < words_max {
            let said = Instant::now();
            state.first_words.push((said, to, kept.to_vec()));
        }
    });
}

/// The messages in one direction of a control lane.
struct Words {
    reader: ControlReader,
    /// Bytes so far.
    passed: usize,
    /// Bytes that were offered to the lane already, and come again.
    ahead: usize,
}

impl Default for Words {
    fn default() -> Self {
        Self {
            reader: ControlReader::with_cap(MESSAGE_MAX),
            passed: 0,
            ahead: 0,
        }
    }
}

impl Words {
    /// The messages that these bytes complete. The first bytes of the lane, so many, are none.
    fn read<M: DeserializeOwned>(&mut self, bytes: &[u8], head: usize) -> Vec<M> {
        let fresh = bytes.get(self.ahead.min(bytes.len())..).unwrap_or_default();
        let skip = head.saturating_sub(self.passed).min(fresh.len());
        self.passed += fresh.len();
        self.ahead = self.ahead.max(bytes.len());
        self.reader.feed(fresh.get(skip..).unwrap_or_default());
        std::iter::from_fn(|| self.reader.next_message().ok().flatten()).collect()
    }

    /// So many of the bytes that were offered have left.
    fn took(&mut self, bytes: usize) {
        self.ahead = self.ahead.saturating_sub(bytes);
    }
}

/// Whether the process dies rather than say this.
fn dies_saying(world: &World, number: usize, words: &mut Words, bytes: &[u8]) -> bool {
    let messages: Vec<ToMaster> = words.read(bytes, PREAMBLE_BYTES);
    let mut dies = false;
    for message in &messages {
        let is_last = votes_last(world, number, message);
        dies |= strikes(world, number, |at| match at {
            At::Word(0) => true,
            At::Word(left) => {
                *left -= 1;
                false
            }
            At::LastVote => is_last,
            At::Hearing(_) | At::Verdict => false,
        });
    }
    if dies {
        world.kill(number, false);
    }
    dies
}

/// Whether the process dies rather than hear this.
fn dies_hearing(world: &World, number: usize, words: &mut Words, bytes: &[u8]) -> bool {
    let messages: Vec<ToPeer> = words.read(bytes, Reply::Accepted.encode().len());
    words.took(bytes.len());
    let mut dies = false;
    for message in &messages {
        let is_verdict = matches!(message, ToPeer::Verdict { .. });
        dies |= strikes(world, number, |at| match at {
            At::Hearing(0) => true,
            At::Hearing(left) => {
                *left -= 1;
                false
            }
            At::Verdict => is_verdict,
            At::Word(_) | At::LastVote => false,
        });
    }
    if dies {
        world.kill(number, false);
    }
    dies
}

/// Whether the moment of something that is armed for this process has come. Then it is armed no longer.
fn strikes(world: &World, number: usize, mut comes: impl FnMut(&mut At) -> bool) -> bool {
    world.with(|state| {
        let before = state.armed.len();
        state
            .armed
            .retain_mut(|armed| armed.number != number || !comes(&mut armed.at));
        let strikes = state.armed.len() < before;
        state.counts.faults += u64::from(strikes);
        if strikes {
            state.disturbed = Some(Instant::now());
        }
        strikes
    })
}

/// Whether all other members of the group have voted on this operation.
fn votes_last(world: &World, number: usize, message: &ToMaster) -> bool {
    let ToMaster::CompleteCollective { seq, .. } = message else {
        return false;
    };
    let group = world.with(|state| state.processes[number].group);
    let members = world.members(group);
    world.with(|state| {
        let voted = state.voted.entry((group, seq.0)).or_default();
        voted.insert(number);
        let is_last = voted.len() >= members;
        while state.voted.len() > 256 {
            state.voted.pop_first();
        }
        is_last && members > 1
    })
}

//! Collectives that wait for their turn: a peer has at most [`COLLECTIVES_MAX`] of them in flight.
//!
//! They start in the order in which they were called. So peers that call the same ones in the same order
//! never wait for each other in vain: of those that have not ended the one that was called first is in
//! flight at all of them.
//!
//! A call that is given up while it waits keeps its place, and is given up when it has started: only then
//! do the other peers, who may wait for it already, learn of it.

use std::collections::BTreeMap;

use pccl_core::id::Tag;
use pccl_core::wire::COLLECTIVES_MAX;

use super::command::{CallId, Command};

/// What waits, in the order of the calls.
#[derive(Debug, Default)]
pub(super) struct Queue {
    calls: BTreeMap<CallId, Waiting>,
    by_tag: BTreeMap<Tag, CallId>,
}

#[derive(Debug)]
struct Waiting {
    command: Command,
    given_up: bool,
}

/// A collective whose turn it is.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) start: Command,
    /// It was given up meanwhile.
    pub(super) then_cancel: Option<Command>,
}

impl Waiting {
    fn is_abandoned(&self) -> bool {
        self.given_up || self.command.is_abandoned()
    }
}

impl Queue {
    /// Has a collective to wait while so many are in flight?
    pub(super) fn has_to_wait(&self, in_flight: usize) -> bool {
        !self.calls.is_empty() || in_flight >= COLLECTIVES_MAX
    }

    /// Lets a collective wait. Its tag is not in use.
    pub(super) fn push(&mut self, call: CallId, tag: Tag, command: Command) {
        let given_up = false;
        self.by_tag.insert(tag, call);
        self.calls.insert(call, Waiting { command, given_up });
    }

    /// Takes the next one out, if it may start while so many are in flight.
    pub(super) fn next_turn(&mut self, in_flight: usize) -> Option<Turn> {
        if in_flight >= COLLECTIVES_MAX {
            return None;
        }
        let (call, waiting) = self.calls.pop_first()?;
        let start = waiting.command;
        let tag = start.tag()?;
        self.by_tag.remove(&tag);
        let then_cancel = waiting.given_up.then_some(Command::Cancel { call, tag });
        Some(Turn { start, then_cancel })
    }

    /// Notes that nobody wants this call any more. False: it does not wait here.
    pub(super) fn give_up(&mut self, call: CallId) -> bool {
        let waiting = self.calls.get_mut(&call);
        waiting.is_some_and(|waiting| {
            waiting.given_up = true;
            true
        })
    }

    /// Has nobody an interest any more in the call that waits under this tag? `None`: there is none.
    pub(super) fn is_abandoned(&self, tag: Tag) -> Option<bool> {
        let call = self.by_tag.get(&tag)?;
        self.calls.get(call).map(Waiting::is_abandoned)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Has nobody an interest in anything that waits?
    pub(super) fn all_abandoned(&self) -> bool {
        self.calls.values().all(Waiting::is_abandoned)
    }
}

#[cfg(test)]
mod tests {
    use pccl_core::element::{CollectiveSpec, ElementType, Quantization, ReduceOp};
    use tokio::sync::mpsc;

    use super::super::command::CollectiveEvent;
    use super::*;

    type Events = mpsc::UnboundedReceiver<CollectiveEvent>;

    /// A call whose tag is its number, and what keeps it wanted.
    fn call(number: u64) -> (CallId, Tag, Command, Events) {
        let (events, heard) = mpsc::unbounded_channel();
        let (call, tag) = (CallId(number), Tag(number));
        let spec = CollectiveSpec {
            op: ReduceOp::Sum,
            element: ElementType::F32,
            count: 1,
            quantization: Quantization::None,
        };
        let command = Command::Collective {
            call,
            tag,
            spec,
            events,
        };
        (call, tag, command, heard)
    }

    fn queue_of(numbers: &[u64]) -> (Queue, Vec<Events>) {
        let mut queue = Queue::default();
        let heard = numbers.iter().map(|number| {
            let (call, tag, command, heard) = call(*number);
            queue.push(call, tag, command);
            heard
        });
        let heard = heard.collect();
        (queue, heard)
    }

    #[test]
    fn collectives_start_in_the_order_of_their_calls_as_soon_as_there_is_room() {
        let (mut queue, _heard) = queue_of(&[7, 5, 6]);

        let none = queue.next_turn(COLLECTIVES_MAX);
        let turns = std::iter::from_fn(|| queue.next_turn(COLLECTIVES_MAX - 1));
        let tags: Vec<_> = turns.map(|turn| turn.start.tag()).collect();

        assert!(none.is_none());
        assert_eq!(tags, [5, 6, 7].map(|tag| Some(Tag(tag))));
    }

    #[test]
    fn nobody_overtakes_those_that_wait() {
        let (queue, _heard) = queue_of(&[5]);

        assert!(queue.has_to_wait(0));
        assert!(!Queue::default().has_to_wait(COLLECTIVES_MAX - 1));
        assert!(Queue::default().has_to_wait(COLLECTIVES_MAX));
    }

    #[test]
    fn who_is_given_up_keeps_its_place_and_is_cancelled_when_it_has_started() {
        let (mut queue, _heard) = queue_of(&[5, 6]);

        let waits = queue.give_up(CallId(5));
        let abandoned = [5, 6, 7].map(|tag| queue.is_abandoned(Tag(tag)));
        let cancelled = [queue.next_turn(0), queue.next_turn(0)].map(|turn| {
            let cancel = turn?.then_cancel?;
            cancel.tag()
        });

        assert!(waits);
        assert_eq!(abandoned, [Some(true), Some(false), None]);
        assert_eq!(cancelled, [Some(Tag(5)), None]);
        assert!(!queue.give_up(CallId(5)));
    }
}

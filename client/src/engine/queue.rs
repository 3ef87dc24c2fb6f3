//! Collectives that wait for their turn: a peer has at most [`COLLECTIVES_MAX`] of them in flight.
//!
//! They start in the order in which they were called. So peers that call the same ones in the same order
//! never wait for each other in vain: of those that have not ended the one that was called first is in
//! flight at all of them.
//!
//! A call that is given up while it waits is as one that was never made. So is one that has not started
//! though it is in flight: its vote is taken back.

use std::collections::BTreeMap;

use pccl_core::id::Tag;
use pccl_core::wire::COLLECTIVES_MAX;

use super::command::{CallId, Command};

/// What waits, in the order of the calls.
#[derive(Debug, Default)]
pub(super) struct Queue {
    calls: BTreeMap<CallId, Command>,
    by_tag: BTreeMap<Tag, CallId>,
}

impl Queue {
    /// Has a collective to wait while so many are in flight?
    pub(super) fn has_to_wait(&self, in_flight: usize) -> bool {
        !self.calls.is_empty() || in_flight >= COLLECTIVES_MAX
    }

    /// Lets a collective wait. Its tag is not in use.
    pub(super) fn push(&mut self, call: CallId, tag: Tag, command: Command) {
        self.by_tag.insert(tag, call);
        self.calls.insert(call, command);
    }

    /// Takes the next one out, if it may start while so many are in flight.
    pub(super) fn next_turn(&mut self, in_flight: usize) -> Option<Command> {
        if in_flight >= COLLECTIVES_MAX {
            return None;
        }
        let (_, command) = self.calls.pop_first()?;
        self.by_tag.remove(&command.tag()?);
        Some(command)
    }

    /// Nobody wants this call any more. False: it does not wait here.
    pub(super) fn give_up(&mut self, call: CallId) -> bool {
        let given_up = self.calls.remove(&call);
        if let Some(tag) = given_up.as_ref().and_then(Command::tag) {
            self.by_tag.remove(&tag);
        }
        given_up.is_some()
    }

    /// Has nobody an interest any more in the call that waits under this tag? `None`: there is none.
    pub(super) fn is_abandoned(&self, tag: Tag) -> Option<bool> {
        let call = self.by_tag.get(&tag)?;
        self.calls.get(call).map(Command::is_abandoned)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Has nobody an interest in anything that waits?
    pub(super) fn all_abandoned(&self) -> bool {
        self.calls.values().all(Command::is_abandoned)
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
        let tags: Vec<_> = turns.map(|turn| turn.tag()).collect();

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
    fn who_is_given_up_does_not_start_and_leaves_its_tag_to_others() {
        let (mut queue, _heard) = queue_of(&[5, 6]);

        let waited = [queue.give_up(CallId(5)), queue.give_up(CallId(5))];
        let abandoned = [5, 6].map(|tag| queue.is_abandoned(Tag(tag)));
        let turns = [queue.next_turn(0), queue.next_turn(0)];

        assert_eq!(waited, [true, false]);
        assert_eq!(abandoned, [None, Some(false)]);
        assert_eq!(turns.map(|turn| turn?.tag()), [Some(Tag(6)), None]);
    }
}

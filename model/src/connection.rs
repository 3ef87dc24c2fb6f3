//! The connection between one peer and the master: two ordered queues, and how each of them ends.

use std::collections::VecDeque;

use pccl_core::messages::{ToMaster, ToPeer};

/// How one direction of a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Open.
    Open,
    /// The sender has closed in good order: the end comes after the last message.
    Closed,
    /// Broken: the end comes after any prefix of the messages that are on their way.
    Cut,
    /// Nothing arrives any more, not even the end.
    Silent,
    /// The receiver has learned of the end.
    Over,
}

/// One direction: what is on its way, oldest first, and its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Direction<M> {
    /// Oldest first.
    pub queue: VecDeque<M>,
    /// How it stands.
    pub end: End,
}

impl<M> Default for Direction<M> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            end: End::Open,
        }
    }
}

impl<M> Direction<M> {
    /// Sends a message, where there is anything to send it on.
    pub fn send(&mut self, message: M) {
        match self.end {
            End::Open => self.queue.push_back(message),
            End::Closed | End::Cut | End::Silent | End::Over => {}
        }
    }

    /// The sender closes in good order.
    pub fn close(&mut self) {
        match self.end {
            End::Open => self.end = End::Closed,
            End::Closed | End::Cut | End::Silent | End::Over => {}
        }
    }

    /// The connection breaks.
    pub fn cut(&mut self) {
        match self.end {
            End::Open | End::Closed => self.end = End::Cut,
            End::Cut | End::Silent | End::Over => {}
        }
    }

    /// The connection carries nothing any more.
    pub fn fall_silent(&mut self) {
        match self.end {
            End::Open | End::Closed | End::Cut => {
                self.end = End::Silent;
                self.queue.clear();
            }
            End::Silent | End::Over => {}
        }
    }

    /// The receiver has learned of the end, or is gone itself: nothing more is read.
    pub fn finish(&mut self) {
        self.end = End::Over;
        self.queue.clear();
    }

    /// May a message arrive next?
    #[must_use]
    pub fn has_message(&self) -> bool {
        !self.queue.is_empty()
    }

    /// May the receiver learn of the end next?
    #[must_use]
    pub fn may_end(&self) -> bool {
        match self.end {
            End::Closed => self.queue.is_empty(),
            End::Cut => true,
            End::Open | End::Silent | End::Over => false,
        }
    }
}

/// Both directions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Connection {
    /// From the peer to the master.
    pub up: Direction<ToMaster>,
    /// From the master to the peer.
    pub down: Direction<ToPeer>,
}

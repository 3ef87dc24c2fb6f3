//! Sessions: what a control connection carries, apart from the connection that carries it.
//!
//! A session is one peer's life at the master. If its connection breaks, the peer opens another one and both ends go on
//! where they were: each has counted the messages that it received, tells the other that number, and sends again what
//! the other lacks. So no message is lost, none arrives twice, and the machines on both ends learn nothing of it.
//!
//! - The hello is message 1 of a peer, the welcome message 1 of the master. Session frames are not counted.
//! - Each end keeps what it sent ([`Unacknowledged`]) until the other end says that it has received it
//!   ([`SessionFrame::Received`](crate::wire::SessionFrame::Received), before each heartbeat).
//! - A peer shows who it is by the token that the master gave it before the welcome.
//!
//! ```text
//! peer                                   master
//!  │ Preamble { Resume, peer, token }      │
//!  │ proof, if the lane is encrypted       │
//!  │ number of messages received, attempt ▶│  checks proof, token and attempt
//!  │◀──── Reply, number of messages received
//!  │ what the master lacks  ──────────────▶│
//!  │◀────────────────  what the peer lacks │
//! ```
//!
//! **Invariant:** the messages that an end hands to its machine are those that the other end's machine sent, in that
//! order, each once, over however many connections.

use alloc::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Messages that were sent, until the other end says that it has received them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unacknowledged<T> {
    /// How many messages were forgotten: the number of the last one of them.
    forgotten: u64,
    kept: VecDeque<T>,
}

impl<T> Default for Unacknowledged<T> {
    fn default() -> Self {
        Self {
            forgotten: 0,
            kept: VecDeque::new(),
        }
    }
}

impl<T> Unacknowledged<T> {
    /// Keeps the next message, and returns its number: 1 for the first one.
    pub fn push(&mut self, message: T) -> u64 {
        self.kept.push_back(message);
        self.sent()
    }

    /// Number of messages that were sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.forgotten.saturating_add(self.kept.len() as u64)
    }

    /// The messages that are kept, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.kept.iter()
    }

    /// The same messages in another form.
    ///
    /// # Errors
    /// The first error of `form`.
    pub fn try_map<U, E>(
        &self,
        form: impl FnMut(&T) -> Result<U, E>,
    ) -> Result<Unacknowledged<U>, E> {
        Ok(Unacknowledged {
            forgotten: self.forgotten,
            kept: self.kept.iter().map(form).collect::<Result<_, E>>()?,
        })
    }

    /// The message of this number, if it is kept.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&T> {
        let place = number.checked_sub(self.forgotten)?.checked_sub(1)?;
        self.kept.get(usize::try_from(place).ok()?)
    }

    /// The other end has received this many messages. Those are forgotten, and `forget` is called for each.
    ///
    /// # Errors
    /// So many were never sent. Nothing is forgotten.
    pub fn acknowledge(
        &mut self,
        received: u64,
        mut forget: impl FnMut(&T),
    ) -> Result<(), CannotResume> {
        if received > self.sent() {
            return Err(CannotResume::NeverSent);
        }
        while self.forgotten < received {
            if let Some(message) = self.kept.pop_front() {
                forget(&message);
            }
            self.forgotten += 1;
        }
        Ok(())
    }

    /// Forgets the oldest message although nobody has acknowledged it, so that a session whose other end lacks it cannot
    /// be resumed. `None`: nothing is kept.
    pub fn give_up_oldest(&mut self) -> Option<T> {
        let message = self.kept.pop_front()?;
        self.forgotten += 1;
        Some(message)
    }

    /// The messages of a session that is resumed: those after the first `received`, in their order.
    ///
    /// # Errors
    /// So many were never sent, or some of those that the other end lacks were forgotten. The session cannot be resumed.
    pub fn after(&self, received: u64) -> Result<impl Iterator<Item = &T>, CannotResume> {
        if received > self.sent() {
            return Err(CannotResume::NeverSent);
        }
        let has = received.checked_sub(self.forgotten);
        let has = has.ok_or(CannotResume::Forgotten)?;
        // At most as many as are kept.
        let has = usize::try_from(has).map_err(|_| CannotResume::NeverSent)?;
        Ok(self.kept.iter().skip(has))
    }
}

/// Why a session cannot be resumed. It ends as if the connection had ended for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CannotResume {
    /// The other end counts more messages than this end has sent.
    #[error("the other end counts messages that were never sent")]
    NeverSent,
    /// The other end lacks messages that are not kept any more.
    #[error("the other end lacks messages that are not kept any more")]
    Forgotten,
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn of(messages: &[char]) -> Unacknowledged<char> {
        let mut kept = Unacknowledged::default();
        for message in messages {
            kept.push(*message);
        }
        kept
    }

    fn after(kept: &Unacknowledged<char>, received: u64) -> Result<Vec<char>, CannotResume> {
        kept.after(received).map(|rest| rest.copied().collect())
    }

    #[test]
    fn what_the_other_end_has_not_received_is_sent_again_in_its_order() {
        let kept = of(&['a', 'b', 'c']);

        assert_eq!(after(&kept, 0), Ok(['a', 'b', 'c'].to_vec()));
        assert_eq!(after(&kept, 2), Ok(['c'].to_vec()));
        assert_eq!(after(&kept, 3), Ok(Vec::new()));
        assert_eq!(kept.get(2), Some(&'b'));
        assert_eq!((kept.get(0), kept.get(4)), (None, None));
    }

    #[test]
    fn what_is_acknowledged_is_forgotten_and_numbers_go_on() {
        let mut kept = of(&['a', 'b', 'c']);
        let mut forgotten = Vec::new();

        kept.acknowledge(2, |message| forgotten.push(*message))
            .unwrap();

        assert_eq!(forgotten, ['a', 'b']);
        assert_eq!(kept.push('d'), 4);
        assert_eq!(after(&kept, 2), Ok(['c', 'd'].to_vec()));
        assert_eq!(after(&kept, 1), Err(CannotResume::Forgotten));
        // An older count arrives late.
        kept.acknowledge(1, |_| panic!("nothing is left of it"))
            .unwrap();
        assert_eq!(after(&kept, 3), Ok(['d'].to_vec()));
    }

    #[test]
    fn an_end_that_counts_what_was_never_sent_is_found_out() {
        let mut kept = of(&['a']);

        assert_eq!(kept.acknowledge(2, |_| {}), Err(CannotResume::NeverSent));
        assert_eq!(after(&kept, 2), Err(CannotResume::NeverSent));
        assert_eq!(after(&kept, 0), Ok(['a'].to_vec()));
    }

    #[test]
    fn what_was_given_up_is_lacking_unless_it_has_arrived() {
        let mut kept = of(&['a', 'b']);

        assert_eq!(kept.give_up_oldest(), Some('a'));

        assert_eq!(after(&kept, 0), Err(CannotResume::Forgotten));
        assert_eq!(after(&kept, 1), Ok(['b'].to_vec()));
    }
}

//! A bounded number of visitors, of whom those that come in a crowd push out each other.

use alloc::collections::{BTreeMap, VecDeque};

use crate::origin::Origin;

/// Visitors in the order in which they came, and from where.
#[derive(Debug)]
pub struct Crowd<T> {
    room: usize,
    visitors: VecDeque<(Origin, T)>,
}

impl<T> Crowd<T> {
    /// Nobody is here; so many may be.
    #[must_use]
    pub const fn new(room: usize) -> Self {
        Self {
            room,
            visitors: VecDeque::new(),
        }
    }

    /// One more. Where there are too many the oldest of the origin that has the most has to go: of several
    /// such origins the one whose oldest came first.
    pub fn push(&mut self, from: Origin, visitor: T) -> Option<T> {
        self.visitors.push_back((from, visitor));
        if self.visitors.len() <= self.room {
            return None;
        }
        let mut counts: BTreeMap<Origin, usize> = BTreeMap::new();
        for (origin, _) in &self.visitors {
            let count = counts.entry(*origin).or_default();
            *count = count.saturating_add(1);
        }
        let most = counts.values().copied().max()?;
        let is_of_most = |(origin, _): &(Origin, T)| counts.get(origin) == Some(&most);
        let oldest = self.visitors.iter().position(is_of_most)?;
        self.visitors.remove(oldest).map(|(_, visitor)| visitor)
    }

    /// Lets those go of whom this is not true.
    pub fn retain(&mut self, mut stays: impl FnMut(&mut T) -> bool) {
        self.visitors.retain_mut(|(_, visitor)| stays(visitor));
    }

    /// All of them, in their order. Nobody is left.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        let visitors = core::mem::take(&mut self.visitors);
        visitors.into_iter().map(|(_, visitor)| visitor)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::net::IpAddr;

    use super::*;

    fn origin(text: &str) -> Origin {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn of_too_many_the_oldest_of_the_largest_crowd_goes() {
        let (few, many) = (origin("192.0.2.1"), origin("192.0.2.2"));
        let mut crowd = Crowd::new(4);
        for (from, name) in [(few, "a"), (many, "b"), (many, "c"), (few, "d")] {
            assert_eq!(crowd.push(from, name), None);
        }

        let gone = [
            crowd.push(many, "e"),
            crowd.push(origin("192.0.2.3"), "f"),
            crowd.push(origin("192.0.2.4"), "g"),
        ];

        assert_eq!(gone, [Some("b"), Some("a"), Some("c")]);
        assert_eq!(crowd.take_all().collect::<String>(), "defg");
    }
}

//! A bounded collection of connections, in which those of the busiest address are dropped first.

use alloc::collections::{BTreeMap, VecDeque};

use crate::origin::Origin;

/// Connections in the order of their arrival, each with its address.
#[derive(Debug)]
pub struct Crowd<T> {
    room: usize,
    visitors: VecDeque<(Origin, T)>,
}

impl<T> Crowd<T> {
    /// An empty collection for `room` connections.
    #[must_use]
    pub const fn new(room: usize) -> Self {
        Self {
            room,
            visitors: VecDeque::new(),
        }
    }

    /// Adds a connection. If there are more than `room`, removes and returns the oldest one of the address with the
    /// most connections. If several addresses have the most, that of the address whose oldest came first.
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

    /// Keeps only the connections for which `stays` returns `true`.
    pub fn retain(&mut self, mut stays: impl FnMut(&mut T) -> bool) {
        self.visitors.retain_mut(|(_, visitor)| stays(visitor));
    }

    /// Removes and returns all of them, in order.
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

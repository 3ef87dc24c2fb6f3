//! What will happen, in order: by its instant, and at one instant in the order in which it was planned.

use std::collections::BTreeMap;

use super::time::Micros;

/// Events that are still to come, and the instant of the last one that came.
#[derive(Debug)]
pub struct Agenda<E> {
    now: Micros,
    /// How many were planned: the next one's place among those of its instant.
    planned: u64,
    events: BTreeMap<(Micros, u64), E>,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self {
            now: 0,
            planned: 0,
            events: BTreeMap::new(),
        }
    }
}

impl<E> Agenda<E> {
    /// The instant of the event that came last.
    #[must_use]
    pub fn now(&self) -> Micros {
        self.now
    }

    /// How many events were planned so far: the work that the simulation takes.
    #[must_use]
    pub fn planned(&self) -> u64 {
        self.planned
    }

    /// Plans an event. What would lie in the past happens at once.
    pub fn at(&mut self, at: Micros, event: E) {
        self.events.insert((at.max(self.now), self.planned), event);
        self.planned += 1;
    }

    /// The next event, if it comes by `until`; the time is its instant then.
    pub fn next(&mut self, until: Micros) -> Option<E> {
        let (at, _) = *self.events.first_key_value()?.0;
        if at > until {
            return None;
        }
        self.now = at;
        self.events.pop_first().map(|(_, event)| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all<E>(agenda: &mut Agenda<E>) -> Vec<(Micros, E)> {
        std::iter::from_fn(|| agenda.next(Micros::MAX).map(|e| (agenda.now(), e))).collect()
    }

    #[test]
    fn events_come_by_their_instants_and_then_in_the_order_of_planning() {
        let mut agenda = Agenda::default();
        for (at, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b')] {
            agenda.at(at, event);
        }

        assert_eq!(all(&mut agenda), [(3, 'a'), (3, 'b'), (5, 'c'), (5, 'd')]);
    }

    #[test]
    fn what_would_lie_in_the_past_happens_at_once() {
        let mut agenda = Agenda::default();
        agenda.at(5, 'a');
        assert_eq!(agenda.next(9), Some('a'));
        agenda.at(2, 'b');

        assert_eq!(all(&mut agenda), [(5, 'b')]);
    }

    #[test]
    fn what_comes_later_than_asked_for_stays_and_time_stands() {
        let mut agenda = Agenda::default();
        agenda.at(5, 'a');

        assert_eq!((agenda.next(4), agenda.now()), (None, 0));
        assert_eq!((agenda.next(5), agenda.now()), (Some('a'), 5));
    }
}

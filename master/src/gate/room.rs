//! The accepted connections, those that wait outside, and those that have to give way: a plain value without sockets.
//!
//! After every change, [`Room::next_turn`] returns the next connection to accept, until it returns `None`: the
//! remaining ones have no place. Among the waiting connections, those of the address with the fewest accepted
//! strangers come first; of one address, the first that arrived.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pccl_core::origin::Origin;
use tokio::time::Instant;

use crate::limits::Limits;
use crate::pulse::Pulse;

/// Identifies a connection, in the order of arrival.
pub(super) type ArrivalNumber = u64;

/// All connections that are accepted or wait.
#[derive(Debug)]
pub(super) struct Room {
    limits: Limits,
    next: ArrivalNumber,
    inside: BTreeMap<ArrivalNumber, Guest>,
    /// Number of accepted connections that are not newcomers.
    strangers: usize,
    waiting: BTreeMap<ArrivalNumber, Origin>,
    /// Addresses with a connection that is accepted or waits.
    origins: BTreeMap<Origin, Tally>,
}

/// An accepted connection.
#[derive(Debug)]
struct Guest {
    origin: Origin,
    stage: Stage,
}

/// The stage of an accepted connection.
#[derive(Debug)]
enum Stage {
    /// May have to give way.
    Stranger(Arc<Pulse>),
    /// Has said hello, and waits for the machine's answer. Counts as a stranger.
    Greeted,
    /// Registered and not admitted.
    Newcomer,
}

/// The connections of one address.
#[derive(Debug, Default)]
struct Tally {
    strangers: usize,
    newcomers: usize,
    waiting: BTreeSet<ArrivalNumber>,
}

/// The decision about a new connection.
#[derive(Debug)]
pub(super) enum Decision {
    /// It waits for its turn. Another connection may have lost its place outside.
    Waits { instead_of: Option<ArrivalNumber> },
    /// It is refused.
    TurnedAway(Full),
}

/// Why a connection is refused. The text is for its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    #[error(
        "{0} peers of this address have joined and are not admitted yet, as many as the master takes: try again once the run has called update_topology, or start the master with a larger --max-newcomers-per-address"
    )]
    Newcomers(usize),
    #[error(
        "too many connections to the master wait for their handshake; try again in a few seconds"
    )]
    Outside,
    #[error(
        "too many connections from this address wait for their handshake with the master; try again in a few seconds"
    )]
    OutsideFromAddress,
    #[error(
        "the master has had too many unfinished handshakes for too long; try again in a few seconds"
    )]
    TooLong,
}

impl Room {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            next: 0,
            inside: BTreeMap::new(),
            strangers: 0,
            waiting: BTreeMap::new(),
            origins: BTreeMap::new(),
        }
    }

    /// A connection arrives from this address. It gets the returned number.
    pub(super) fn arrive(&mut self, origin: Origin) -> (ArrivalNumber, Decision) {
        let number = self.next;
        self.next += 1;
        let (here, newcomers) = self
            .origins
            .get(&origin)
            .map_or((0, 0), |tally| (tally.waiting.len(), tally.newcomers));
        if newcomers >= self.limits.newcomers_per_address_max {
            return (number, Decision::TurnedAway(Full::Newcomers(newcomers)));
        }
        if here >= self.limits.waiting_per_address_max {
            return (number, Decision::TurnedAway(Full::OutsideFromAddress));
        }
        let mut instead_of = None;
        if self.waiting.len() >= self.limits.waiting_max {
            instead_of = self.latest_of_the_most(here + 1);
            let Some(latest) = instead_of else {
                return (number, Decision::TurnedAway(Full::Outside));
            };
            self.leave(latest);
        }
        self.waiting.insert(number, origin);
        let tally = self.origins.entry(origin).or_default();
        tally.waiting.insert(number);
        (number, Decision::Waits { instead_of })
    }

    /// The latest connection of the address with the most waiting ones, if it has more than `than`.
    fn latest_of_the_most(&self, than: usize) -> Option<ArrivalNumber> {
        let most = self
            .origins
            .values()
            .max_by_key(|tally| tally.waiting.len())?;
        let latest = most.waiting.last().copied();
        latest.filter(|_| most.waiting.len() > than)
    }

    /// Accepts the next connection in turn, if there is a place for one that waits.
    pub(super) fn next_turn(&mut self) -> Option<(ArrivalNumber, Arc<Pulse>)> {
        if self.waiting.is_empty() || self.is_full() {
            return None;
        }
        let free = self
            .origins
            .iter()
            .filter(|(_, tally)| self.has_place(tally));
        let turns = free.filter_map(|(origin, tally)| {
            let first = tally.waiting.first()?;
            Some((tally.strangers, *first, *origin))
        });
        let (_, number, origin) = turns.min()?;
        self.leave(number);
        let pulse = Arc::new(Pulse::new());
        let stage = Stage::Stranger(Arc::clone(&pulse));
        self.inside.insert(number, Guest { origin, stage });
        self.strangers += 1;
        self.origins.entry(origin).or_default().strangers += 1;
        Some((number, pulse))
    }

    /// The stranger has said hello, and need not give way any more.
    pub(super) fn greeted(&mut self, number: ArrivalNumber) {
        if let Some(guest) = self.inside.get_mut(&number)
            && matches!(guest.stage, Stage::Stranger(_))
        {
            guest.stage = Stage::Greeted;
        }
    }

    /// From here on, the stranger is a newcomer.
    pub(super) fn registered(&mut self, number: ArrivalNumber) {
        if let Some(Guest { origin, stage }) = self.inside.get_mut(&number)
            && !matches!(stage, Stage::Newcomer)
        {
            *stage = Stage::Newcomer;
            self.strangers -= 1;
            let tally = self.origins.entry(*origin).or_default();
            tally.strangers -= 1;
            tally.newcomers += 1;
        }
    }

    /// Removes a connection that is gone or admitted.
    pub(super) fn leave(&mut self, number: ArrivalNumber) {
        let guest = self.inside.remove(&number);
        let waited = self.waiting.remove(&number);
        let Some(origin) = guest.as_ref().map(|guest| guest.origin).or(waited) else {
            return;
        };
        let tally = self.origins.entry(origin).or_default();
        tally.waiting.remove(&number);
        match guest.map(|guest| guest.stage) {
            Some(Stage::Stranger(_) | Stage::Greeted) => {
                self.strangers -= 1;
                tally.strangers -= 1;
            }
            Some(Stage::Newcomer) => tally.newcomers -= 1,
            None => {}
        }
        if tally.strangers == 0 && tally.newcomers == 0 && tally.waiting.is_empty() {
            self.origins.remove(&origin);
        }
    }

    /// Why a waiting connection has waited in vain.
    pub(super) fn reason(&self, number: ArrivalNumber) -> Full {
        let origin = self.waiting.get(&number);
        let newcomers = origin
            .and_then(|origin| self.origins.get(origin))
            .map(|tally| tally.newcomers);
        match newcomers {
            Some(newcomers) if newcomers >= self.limits.newcomers_per_address_max => {
                Full::Newcomers(newcomers)
            }
            _ => Full::TooLong,
        }
    }

    /// The connection that has to give way so that a waiting one can be accepted, and when. `None` if no connection
    /// waits, or if none can make room.
    pub(super) fn next_to_give_way(&self) -> Option<(Instant, ArrivalNumber)> {
        if self.waiting.is_empty() {
            return None;
        }
        let mut quietest: BTreeMap<Origin, (Instant, ArrivalNumber)> = BTreeMap::new();
        for (number, guest) in &self.inside {
            if let Stage::Stranger(pulse) = &guest.stage {
                let silent = (pulse.last(), *number);
                let known = quietest.entry(guest.origin).or_insert(silent);
                *known = silent.min(*known);
            }
        }
        // Where an address has all places that it may have, it makes room for itself.
        let within = self
            .origins
            .iter()
            .filter(|(_, tally)| !tally.waiting.is_empty() && !self.has_place(tally));
        let within = within.filter_map(|(origin, _)| quietest.get(origin));
        let among_all = self.is_full() && self.origins.values().any(|tally| self.has_turn(tally));
        let all = quietest.iter().filter(|_| among_all);
        let most = all.min_by_key(|(origin, silent)| {
            let places = self.origins.get(origin).map_or(0, |tally| tally.strangers);
            (Reverse(places), **silent)
        });
        let (last, number) = within.chain(most.map(|(_, silent)| silent)).min()?;
        Some((*last + self.limits.grace, *number))
    }

    fn is_full(&self) -> bool {
        self.strangers >= self.limits.strangers_max
    }

    /// Whether the address may have one more stranger.
    fn has_place(&self, tally: &Tally) -> bool {
        tally.strangers < self.limits.strangers_per_address_max
            && tally.strangers + tally.newcomers < self.limits.newcomers_per_address_max
    }

    /// Whether the address would have a place in an empty room.
    fn has_turn(&self, tally: &Tally) -> bool {
        !tally.waiting.is_empty() && self.has_place(tally)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.inside.is_empty()
            && self.waiting.is_empty()
            && self.origins.is_empty()
            && self.strangers == 0
    }

    /// What is in the room, counted from the connections themselves.
    #[cfg(test)]
    pub(super) fn counts(&self) -> Counts {
        let of = |guest: &&Guest| !matches!(guest.stage, Stage::Newcomer);
        let origin = |origin: &Origin| {
            let here = || self.inside.values().filter(|guest| guest.origin == *origin);
            let strangers = here().filter(of).count();
            let waiting = self.waiting.values().filter(|other| *other == origin);
            (strangers, here().count() - strangers, waiting.count())
        };
        Counts {
            everybody: self
                .inside
                .keys()
                .chain(self.waiting.keys())
                .copied()
                .collect(),
            strangers: self.inside.values().filter(of).count(),
            waiting: self.waiting.len(),
            origins: self.origins.keys().map(origin).collect(),
        }
    }
}

#[cfg(test)]
pub(super) struct Counts {
    pub(super) everybody: BTreeSet<ArrivalNumber>,
    pub(super) strangers: usize,
    pub(super) waiting: usize,
    /// Strangers, newcomers and those who wait, of each address.
    pub(super) origins: Vec<(usize, usize, usize)>,
}

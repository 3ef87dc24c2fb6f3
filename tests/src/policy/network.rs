//! Which machine can open a connection to which, and what a connection carries.

use std::collections::BTreeMap;

use super::time::{MILLISECOND, Micros, SECOND};

/// A process that takes part, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeatNo(pub usize);

/// What becomes of a connection that one machine opens to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// It comes up and carries data.
    #[default]
    Good,
    /// It comes up and carries no data: packets that are large disappear.
    Mute,
    /// It is refused at once: nobody listens. Connections that stand go on.
    Refused,
    /// There is no answer: a firewall. Connections that stand go on.
    Filtered,
    /// There is no answer, and connections that stand carry nothing any more.
    Cut,
}

impl Path {
    /// Does a connection that stands carry data?
    #[must_use]
    pub fn carries(self) -> bool {
        match self {
            Self::Good | Self::Refused | Self::Filtered => true,
            Self::Mute | Self::Cut => false,
        }
    }
}

/// How long things take, the same between all machines.
#[derive(Clone, Debug)]
pub struct Pace {
    /// One way between a peer and the master; up to a quarter more, by chance.
    pub control: Micros,
    /// There and back between two peers.
    pub round_trip: Micros,
    /// How much longer until a connection is answered, by chance.
    pub spread: Micros,
    /// Bytes per second that a peer can send.
    pub bandwidth: u64,
    /// Bytes that are under way on one lane at most.
    pub window: u64,
    /// The least time of a reduce.
    pub reduce: Micros,
    /// One measurement of bandwidth.
    pub probe: Micros,
    /// How long a connection waits for an answer, as in the client.
    pub dial_limit: Micros,
    /// How long data may stand still, as in the client.
    pub stall: Micros,
    /// Where data stands still, every rank reports the link that it receives on, and not only the ends of
    /// the one that is no good.
    pub all_report_stalls: bool,
    /// How long a lane waits for the order that expects it, as in the client.
    pub hold: Micros,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            control: 20 * MILLISECOND,
            round_trip: 40 * MILLISECOND,
            spread: 200 * MILLISECOND,
            bandwidth: 125_000_000,
            window: 4 << 20,
            reduce: 200 * MILLISECOND,
            probe: 200 * MILLISECOND,
            dial_limit: 10 * SECOND,
            stall: 10 * SECOND,
            all_report_stalls: false,
            hold: 5 * SECOND,
        }
    }
}

impl Pace {
    /// Until a connection that is answered is up, with its handshake.
    #[must_use]
    pub fn connect(&self) -> Micros {
        self.round_trip * 2
    }

    /// A reduce of so many bytes in a ring of so many.
    #[must_use]
    pub fn reduce_of(&self, bytes: u64, world: usize) -> Micros {
        let world = world as u64;
        let steps = 2 * (world - 1);
        let moved = u128::from(bytes) * u128::from(steps) / u128::from(world);
        let sending = seconds_of(moved, self.bandwidth);
        self.reduce.max(sending + steps * self.round_trip / 2)
    }

    /// A transfer of so many bytes over so many lanes, beside so many others of the same sender.
    #[must_use]
    pub fn transfer_of(&self, bytes: u64, lanes: u64, shared_by: u64) -> Micros {
        let by_window = self.window * SECOND / self.round_trip * lanes;
        let rate = by_window.min(self.bandwidth / shared_by.max(1));
        self.round_trip + seconds_of(u128::from(bytes), rate)
    }
}

fn seconds_of(bytes: u128, per_second: u64) -> Micros {
    let micros = bytes * u128::from(SECOND) / u128::from(per_second.max(1));
    Micros::try_from(micros).unwrap_or(Micros::MAX)
}

/// The paths that are not good.
#[derive(Clone, Debug, Default)]
pub struct Network {
    paths: BTreeMap<(SeatNo, SeatNo), Path>,
}

impl Network {
    /// What becomes of a connection that `from` opens to `to`.
    #[must_use]
    pub fn path(&self, from: SeatNo, to: SeatNo) -> Path {
        self.paths.get(&(from, to)).copied().unwrap_or_default()
    }

    /// From here on, one way.
    pub fn set(&mut self, from: SeatNo, to: SeatNo, path: Path) {
        self.paths.insert((from, to), path);
    }

    /// From here on, both ways.
    pub fn set_pair(&mut self, one: SeatNo, other: SeatNo, path: Path) {
        self.set(one, other, path);
        self.set(other, one, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_good_unless_said_otherwise_and_one_way_is_one_way() {
        let mut network = Network::default();
        network.set(SeatNo(0), SeatNo(1), Path::Filtered);

        assert_eq!(network.path(SeatNo(0), SeatNo(1)), Path::Filtered);
        assert_eq!(network.path(SeatNo(1), SeatNo(0)), Path::Good);
    }

    #[test]
    fn a_reduce_takes_what_its_bytes_take_around_the_ring() {
        let pace = Pace {
            bandwidth: 12_500_000,
            ..Pace::default()
        };

        // 40 GB at 100 Mbit/s between two: every byte once.
        assert_eq!(pace.reduce_of(40_000_000_000, 2) / SECOND, 3200);
        assert_eq!(pace.reduce_of(4, 2), pace.reduce);
    }

    #[test]
    fn one_lane_carries_a_window_per_round_trip() {
        let pace = Pace {
            round_trip: 300 * MILLISECOND,
            bandwidth: u64::MAX / SECOND,
            ..Pace::default()
        };

        assert_eq!(pace.transfer_of(25 << 30, 1, 1) / SECOND, 1920);
        assert_eq!(pace.transfer_of(25 << 30, 4, 1) / SECOND, 480);
    }
}

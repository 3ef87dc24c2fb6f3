//! What became of the packets of a way.

use super::units::{Nanos, SECOND};

/// Why a packet does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// Lost on the path, by itself.
    Lost,
    /// Lost on the path, with others.
    Burst,
    /// A queue was full.
    Queue,
    /// The path was cut.
    Cut,
    /// It goes to nobody.
    Nowhere,
}

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub packets: u64,
    /// Their bytes, with the headers of IP.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

/// Of one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Came from the one host.
    pub sent: Tally,
    /// Came to the other.
    pub arrived: Tally,
    /// Lost by themselves.
    pub lost: u64,
    /// Lost in bursts.
    pub lost_in_bursts: u64,
    /// Found a full queue.
    pub queue_drops: u64,
    /// Found the path cut.
    pub cut: u64,
    /// Went to nobody.
    pub nowhere: u64,
    /// Between the two hosts, all packets that arrived together.
    delays: u128,
    /// When the first and the last one arrived.
    span: Option<(Nanos, Nanos)>,
    /// The second that the last one arrived in, and its bytes.
    second: (u64, u64),
    /// Bytes of the busiest second.
    busiest: u64,
}

impl Counts {
    pub(super) fn on_sent(&mut self, bytes: u32) {
        self.sent.add(bytes);
    }

    pub(super) fn on_dropped(&mut self, why: Drop) {
        let count = match why {
            Drop::Lost => &mut self.lost,
            Drop::Burst => &mut self.lost_in_bursts,
            Drop::Queue => &mut self.queue_drops,
            Drop::Cut => &mut self.cut,
            Drop::Nowhere => &mut self.nowhere,
        };
        *count += 1;
    }

    pub(super) fn on_arrived(&mut self, now: Nanos, sent: Nanos, bytes: u32) {
        self.arrived.add(bytes);
        self.delays += u128::from(now.saturating_sub(sent));
        let first = self.span.map_or(now, |(first, _)| first);
        self.span = Some((first, now));
        let second = now / SECOND;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.second.1 += u64::from(bytes);
        self.busiest = self.busiest.max(self.second.1);
    }

    /// The share of the packets that came onto the path which it lost.
    pub fn loss(&self) -> f64 {
        let lost = self.lost + self.lost_in_bursts;
        let all = self.arrived.packets + lost;
        if all == 0 {
            return 0.0;
        }
        lost as f64 / all as f64
    }

    /// Milliseconds between the two hosts in the mean: the path's, and those in queues.
    pub fn mean_delay(&self) -> Option<f64> {
        let packets = self.arrived.packets;
        (packets > 0).then(|| self.delays as f64 / packets as f64 / 1e6)
    }

    /// Bits per second from the first packet that arrived to the last one.
    pub fn mean_rate(&self) -> f64 {
        match self.span {
            Some((first, last)) if last > first => {
                self.arrived.bytes as f64 * 8.0 * SECOND as f64 / (last - first) as f64
            }
            Some(_) | None => 0.0,
        }
    }

    /// Bits that arrived in the busiest second.
    pub fn peak_rate(&self) -> f64 {
        self.busiest as f64 * 8.0
    }
}

//! What a TCP connection should reach on a path.

use crate::wan::plan::Plan;
use crate::wan::units::Rate;

/// A path as congestion control sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Seconds there and back.
    pub rtt: f64,
    /// The share of packets that is lost, each by itself.
    pub loss: f64,
    /// Bits per second, with all headers.
    pub rate: f64,
    /// Bytes of a packet.
    pub mtu: f64,
}

/// Bytes of the headers of IP and TCP, with time stamps.
const HEADERS: f64 = 52.0;

impl Path {
    /// That between two hosts. None if packets are lost in bursts, which the formulas know nothing of.
    pub fn of(plan: &Plan, from: usize, to: usize, rate: Rate) -> Option<Self> {
        let there = plan.ways.get(plan.way(from, to)?)?;
        let back = plan.ways.get(plan.way(to, from)?)?;
        if there.loss.bursts.is_some() || back.loss.bursts.is_some() {
            return None;
        }
        Some(Self {
            rtt: (there.delay + back.delay) as f64 / 1e9,
            loss: there.loss.total(),
            rate: rate.0 as f64,
            mtu: plan.system.mtu.into(),
        })
    }

    /// Bits per second of payload if the path is full.
    pub fn full(&self) -> f64 {
        self.rate * (1.0 - self.loss) * self.segment() / self.mtu
    }

    /// One connection with CUBIC: the larger of its own formula (RFC 9438, 5.1, with C = 0.4) and that of
    /// Mathis for the TCP that it is never worse than, and never more than the path.
    pub fn cubic(&self) -> f64 {
        if self.loss <= 0.0 {
            return self.full();
        }
        let own = 1.054 * (self.rtt / self.loss).powf(0.75);
        let mathis = 1.22 / self.loss.sqrt();
        let window = own.max(mathis);
        (window * self.segment() * 8.0 / self.rtt).min(self.full())
    }

    /// Bytes of payload of a packet.
    fn segment(&self) -> f64 {
        self.mtu - HEADERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cubic_is_held_back_by_loss_and_time_as_published() {
        let path = Path {
            rtt: 0.05,
            loss: 0.01,
            rate: 40e6,
            mtu: 1500.0,
        };

        // 1.22 · 1448 · 8 / (50 ms · 0.1).
        assert!((path.cubic() / 2.826e6 - 1.0).abs() < 1e-3);
        assert!((path.full() / 38.23e6 - 1.0).abs() < 1e-3);
        // RFC 9438 has 187 packets for these.
        let long = Path {
            rtt: 0.1,
            loss: 1e-4,
            rate: 1e9,
            ..path
        };
        assert!((long.cubic() * 0.1 / 8.0 / 1448.0 / 187.4 - 1.0).abs() < 1e-2);
    }

    #[test]
    fn without_loss_a_connection_fills_the_path() {
        let path = Path {
            rtt: 0.01,
            loss: 0.0,
            rate: 1e9,
            mtu: 1500.0,
        };

        assert!(path.cubic() == path.full());
    }
}

//! What a TCP connection should reach on a path.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

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

    /// One connection with CUBIC, by the formulas for losses at equal distances: the larger of its own (RFC
    /// 9438, with C = 0.4) and that of Mathis for the TCP that it is never worse than; never more than the path.
    pub fn cubic_formula(&self) -> f64 {
        if self.loss <= 0.0 {
            return self.full();
        }
        let own = 1.054 * (self.rtt / self.loss).powf(0.75);
        let mathis = 1.22 / self.loss.sqrt();
        self.rate_of(own.max(mathis))
    }

    /// One connection with CUBIC where losses come by chance, as a wire has them: the window of RFC 9438, step
    /// by step, in the mean over many losses. Long times without a loss make it more than the formula says.
    pub fn cubic(&self) -> f64 {
        if self.loss <= 0.0 {
            return self.full();
        }
        let mut rng = StdRng::seed_from_u64(1);
        let mut cubic = Cubic::default();
        let mut sent = 0.0;
        for _ in 0..STEPS {
            let packets = cubic.window.floor();
            sent += packets;
            let survival = (1.0 - self.loss).powf(packets);
            cubic.step(self.rtt, rng.random::<f64>() >= survival);
        }
        self.rate_of(sent / f64::from(STEPS))
    }

    /// Bits per second of a window of so many packets.
    fn rate_of(&self, window: f64) -> f64 {
        (window * self.segment() * 8.0 / self.rtt).min(self.full())
    }

    /// Bytes of payload of a packet.
    fn segment(&self) -> f64 {
        self.mtu - HEADERS
    }
}

/// Round trips of a connection in theory.
const STEPS: u32 = 400_000;

/// What CUBIC keeps of its window when a packet is lost.
const KEPT: f64 = 0.7;

/// Packets per cube of a second.
const CUBE: f64 = 0.4;

/// The state of CUBIC, in packets and seconds.
#[derive(Clone, Copy, Debug)]
struct Cubic {
    window: f64,
    /// The one of TCP that grows by a fixed number of packets.
    friendly: f64,
    /// Where the window grows least.
    plateau: f64,
    /// From the latest loss to there.
    until_plateau: f64,
    since_loss: f64,
}

impl Default for Cubic {
    fn default() -> Self {
        Self {
            window: 10.0,
            friendly: 10.0,
            plateau: 10.0,
            until_plateau: 0.0,
            since_loss: 0.0,
        }
    }
}

impl Cubic {
    /// A round trip, in which a packet was lost or none.
    fn step(&mut self, rtt: f64, is_lost: bool) {
        if is_lost {
            let is_less = self.window < self.plateau;
            self.plateau = self.window * if is_less { (1.0 + KEPT) / 2.0 } else { 1.0 };
            self.window = (self.window * KEPT).max(2.0);
            self.friendly = self.window;
            self.until_plateau = ((self.plateau - self.window).max(0.0) / CUBE).cbrt();
            self.since_loss = 0.0;
            return;
        }
        self.since_loss += rtt;
        self.friendly += 3.0 * (1.0 - KEPT) / (1.0 + KEPT);
        let from_plateau = self.since_loss + rtt - self.until_plateau;
        let target = CUBE * from_plateau.powi(3) + self.plateau;
        let target = target.clamp(self.window, 1.5 * self.window);
        self.window = target.max(self.friendly);
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
        assert!((path.cubic_formula() / 2.826e6 - 1.0).abs() < 1e-3);
        assert!((path.full() / 38.23e6 - 1.0).abs() < 1e-3);
        // RFC 9438 has 187 packets for these.
        let long = Path {
            rtt: 0.1,
            loss: 1e-4,
            rate: 1e9,
            ..path
        };
        assert!((long.cubic_formula() * 0.1 / 8.0 / 1448.0 / 187.4 - 1.0).abs() < 1e-2);
    }

    #[test]
    fn losses_by_chance_give_a_window_somewhat_larger_than_those_at_equal_distances() {
        for (rtt, loss) in [(0.1, 1e-3), (0.15, 1e-2), (0.04, 1e-4)] {
            let path = Path {
                rtt,
                loss,
                rate: 1e9,
                mtu: 1500.0,
            };
            let ratio = path.cubic() / path.cubic_formula();
            assert!((1.0..1.3).contains(&ratio), "{ratio}");
        }
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

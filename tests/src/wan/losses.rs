//! Which packets a way loses: each by itself, or many in a row (Gilbert and Elliott's model: a way is well
//! or ill, and changes from packet to packet with fixed probabilities).

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::units::Share;

/// Times in which a way is ill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// The share of packets that find it ill.
    pub share: Share,
    /// How many packets in a row, in the mean. At least 1.
    pub length: f64,
    /// Of those, the share that is lost.
    pub loss: Share,
}

/// How a way loses packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// Each packet by itself.
    pub independent: Share,
    /// And in bursts.
    pub bursts: Option<Bursts>,
}

impl Loss {
    /// The share of packets that is lost in all.
    pub fn total(&self) -> f64 {
        let bursts = self
            .bursts
            .map_or(0.0, |bursts| bursts.share.0 * bursts.loss.0);
        1.0 - (1.0 - self.independent.0) * (1.0 - bursts)
    }
}

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// By itself.
    Alone,
    /// The way was ill.
    InBurst,
}

/// A way's losses, one packet after the other.
#[derive(Debug)]
pub struct Losses {
    loss: Loss,
    is_ill: bool,
    rng: StdRng,
}

impl Losses {
    /// Begins well.
    pub fn new(loss: Loss, seed: u64) -> Self {
        Self {
            loss,
            is_ill: false,
            rng: StdRng::seed_from_u64(seed),
        }
    }

    /// Whether the next packet is lost, and why.
    pub fn of_next(&mut self) -> Option<Lost> {
        if let Some(bursts) = self.loss.bursts {
            self.is_ill = self.chance(change(bursts, self.is_ill)) != self.is_ill;
            if self.is_ill && self.chance(bursts.loss.0) {
                return Some(Lost::InBurst);
            }
        }
        self.chance(self.loss.independent.0).then_some(Lost::Alone)
    }

    fn chance(&mut self, probability: f64) -> bool {
        // What never or always happens takes no random number.
        match probability {
            ..=0.0 => false,
            1.0.. => true,
            probability => self.rng.random_bool(probability),
        }
    }
}

/// The probability that a way changes before its next packet.
fn change(bursts: Bursts, is_ill: bool) -> f64 {
    let recovers = 1.0 / bursts.length.max(1.0);
    if is_ill {
        return recovers;
    }
    // So that the shares of the two states are as asked for: share · recovers = (1 − share) · falls ill.
    (recovers * bursts.share.0 / (1.0 - bursts.share.0)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(loss: Loss, of: u32) -> Vec<bool> {
        println!("seed 7");
        let mut losses = Losses::new(loss, 7);
        (0..of).map(|_| losses.of_next().is_some()).collect()
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
    }

    fn bursts(share: f64, length: f64, loss: f64) -> Loss {
        Loss {
            independent: Share(0.0),
            bursts: Some(Bursts {
                share: Share(share),
                length,
                loss: Share(loss),
            }),
        }
    }

    #[test]
    fn loss_is_within_a_tenth_of_what_was_asked_for() {
        for asked in [0.01, 0.001, 0.0001] {
            let loss = Loss {
                independent: Share(asked),
                bursts: None,
            };
            let got = share(&lost(loss, (1000.0 / asked) as u32));
            assert!((got / asked - 1.0).abs() < 0.1, "{got} of {asked}");
        }
    }

    #[test]
    fn bursts_have_the_share_and_the_length_that_were_asked_for() {
        let lost = lost(bursts(0.01, 8.0, 1.0), 2_000_000);

        assert!((share(&lost) / 0.01 - 1.0).abs() < 0.05);
        let begins = lost
            .windows(2)
            .filter(|pair| pair == &[false, true])
            .count();
        let length = lost.iter().filter(|lost| **lost).count() as f64 / begins as f64;
        assert!((length / 8.0 - 1.0).abs() < 0.05, "{length}");
    }

    #[test]
    fn an_ill_way_may_let_some_packets_pass() {
        let loss = bursts(0.1, 20.0, 0.3);

        let got = share(&lost(loss, 1_000_000));

        assert!((got / loss.total() - 1.0).abs() < 0.05, "{got}");
    }

    #[test]
    fn without_loss_nothing_is_lost() {
        assert!(share(&lost(Loss::default(), 1000)) == 0.0);
    }
}

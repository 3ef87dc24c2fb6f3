//! The choice on paths that are formulas.

use pccl_core::element::{ElementType, ReduceOp};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::tests::support::spec;

const BYTES: u64 = 4 << 20;

/// What a path carries, in bytes per second, in the collective of this number.
type Path = fn(CongestionControl, u64) -> Rate;

/// A short burst over a path that loses no packets.
fn clean(control: CongestionControl, _: u64) -> Rate {
    match control {
        CongestionControl::ModelBased => 2_700_000,
        CongestionControl::LossBased => 3_700_000,
    }
}

/// The same, if the model carries less after its first seconds.
fn clean_after_some_seconds(control: CongestionControl, seq: u64) -> Rate {
    match seq {
        ..=6 => 3_600_000,
        7.. => clean(control, seq),
    }
}

/// A path that loses a packet of a hundred.
fn lossy(control: CongestionControl, _: u64) -> Rate {
    match control {
        CongestionControl::ModelBased => 3_000_000,
        CongestionControl::LossBased => 75_000,
    }
}

/// It begins to.
fn lossy_from_100_on(control: CongestionControl, seq: u64) -> Rate {
    match seq {
        ..100 => clean(control, seq),
        100.. => lossy(control, seq),
    }
}

/// It makes no difference.
fn whatever(_: CongestionControl, _: u64) -> Rate {
    3_000_000
}

fn load(bytes: u64, algorithm: Algorithm) -> Load {
    Load::new(
        &spec(ReduceOp::Sum, ElementType::U8, bytes as usize),
        algorithm,
    )
}

/// A peer, whose collectives follow each other.
#[derive(Default)]
struct Peer {
    trials: Trials,
    seq: u64,
    /// The numbers of collectives on another control than is held.
    tried: Vec<u64>,
}

impl Peer {
    /// Runs a collective. Returns how long it took.
    fn collective(&mut self, bytes: u64, path: Path) -> Duration {
        self.seq += 1;
        let seq = self.seq;
        let control = self.begins(bytes);
        let takes = |bytes: f64, rate: Rate| Duration::from_secs_f64(bytes / rate as f64);
        let took = takes(bytes as f64, path(control, seq));
        match self.limit(bytes).filter(|limit| *limit < took) {
            None => {
                self.carried(bytes, rate(bytes, took));
                took
            }
            Some(limit) => {
                self.trials.give_up(seq);
                let left = bytes as f64 * (1.0 - limit.as_secs_f64() / took.as_secs_f64());
                limit + takes(left, path(self.trials.wanted(), seq))
            }
        }
    }

    /// A collective begins. Returns on which control.
    fn begins(&mut self, bytes: u64) -> CongestionControl {
        self.trials.begins(self.seq, load(bytes, Algorithm::Ring));
        let control = self.trials.wanted();
        if control != self.trials.held {
            self.tried.push(self.seq);
        }
        control
    }

    fn carried(&mut self, bytes: u64, rate: Rate) {
        let load = load(bytes, Algorithm::Ring);
        self.trials.carried(self.seq, load, rate);
    }

    fn limit(&self, bytes: u64) -> Option<Duration> {
        self.trials.limit(load(bytes, Algorithm::Ring))
    }

    fn collectives(&mut self, count: usize, path: Path) -> Vec<Duration> {
        (0..count).map(|_| self.collective(BYTES, path)).collect()
    }

    fn held(&self) -> CongestionControl {
        self.trials.held
    }
}

/// What the collectives took, beside the best that the path permits.
fn times_the_best(took: &[Duration], path: Path) -> f64 {
    let controls = [CongestionControl::ModelBased, CongestionControl::LossBased];
    let best = (1..).zip(took).map(|(seq, _)| {
        let rates = controls.map(|control| path(control, seq));
        BYTES as f64 / rates[0].max(rates[1]) as f64
    });
    took.iter().map(Duration::as_secs_f64).sum::<f64>() / best.sum::<f64>()
}

#[test]
fn on_a_clean_path_a_loss_based_control_is_held_after_six_collectives() {
    let mut peer = Peer::default();

    peer.collectives(5, clean);
    assert_eq!(peer.held(), CongestionControl::ModelBased);
    peer.collectives(1, clean);

    assert_eq!(peer.held(), CongestionControl::LossBased);
    assert_eq!(peer.tried, [4, 5, 6]);
}

#[test]
fn what_is_held_is_doubted_ever_more_rarely() {
    let mut peer = Peer::default();

    let took = peer.collectives(4096, clean);

    assert_eq!(peer.held(), CongestionControl::LossBased);
    // Of each trial in vain the first collective carries enough to go on, and the second one does not.
    let in_vain = [
        65, 66, 129, 130, 257, 258, 513, 514, 1025, 1026, 2049, 2050, 3073, 3074,
    ];
    assert_eq!(peer.tried[3..], in_vain);
    assert!(times_the_best(&took, clean) < 1.005);
}

#[test]
fn a_model_that_carries_less_after_some_seconds_is_tried_against_again_soon() {
    let mut peer = Peer::default();
    peer.collectives(6, clean_after_some_seconds);
    assert_eq!(peer.held(), CongestionControl::ModelBased);

    // The first one after a trial is not compared.
    peer.collectives(6, clean_after_some_seconds);

    assert_eq!(peer.held(), CongestionControl::LossBased);
}

/// A path on which the loss-based one carries less than half from some number on, and the model as much as ever.
fn worse_for_the_loss_based_one_from_1100_on(control: CongestionControl, seq: u64) -> Rate {
    match (control, seq) {
        (CongestionControl::LossBased, 1100..) => 1_500_000,
        (control, seq) => clean(control, seq),
    }
}

#[test]
fn a_loss_based_control_that_carries_much_less_is_doubted_soon() {
    let mut peer = Peer::default();
    peer.collectives(1099, worse_for_the_loss_based_one_from_1100_on);
    assert_eq!(peer.held(), CongestionControl::LossBased);
    // Not before number 2048, if nothing changes.
    assert_eq!(peer.tried.last(), Some(&1026));

    peer.collectives(12, worse_for_the_loss_based_one_from_1100_on);

    assert_eq!(peer.held(), CongestionControl::ModelBased);
}

#[test]
fn one_collective_that_takes_long_for_another_reason_makes_no_loss_based_control_look_good() {
    // Nine tenths of what the model carries, which is not worth its while.
    let path: Path = |control, seq| match (control, seq) {
        (CongestionControl::ModelBased, 2) => 750_000,
        (CongestionControl::ModelBased, _) => 3_000_000,
        (CongestionControl::LossBased, _) => 2_700_000,
    };
    let mut peer = Peer::default();

    peer.collectives(6, path);

    assert_eq!(peer.tried, [4, 5, 6]);
    assert_eq!(peer.held(), CongestionControl::ModelBased);
}

#[test]
fn what_others_make_it_forget_is_not_tried_again_at_once_if_it_was_in_vain() {
    let mut peer = Peer::default();
    let mut took = Vec::new();

    // Five reduces, and a broadcast of twice as many bytes, which is not compared.
    for _ in 0..400 {
        took.extend(peer.collectives(5, lossy));
        peer.trials
            .begins(peer.seq, load(2 * BYTES, Algorithm::Tree));
    }

    assert!(peer.tried.len() < 12, "{:?}", peer.tried);
    assert!(times_the_best(&took, lossy) < 1.01);
}

#[test]
fn where_it_makes_no_difference_the_model_stays() {
    let mut peer = Peer::default();

    peer.collectives(4096, whatever);

    assert_eq!(peer.held(), CongestionControl::ModelBased);
    assert!(peer.tried.len() < 40, "{:?}", peer.tried);
}

#[test]
fn on_a_path_that_loses_packets_a_trial_costs_less_than_another_collective() {
    let mut peer = Peer::default();

    let took = peer.collectives(4096, lossy);

    assert_eq!(peer.held(), CongestionControl::ModelBased);
    assert!(peer.tried.len() < 12, "{:?}", peer.tried);
    let usual = took[0];
    assert!(took.iter().all(|took| *took < usual * 27 / 10), "{took:?}");
    assert!(times_the_best(&took, lossy) < 1.01);
}

#[test]
fn where_packets_begin_to_be_lost_a_collective_gives_the_loss_based_control_up() {
    let mut peer = Peer::default();
    peer.collectives(99, lossy_from_100_on);
    assert_eq!(peer.held(), CongestionControl::LossBased);

    let took = peer.collective(BYTES, lossy_from_100_on);

    assert_eq!(peer.held(), CongestionControl::ModelBased);
    // As long as three of those before, twice as many bytes in each, and the rest at the model's rate.
    assert!(took < Duration::from_secs(9), "{took:?}");
    let rest = peer.collectives(1000, |control, _| lossy(control, 0));
    assert!(times_the_best(&rest, lossy) < 1.02);
}

/// Peers whose collectives take as long as the slowest of them.
struct Run {
    peers: Vec<Peer>,
}

impl Run {
    fn new(peers: usize) -> Self {
        let peers = (0..peers).map(|_| Peer::default()).collect();
        Self { peers }
    }

    fn collectives(&mut self, count: usize, path: Path) {
        for _ in 0..count {
            let controls = self.peers.iter_mut().map(|peer| {
                peer.seq += 1;
                (peer.begins(BYTES), peer.seq)
            });
            let rate = controls.map(|(control, seq)| path(control, seq)).min();
            let rate = rate.expect("there are peers");
            self.peers
                .iter_mut()
                .for_each(|peer| peer.carried(BYTES, rate));
        }
    }

    fn held(&self) -> Vec<CongestionControl> {
        self.peers.iter().map(Peer::held).collect()
    }
}

#[test]
fn peers_that_came_to_hold_different_ones_come_to_hold_the_same() {
    for gave_up in 1..8_usize {
        let mut run = Run::new(8);
        run.collectives(70, clean);
        assert_eq!(run.held(), [CongestionControl::LossBased; 8]);
        let peers = run.peers.iter_mut().take(gave_up);
        peers.for_each(|peer| peer.trials.give_up(70));

        run.collectives(200, clean);

        assert_eq!(run.held(), [CongestionControl::LossBased; 8], "{gave_up}");
    }
}

#[test]
fn peers_of_which_one_has_a_lossy_path_keep_the_model() {
    let mut run = Run::new(4);
    for _ in 0..500 {
        let first = run.peers.first_mut().expect("there are peers");
        first.seq += 1;
        let worst = lossy(first.begins(BYTES), 0);
        let others = run.peers.iter_mut().skip(1).map(|peer| {
            peer.seq += 1;
            clean(peer.begins(BYTES), 0)
        });
        let rate = others.min().map_or(worst, |rate| rate.min(worst));
        run.peers
            .iter_mut()
            .for_each(|peer| peer.carried(BYTES, rate));
        assert_eq!(run.held(), [CongestionControl::ModelBased; 4]);
    }
}

#[test]
fn the_largest_collectives_decide() {
    let mut peer = Peer::default();
    for _ in 0..100 {
        peer.collective(BYTES, whatever);
        peer.collective(BYTES / 64, clean);
    }

    assert_eq!(peer.held(), CongestionControl::ModelBased);
}

#[test]
fn what_becomes_rare_is_forgotten() {
    let mut peer = Peer::default();
    peer.collectives(20, clean);
    assert_eq!(peer.held(), CongestionControl::LossBased);

    // Of another load, or of the same one that never are alone until the verdict.
    for _ in 0..FORGOTTEN_AFTER / 2 {
        peer.trials.begins(peer.seq, load(1, Algorithm::Ring));
        peer.trials.begins(peer.seq, load(BYTES, Algorithm::Ring));
    }
    assert_eq!(peer.held(), CongestionControl::LossBased);
    peer.trials.begins(peer.seq, load(BYTES, Algorithm::Ring));

    assert_eq!(peer.trials.wanted(), CongestionControl::ModelBased);
    // Smaller ones may be compared from here on.
    for _ in 0..6 {
        peer.collective(BYTES / 64, clean);
    }
    assert_eq!(peer.held(), CongestionControl::LossBased);
}

#[test]
fn a_larger_collective_begins_with_the_model() {
    let mut peer = Peer::default();
    peer.collectives(20, clean);
    assert_eq!(peer.trials.wanted(), CongestionControl::LossBased);

    peer.trials
        .begins(peer.seq, load(2 * BYTES, Algorithm::Ring));

    assert_eq!(peer.trials.wanted(), CongestionControl::ModelBased);
}

#[test]
fn the_first_collective_after_a_trial_is_not_compared() {
    let path: Path = |control, seq| match seq {
        67 => 1_500_000,
        _ => clean(control, seq),
    };
    let mut peer = Peer::default();
    peer.collectives(63, path);
    let limit = peer.limit(2 * BYTES);
    assert!(limit.is_some());

    peer.collectives(6, path);

    assert_eq!(peer.tried.last(), Some(&66));
    assert_eq!(peer.held(), CongestionControl::LossBased);
    assert_eq!(peer.limit(2 * BYTES), limit);
}

#[test]
fn trials_that_were_in_vain_with_large_collectives_do_not_put_off_those_of_smaller_ones() {
    let mut peer = Peer::default();
    peer.collectives(600, whatever);
    assert_eq!(peer.trials.rests_until, 1024);

    for _ in 0..100 {
        peer.collective(BYTES / 64, clean);
    }

    assert_eq!(peer.held(), CongestionControl::LossBased);
}

#[test]
fn trials_that_come_to_no_verdict_become_rare() {
    let mut peer = Peer::default();

    // Of three collectives of a trial two are over when a larger one begins, which is not compared.
    for _ in 0..400 {
        peer.collectives(5, clean);
        peer.trials
            .begins(peer.seq, load(2 * BYTES, Algorithm::Tree));
    }

    assert!(peer.tried.len() < 24, "{:?}", peer.tried);
}

#[test]
fn trials_that_were_in_vain_with_small_collectives_do_not_put_off_those_of_larger_ones() {
    let mut peer = Peer::default();
    for _ in 0..600 {
        peer.collective(BYTES / 64, whatever);
    }
    assert_eq!(peer.trials.rests_until, 1024);

    peer.collectives(6, clean);

    assert_eq!(peer.held(), CongestionControl::LossBased);
}

#[test]
fn collectives_that_are_never_alone_until_the_verdict_end_a_trial() {
    let mut peer = Peer::default();
    peer.collectives(3, clean);
    assert_eq!(peer.trials.wanted(), CongestionControl::LossBased);

    for _ in 0..=FORGOTTEN_AFTER {
        peer.begins(BYTES);
    }

    assert_eq!(peer.trials.wanted(), CongestionControl::ModelBased);
    assert!(peer.trials.is_settled());
}

#[test]
fn what_cannot_be_compared_may_take_longer() {
    let mut peer = Peer::default();
    peer.collectives(10, clean);

    assert!(peer.limit(1) > peer.limit(BYTES));
    let other = peer.trials.limit(load(BYTES, Algorithm::Relay));
    assert!(other > peer.limit(BYTES));
    assert_eq!(Peer::default().limit(1), None);
}

#[test]
fn rates_of_other_algorithms_are_not_compared() {
    let mut trials = Trials::default();
    for seq in 1..=3 {
        trials.carried(seq, load(BYTES, Algorithm::Ring), 2_000_000);
    }
    assert_eq!(trials.wanted(), CongestionControl::LossBased);

    for seq in 4..=20 {
        trials.carried(seq, load(BYTES, Algorithm::TwoLevel), 9_000_000);
    }

    assert_eq!(trials.held, CongestionControl::ModelBased);
}

#[test]
fn whatever_is_called_lanes_do_not_wait_for_ever() {
    // Each load is another one.
    let mut trials = Trials::default();
    for seq in 1..=16 {
        assert!(!trials.is_settled());
        trials.begins(seq, load(seq, Algorithm::Ring));
        trials.carried(seq, load(seq, Algorithm::Ring), 1);
    }
    assert!(trials.is_settled());

    // What is tried is so fast that its time is a matter of the scheduler.
    let mut trials = Trials::default();
    let load = load(BYTES, Algorithm::Ring);
    for seq in 1..=20 {
        trials.begins(seq, load);
        let millis = match trials.wanted() {
            CongestionControl::ModelBased => 55,
            CongestionControl::LossBased => 45,
        };
        trials.took(seq, load, Duration::from_millis(millis));
    }
    assert!(trials.is_settled());
    assert_eq!(trials.held, CongestionControl::LossBased);
}

#[test]
fn with_noise_a_clean_path_and_a_lossy_one_get_what_carries_more() {
    for path in [clean as Path, lossy] {
        for seed in 0..50 {
            let mut noise = StdRng::seed_from_u64(seed);
            let mut peer = Peer::default();
            let mut took = 0.0;
            for _ in 0..500 {
                let percent = noise.random_range(85..=115);
                let with_noise = |took: Duration| took * percent / 100;
                peer.seq += 1;
                let control = peer.begins(BYTES);
                let takes = Duration::from_secs_f64(BYTES as f64 / path(control, 0) as f64);
                let takes = match peer.limit(BYTES).filter(|limit| *limit < takes) {
                    None => {
                        peer.carried(BYTES, rate(BYTES, with_noise(takes)));
                        takes
                    }
                    Some(limit) => {
                        peer.trials.give_up(peer.seq);
                        2 * limit
                    }
                };
                took += takes.as_secs_f64();
            }
            let best = path(CongestionControl::ModelBased, 0);
            let best = best.max(path(CongestionControl::LossBased, 0));
            let got = 500.0 * BYTES as f64 / best as f64 / took;
            assert!(got > 0.93, "seed {seed}: {got}");
        }
    }
}

#[test]
fn whatever_is_carried_a_loss_based_control_has_a_limit() {
    let mut seed = StdRng::seed_from_u64(7);
    let mut trials = Trials::default();
    for seq in 0..10_000 {
        let bytes = seed.random::<u64>() >> seed.random_range(0..64);
        let rate = seed.random::<u64>() >> seed.random_range(0..64);
        let load = load(bytes, Algorithm::Ring);
        match seed.random_range(0..12) {
            0 => trials.give_up(seq),
            1 => trials.begins(seq, load),
            _ => trials.carried(seq, load, rate),
        }
        let is_limited = trials.limit(load).is_some();
        assert_eq!(is_limited, trials.wanted() == CongestionControl::LossBased);
    }
    for rate in [0, u64::MAX, u64::MAX, u64::MAX, u64::MAX] {
        trials.carried(u64::MAX, load(u64::MAX, Algorithm::Ring), rate);
    }
    let _ = trials.limit(load(u64::MAX, Algorithm::Ring));
    trials.give_up(u64::MAX);
    assert_eq!(trials.wanted(), CongestionControl::ModelBased);
}

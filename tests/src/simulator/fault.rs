//! What goes wrong in a simulated run.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

/// Something that goes wrong, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Since the beginning.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// Who is hit: one of those who live then, by lot.
pub type Lot = u32;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Another peer joins.
    Join,
    /// A process is killed.
    Kill(Lot),
    /// Two are killed at the same moment.
    KillTwo(Lot, Lot),
    /// A machine loses its power: nobody is told.
    PowerLoss(Lot),
    /// A process is killed when it is about to send its next message but so many to the master.
    KillAtWord(Lot, u32),
    /// A process is killed when it is about to hear the next message but so many of the master.
    KillAtHearing(Lot, u32),
    /// A process is killed when all others have voted to complete a collective, and it is about to.
    KillLastVoter(Lot),
    /// A process is killed between a verdict and its delivery.
    KillBeforeVerdict(Lot),
    /// A host neither sends nor receives for a while.
    Freeze(Lot, Duration),
    /// What is sent to a host arrives slowly for a while.
    SlowReader(Lot, Duration),
    /// All lanes between two hosts are reset.
    Reset(Lot, Lot),
    /// A host's connection to the master is reset.
    ResetMaster(Lot),
    /// The lanes between two hosts are half open: the first one is told.
    HalfOpen(Lot, Lot),
    /// The same between a host and the master. True: the master is told.
    HalfOpenMaster(Lot, bool),
    /// What the first one sends on its lanes to the second one is lost from here on.
    Lose(Lot, Lot),
    /// Nothing arrives at the second one from the first one for a while.
    StallOneWay(Lot, Lot, Duration),
    /// Some, by their bits, are cut off from the others for a while. The master is with the others.
    Partition(u32, Duration),
    /// One is cut off from the master for a while.
    NoMaster(Lot, Duration),
    /// Everything takes longer for a while.
    Delays(Duration, Duration),
    /// Bits to and from a host are flipped for a while.
    Flip(Lot, Duration),
    /// The same on its lanes to and from other peers: checksums and hashes find each of them.
    FlipData(Lot, Duration),
    /// A peer leaves between two steps.
    Leave(Lot),
    /// A stranger says to the master, or to a peer, again what somebody has said before.
    Replay(Lot),
    /// A stranger of another version comes.
    WrongVersion,
    /// The whole machine stands still, with its clocks.
    StandStill(Duration),
    /// The master dies, and comes back after a while.
    MasterDies(Duration),
}

impl What {
    /// Whether all whom it concerns are told at once: then nobody has to wait for a deadline.
    pub(super) const fn is_told(self) -> bool {
        match self {
            Self::Join
            | Self::Leave(_)
            | Self::Kill(_)
            | Self::KillTwo(..)
            | Self::KillAtWord(..)
            | Self::KillAtHearing(..)
            | Self::KillLastVoter(_)
            | Self::KillBeforeVerdict(_)
            | Self::Reset(..)
            | Self::ResetMaster(_)
            | Self::Replay(_)
            | Self::WrongVersion => true,
            Self::PowerLoss(_)
            | Self::Freeze(..)
            | Self::SlowReader(..)
            | Self::HalfOpen(..)
            | Self::HalfOpenMaster(..)
            | Self::Lose(..)
            | Self::StallOneWay(..)
            | Self::Partition(..)
            | Self::NoMaster(..)
            | Self::Delays(..)
            | Self::Flip(..)
            | Self::FlipData(..)
            | Self::StandStill(_)
            | Self::MasterDies(_) => false,
        }
    }
}

/// Draws a fault in this time.
pub(super) fn draw(random: &mut StdRng, within: Duration, peers: usize) -> Fault {
    let end = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    let at = Duration::from_millis(random.random_range(0..end));
    Fault {
        at,
        what: draw_what(random, peers),
    }
}

fn draw_what(random: &mut StdRng, peers: usize) -> What {
    let (one, other): (Lot, Lot) = (random.random(), random.random());
    let lasting = lasting(random);
    match random.random_range(0..54) {
        0..5 => What::Join,
        5..8 => What::Kill(one),
        8..10 => What::KillTwo(one, other),
        10..12 => What::PowerLoss(one),
        12..16 => What::KillAtWord(one, random.random_range(0..20)),
        16..20 => What::KillAtHearing(one, random.random_range(0..20)),
        20..22 => What::KillLastVoter(one),
        22..24 => What::KillBeforeVerdict(one),
        24..27 => What::Freeze(one, lasting),
        27..29 => What::SlowReader(one, lasting),
        29..31 => What::Reset(one, other),
        31 => What::ResetMaster(one),
        32 => What::HalfOpen(one, other),
        33 => What::HalfOpenMaster(one, random.random()),
        34 => What::Lose(one, other),
        35..37 => What::StallOneWay(one, other, lasting),
        37..39 => What::Partition(random.random_range(1..1 << peers.min(20)), lasting),
        39..41 => What::NoMaster(one, lasting),
        41..43 => What::Delays(Duration::from_millis(random.random_range(50..900)), lasting),
        43 => What::Flip(one, lasting),
        44..46 => What::Replay(one),
        46 => What::WrongVersion,
        47 => What::StandStill(lasting),
        50..52 => What::FlipData(one, lasting),
        52..54 => What::Leave(one),
        _ => What::MasterDies(Duration::from_secs(2) + lasting),
    }
}

/// Faults that cost nobody a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Harmless {
    /// Peers may come back if their connection to the master ends.
    pub(super) session: bool,
    /// The master may come back as well.
    pub(super) journal: bool,
}

impl Harmless {
    pub(super) fn draw(self, random: &mut StdRng) -> What {
        let one: Lot = random.random();
        let lasting = lasting(random);
        let delay = Duration::from_millis(random.random_range(10..300));
        let mut kinds = vec![
            What::Join,
            What::Leave(one),
            What::Replay(one),
            What::WrongVersion,
            What::StandStill(lasting),
            What::Delays(delay, lasting),
        ];
        if self.session {
            kinds.extend([What::ResetMaster(one); 3]);
        }
        if self.journal {
            kinds.extend([What::MasterDies(lasting); 2]);
        }
        let place = random.random_range(0..kinds.len());
        kinds.swap_remove(place)
    }
}

/// Every order of magnitude is as likely as any other, from a tenth of a second to half a minute.
fn lasting(random: &mut StdRng) -> Duration {
    let exponent = random.random_range(-1.0..1.5_f64);
    // Whole milliseconds, as the clock has no others.
    Duration::from_millis((10_f64.powf(exponent) * 1000.0) as u64)
}

//! The chaos plan: who is killed when and how, and when somebody joins. Drawn from a seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::talk::Moment;

/// How much chaos.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chaos {
    pub(crate) peers: u32,
    pub(crate) kills: u32,
    pub(crate) joins: u32,
    pub(crate) master_kills: u32,
    pub(crate) rounds: u64,
}

/// What happens once a round is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Kill one, chosen by this number among those alive.
    Kill { whom: u64, when: When },
    /// Start one.
    Join,
}

/// At which point a peer is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// At once, whatever it does.
    AtOnce,
    /// When it comes to this moment of its next reduce.
    At(Moment),
}

/// When a master is killed: so long after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MasterKill {
    pub(crate) round: u64,
    pub(crate) after: Duration,
}

/// The longest time from the end of a round to the kill of the master. Some rounds are shorter.
const AFTER_ROUND_MS: u64 = 60;

/// A run's chaos, in order.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) chaos: Chaos,
    /// After which round what happens.
    pub(crate) acts: Vec<(u64, Act)>,
    /// When the master is killed, in order.
    pub(crate) master_kills: Vec<MasterKill>,
    /// Is the topology optimized after each change of the peers?
    pub(crate) optimize: bool,
}

impl Plan {
    /// Draws a plan in which two peers live at every moment.
    pub(crate) fn draw(chaos: Chaos, seed: u64, optimize: bool) -> Result<Self, String> {
        let mut random = StdRng::seed_from_u64(seed);
        let rounds = rounds_for(chaos, &mut random)?;
        let acts = order_of_acts(chaos, &mut random)?;
        let mut acts: Vec<(u64, Act)> = rounds.into_iter().zip(acts).collect();
        if optimize {
            kill_in_optimizations(&mut acts, &mut random);
        }
        Ok(Self {
            chaos,
            acts,
            master_kills: draw_master_kills(chaos, seed)?,
            optimize,
        })
    }

    /// Peers that are killed while the topology is optimized.
    pub(crate) fn kills_in_optimizations(&self) -> usize {
        let is_inside = |(_, act): &&(u64, Act)| match act {
            Act::Kill {
                when: When::At(moment),
                ..
            } => moment.is_of_optimization(),
            Act::Kill {
                when: When::AtOnce, ..
            }
            | Act::Join => false,
        };
        self.acts.iter().filter(is_inside).count()
    }

    /// Peers that are to be alive at the end.
    pub(crate) fn survivors(&self) -> usize {
        (self.chaos.peers + self.chaos.joins - self.chaos.kills) as usize
    }
}

fn rounds_for(chaos: Chaos, random: &mut StdRng) -> Result<Vec<u64>, String> {
    let acts = (chaos.kills + chaos.joins) as usize;
    draw_rounds(chaos, acts, random).ok_or_else(|| {
        format!(
            "{acts} kills and joins do not fit into {} rounds",
            chaos.rounds
        )
    })
}

/// Has a stream of its own, so that a seed disturbs the same peers with and without it.
fn draw_master_kills(chaos: Chaos, seed: u64) -> Result<Vec<MasterKill>, String> {
    let mut random = StdRng::seed_from_u64(!seed);
    let kills = chaos.master_kills;
    let rounds = draw_rounds(chaos, kills as usize, &mut random);
    let rounds = rounds.ok_or_else(|| {
        format!(
            "{kills} kills of the master do not fit into {} rounds",
            chaos.rounds
        )
    })?;
    let mut after = || Duration::from_millis(random.random_range(0..AFTER_ROUND_MS));
    let kill = |round| MasterKill {
        round,
        after: after(),
    };
    Ok(rounds.into_iter().map(kill).collect())
}

/// Different rounds, away from both ends so that every join and every loss is followed by work.
fn draw_rounds(chaos: Chaos, count: usize, random: &mut StdRng) -> Option<Vec<u64>> {
    // A process needs some rounds to start; who comes when all others are done trains alone.
    let quiet_end = (chaos.rounds / 5).clamp(3, 8);
    let mut rounds: Vec<u64> = (2..chaos.rounds.saturating_sub(quiet_end)).collect();
    if rounds.len() < count {
        return None;
    }
    rounds.shuffle(random);
    rounds.truncate(count);
    rounds.sort_unstable();
    Some(rounds)
}

/// Kills and joins in random order, a join first where a kill would leave fewer than two.
fn order_of_acts(chaos: Chaos, random: &mut StdRng) -> Result<Vec<Act>, String> {
    let (mut alive, mut kills, mut joins) = (chaos.peers, chaos.kills, chaos.joins);
    let mut kill_in_reduce_is_due = true;
    let mut acts = Vec::new();
    while kills + joins > 0 {
        let may_kill = kills > 0 && alive > 2;
        if may_kill && (joins == 0 || random.random_bool(0.5)) {
            // At least one is killed in the middle of a reduce, whatever the seed.
            let in_reduce = core::mem::take(&mut kill_in_reduce_is_due);
            let when = if in_reduce {
                When::At(Moment::Frame)
            } else {
                draw_when(random)
            };
            acts.push(Act::Kill {
                whom: random.random(),
                when,
            });
            (alive, kills) = (alive - 1, kills - 1);
        } else if joins > 0 {
            acts.push(Act::Join);
            (alive, joins) = (alive + 1, joins - 1);
        } else {
            return Err("two peers must stay alive: fewer kills, or more peers or joins".into());
        }
    }
    Ok(acts)
}

/// A kill right before a join comes when the peers measure the edges of the newcomer. The first kill stays in a
/// reduce.
fn kill_in_optimizations(acts: &mut [(u64, Act)], random: &mut StdRng) {
    let mut is_first = true;
    for at in 1..acts.len() {
        let pair = acts.get_mut(at - 1..=at);
        let Some([(of_kill, Act::Kill { when, .. }), (of_join, Act::Join)]) = pair else {
            continue;
        };
        if std::mem::take(&mut is_first) && *when == When::At(Moment::Frame) {
            continue;
        }
        *of_join = *of_kill;
        *when = When::At(match random.random_range(0..3) {
            0 => Moment::Optimize,
            1 => Moment::Probe,
            _ => Moment::Measured,
        });
    }
}

fn draw_when(random: &mut StdRng) -> When {
    match random.random_range(0..4) {
        0 => When::At(Moment::Vote),
        1 => When::At(Moment::Frame),
        2 => When::At(Moment::Verdict),
        _ => When::AtOnce,
    }
}

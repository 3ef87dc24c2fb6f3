//! Who is slow, stuck or gone, as far as this peer knows while it waits: what its log, its errors and its reports say.
//!
//! A peer sees for itself on which of its links nothing moves. In a ring that is often not the link of the peer that
//! causes it, because all others wait as well. From whom nothing is heard at all, the master knows, and says so.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pccl_core::element::CollectiveKind;
use pccl_core::id::{PeerId, Tag};
use pccl_core::topology::{Topology, Way};
use pccl_core::wire::QuietPeer;
use pccl_plane::{WaitedLink, Waits};
use tokio::time::Instant;

/// What the master has said counts for this long: it repeats it as long as it is so.
const NEWS_LAST: Duration = Duration::from_secs(3);

/// Lines about operations that wait are at least this far apart, however many operations wait.
const LINES_APART: Duration = Duration::from_millis(500);

/// Maximum number of links that a line names.
const LINKS_MAX: usize = 4;

/// For whom this peer waited longest while nothing moved of a collective. Times of less than a second are not noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waited {
    /// For how long nothing had moved.
    pub time: Duration,
    /// The peer at the other end of the link.
    pub peer: PeerId,
    /// The ranks at the ends of the link, the sender first.
    pub edge: (u32, u32),
    /// If `peer` sends on this link: the step whose bytes were missing, counted from 1, and the number of steps in which
    /// bytes arrive at this peer.
    pub step: Option<(u32, u32)>,
    /// A member of the group from which the master heard nothing at that time. It is the one to blame, more likely
    /// than `peer`, which may have waited as well.
    pub silent: Option<PeerId>,
}

/// The longer wait.
pub(crate) fn longer(one: Option<Waited>, other: Option<Waited>) -> Option<Waited> {
    let waits = one.into_iter().chain(other);
    waits.max_by_key(|waited| waited.time)
}

impl fmt::Display for Waited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = self.edge;
        let seconds = self.time.as_secs_f32();
        write!(f, "{seconds:.1} s for {}, edge {from}→{to}", self.peer)?;
        if let Some((step, steps)) = self.step {
            write!(f, ", step {step} of {steps}")?;
        }
        match self.silent {
            Some(silent) => write!(f, ", while the master heard nothing from {silent}"),
            None => Ok(()),
        }
    }
}

/// The times of one operation in which nothing moves.
#[derive(Debug, Default)]
pub(crate) struct Lulls {
    longest: Option<Waited>,
    /// How long the present one was when the log last said so.
    told: Duration,
}

impl Lulls {
    /// Nothing moves: remembers that, and says so in the log, again each time that the time has doubled.
    pub(crate) fn note(
        &mut self,
        suspects: &Suspects,
        operation: (Tag, CollectiveKind),
        waits: &Waits,
        topology: &Topology,
    ) {
        if waits.lasts < self.told || waits.lasts >= self.told * 2 {
            self.told = waits.lasts;
            suspects.tell(operation, waits, topology);
        }
        // Whoever takes nothing is to blame rather than whoever sends nothing, which may wait as well.
        let waited = waits.links.first().map(|link| Waited {
            time: waits.lasts,
            peer: link.link.with,
            edge: link.edge,
            step: link.step,
            silent: suspects.longest_silent(),
        });
        self.longest = longer(self.longest, waited);
    }

    pub(crate) const fn longest(&self) -> Option<Waited> {
        self.longest
    }
}

/// What this peer knows.
#[derive(Debug, Default)]
pub(crate) struct Suspects(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    silent: BTreeMap<PeerId, Silent>,
    /// When the last line about an operation was written.
    line: Option<Instant>,
    /// How many operations had none since then.
    untold: u32,
}

/// A peer from which the master hears nothing.
#[derive(Clone, Copy, Debug)]
struct Silent {
    /// When it was heard last.
    since: Instant,
    /// When the master has said so.
    told: Instant,
    /// How long the silence is when the log says so next.
    line_at: Duration,
}

impl Suspects {
    /// The master has heard nothing from these peers.
    pub(crate) fn are_silent(&self, quiet: &[QuietPeer], topology: &Topology) {
        let now = Instant::now();
        let mut state = self.lock();
        state.forget_before(now);
        for QuietPeer { peer, millis } in quiet {
            let time = Duration::from_millis(u64::from(*millis));
            if topology.ring.rank_of(*peer).is_none() {
                continue;
            }
            let known = state.silent.get(peer).map(|silent| silent.line_at);
            let line_at = known.unwrap_or_default();
            let is_told = time >= line_at;
            if is_told {
                let (who, seconds) = (topology.named(*peer), time.as_secs_f32());
                tracing::warn!("the master has heard nothing from peer {who} for {seconds:.1} s");
            }
            let silent = Silent {
                since: now.checked_sub(time).unwrap_or(now),
                told: now,
                line_at: if is_told { time * 2 } else { line_at },
            };
            state.silent.insert(*peer, silent);
        }
    }

    /// An operation waits, and the log says so, unless another operation has just had a line.
    fn tell(&self, (tag, kind): (Tag, CollectiveKind), waits: &Waits, topology: &Topology) {
        let now = Instant::now();
        let mut state = self.lock();
        state.forget_before(now);
        if let Some(others) = state.next_line(now) {
            let mut line = format!("{kind} with {tag}: ");
            // Writing to a string does not fail.
            let _ = describe(&mut line, waits, topology);
            let _ = state.describe_silent(&mut line, topology, now);
            if others > 0 {
                let _ = write!(line, "; {others} other collectives wait as well");
            }
            tracing::warn!("{line}");
        }
    }

    /// The member of the group from which the master has heard nothing for the longest time.
    fn longest_silent(&self) -> Option<PeerId> {
        let mut state = self.lock();
        state.forget_before(Instant::now());
        let longest = state.silent.iter().min_by_key(|(_, silent)| silent.since);
        longest.map(|(peer, _)| *peer)
    }

    /// Nothing that holds the lock can panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget_before(&mut self, now: Instant) {
        self.silent
            .retain(|_, silent| now < silent.told + NEWS_LAST);
    }

    /// Whether a line may be written; for how many operations none was.
    fn next_line(&mut self, now: Instant) -> Option<u32> {
        if self.line.is_some_and(|line| now < line + LINES_APART) {
            self.untold = self.untold.saturating_add(1);
            return None;
        }
        self.line = Some(now);
        Some(std::mem::take(&mut self.untold))
    }

    fn describe_silent(&self, line: &mut String, topology: &Topology, now: Instant) -> fmt::Result {
        for (peer, silent) in &self.silent {
            let who = topology.named(*peer);
            let seconds = (now - silent.since).as_secs_f32();
            write!(
                line,
                "; the master has heard nothing from peer {who} for {seconds:.1} s"
            )?;
        }
        Ok(())
    }
}

/// For whom, on which edge and in which step.
fn describe(line: &mut String, waits: &Waits, topology: &Topology) -> fmt::Result {
    write!(line, "waiting {:.1} s", waits.lasts.as_secs_f32())?;
    for (nth, link) in waits.links.iter().take(LINKS_MAX).enumerate() {
        let and = if nth == 0 { "" } else { " and" };
        write!(line, "{and} ")?;
        describe_link(line, link, topology)?;
    }
    match waits.links.len().saturating_sub(LINKS_MAX) {
        0 => Ok(()),
        others => write!(line, " and {others} others"),
    }
}

fn describe_link(line: &mut String, waited: &WaitedLink, topology: &Topology) -> fmt::Result {
    let who = topology.named(waited.link.with);
    let (from, to) = waited.edge;
    let world = u32::try_from(topology.ring.world_size()).unwrap_or(u32::MAX);
    let ring = if (from + 1) % world.max(1) == to {
        "ring "
    } else {
        ""
    };
    match waited.link.way {
        Way::In => write!(line, "for peer {who}, {ring}edge {from}→{to}")?,
        Way::Out => write!(
            line,
            "for peer {who} to take what is sent, {ring}edge {from}→{to}"
        )?,
    }
    match waited.step {
        Some((step, steps)) => write!(line, ", step {step} of {steps}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use pccl_core::name::PeerName;
    use pccl_core::topology::{LinkId, Ring};
    use tokio::time::advance;

    use super::*;

    fn topology() -> Topology {
        let name = |name: &str| PeerName::try_from(name.to_owned()).unwrap();
        Topology {
            ring: Ring([4, 7, 9, 12].map(PeerId).into()),
            names: ["", "node-7", "", ""].map(name).into(),
            ..Topology::default()
        }
    }

    /// Rank 2 of four waits for both of its neighbours.
    fn waits() -> Waits {
        Waits {
            lasts: Duration::from_millis(1240),
            links: vec![
                WaitedLink {
                    link: LinkId::to(PeerId(12)),
                    edge: (2, 3),
                    step: None,
                },
                WaitedLink {
                    link: LinkId::from(PeerId(7)),
                    edge: (1, 2),
                    step: Some((5, 6)),
                },
            ],
        }
    }

    #[test]
    fn a_line_says_for_whom_and_on_which_edge_and_in_which_step() {
        let mut line = String::new();

        describe(&mut line, &waits(), &topology()).unwrap();

        let expected = "waiting 1.2 s for peer 12 to take what is sent, ring edge 2→3 and for peer 7 (node-7), \
                        ring edge 1→2, step 5 of 6";
        assert_eq!(line, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_of_the_group_from_which_the_master_hears_nothing_is_the_one_to_blame() {
        let suspects = Suspects::default();
        let quiet = |peer, millis| QuietPeer {
            peer: PeerId(peer),
            millis,
        };
        let note = |waits: &Waits| {
            let mut lulls = Lulls::default();
            lulls.note(
                &suspects,
                (Tag(3), CollectiveKind::AllReduce),
                waits,
                &topology(),
            );
            lulls.longest()
        };

        suspects.are_silent(&[quiet(88, 3000), quiet(4, 1100)], &topology());
        let waited = note(&waits());
        advance(NEWS_LAST).await;
        let later = note(&waits());

        let waited = waited.unwrap();
        assert_eq!((waited.peer, waited.silent), (PeerId(12), Some(PeerId(4))));
        assert_eq!(later.unwrap().silent, None, "it was heard again");
        let text = "1.2 s for peer 12, edge 2→3, while the master heard nothing from peer 4";
        assert_eq!(waited.to_string(), text);
    }

    #[tokio::test(start_paused = true)]
    async fn many_operations_that_wait_take_one_line_at_a_time() {
        let mut state = State::default();

        let lines = [(); 5].map(|()| state.next_line(Instant::now()));
        advance(LINES_APART).await;
        let next = state.next_line(Instant::now());

        assert_eq!(lines, [Some(0), None, None, None, None]);
        assert_eq!(next, Some(4));
    }
}

//! Many peers of one address that start at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::processes::{Member, Process, Swarm, Trouble};
use crate::roles::{MasterOptions, Role};
use crate::scripted::PeerOptions;
use crate::talk::Event;

/// How long it took, from the start of the first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Until all processes were started.
    pub started: Duration,
    /// Until all peers were admitted.
    pub admitted: Duration,
    /// Until all of them had the result of a reduce of all of them.
    pub reduced: Duration,
}

/// Starts a master in an empty swarm and so many peers at once, and waits until they have reduced together.
///
/// # Errors
/// What went wrong: a peer that is turned away is among it.
pub fn let_in(swarm: &mut Swarm, count: usize) -> Result<Report, Trouble> {
    let (_, master) = swarm.start_master(&MasterOptions::default())?;
    let options = PeerOptions::of(master);
    let since = Instant::now();
    for _ in 0..count {
        swarm.start(&Role::Peer(options.clone()))?;
    }
    let started = since.elapsed();
    let mut members: BTreeMap<Process, Member> = BTreeMap::new();
    swarm.until("the admission of all", |process, event| match event {
        Event::Joined { .. } => {
            members.extend(Member::of(process, event).map(|member| (process, member)));
            (members.len() == count).then_some(Ok(()))
        }
        Event::GaveUp { error, .. } => Some(Err(Trouble::GaveUp {
            process,
            error: error.clone(),
        })),
        _ => None,
    })??;
    let admitted = since.elapsed();
    let members: Vec<Member> = members.into_values().collect();
    swarm.until_all_commit(&members)?;
    Ok(Report {
        started,
        admitted,
        reduced: since.elapsed(),
    })
}

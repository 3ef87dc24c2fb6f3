//! What a master that is followed by another one leaves to it: a snapshot, and the last record of its journal.
//!
//! All records before the last one are in the snapshot, as if a new journal had been begun before each record: the last
//! one is replayed, or lost with the machine.

use std::collections::BTreeMap;

use pccl_core::id::PeerId;
use pccl_core::journal::{Durable, OnDisk};
use pccl_core::log::{Encoder, restore};
use pccl_core::master::{Master, MasterInput, MasterOutput};
use pccl_core::messages::ToMaster;

use crate::hashed::Hashed;
use crate::state::Ghost;

/// The journal of a master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Journal {
    /// What is on the disk.
    snapshot: Durable,
    /// What came after it. `None`: nothing.
    last: Option<Record>,
    /// What both ends of each session have received.
    received: BTreeMap<PeerId, Received>,
}

/// The record of a step of the master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Record {
    input: MasterInput,
    /// Whether it is lost if the machine fails now.
    may_be_lost: bool,
    /// What was remembered before and after the step, where that differs and the record may be lost.
    ghosts: Option<Box<(Hashed<Ghost>, Hashed<Ghost>)>>,
}

/// Numbers of messages of one session that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Received {
    /// At the master.
    pub by_master: u64,
    /// At the peer.
    pub by_peer: u64,
}

/// What is lost with a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// Its process: all records are in the system.
    Process,
    /// Its machine: the last record was not on the disk.
    LastRecord,
}

/// What a message whose record is lost leaves behind.
#[derive(Clone, Debug)]
pub struct Unheard {
    /// Who sent it, and sends it again.
    pub peer: PeerId,
    /// The message.
    pub message: ToMaster,
    /// What was remembered before it; `None`: it has changed nothing of that.
    pub ghost: Option<Hashed<Ghost>>,
}

impl Journal {
    /// The journal of a master to which nothing has happened.
    #[must_use]
    pub const fn new(master: Master) -> Self {
        Self {
            snapshot: Durable::new(master),
            last: None,
            received: BTreeMap::new(),
        }
    }

    /// The journal that a master goes on with.
    #[must_use]
    pub fn of(durable: Durable, received: BTreeMap<PeerId, Received>) -> Self {
        let mut journal = Self {
            snapshot: durable,
            last: None,
            received,
        };
        journal.forget_received();
        journal
    }

    /// The master has heard and said this.
    pub fn append(&mut self, input: MasterInput, said: &[MasterOutput]) {
        self.compact();
        self.count(&input, said);
        let may_be_lost = OnDisk::of(said) == OnDisk::Later && is_repeatable(&input);
        self.last = Some(Record {
            input,
            may_be_lost,
            ghosts: None,
        });
    }

    /// What was remembered before the step of the last record, and after it.
    pub fn remember(&mut self, before: &Hashed<Ghost>, after: &Hashed<Ghost>) {
        if let Some(last) = &mut self.last
            && last.may_be_lost
            && before != after
        {
            last.ghosts = Some(Box::new((before.clone(), after.clone())));
        }
    }

    /// The last record goes to the disk.
    pub fn compact(&mut self) {
        if let Some(last) = self.last.take() {
            self.snapshot.handle(last.input, &mut Vec::new());
            self.forget_received();
        }
    }

    /// A message has arrived at a peer.
    pub fn arrived(&mut self, peer: PeerId) {
        if let Some(received) = self.received.get_mut(&peer) {
            received.by_peer += 1;
            self.forget_received();
        }
    }

    /// What both ends of this session have received.
    #[must_use]
    pub fn received(&self, peer: PeerId) -> Option<Received> {
        self.received.get(&peer).copied()
    }

    /// What both ends of all sessions have received.
    #[must_use]
    pub const fn all_received(&self) -> &BTreeMap<PeerId, Received> {
        &self.received
    }

    /// The message whose record is lost if the machine fails while this is remembered. What came of it since cannot be
    /// told apart from what came of something else where both have changed what is remembered: then it is not looked at.
    #[must_use]
    pub fn may_lose(&self, present: &Hashed<Ghost>) -> Option<Unheard> {
        let last = self.last.as_ref().filter(|last| last.may_be_lost)?;
        let MasterInput::Message { peer, message } = &last.input else {
            return None;
        };
        let ghost = match last.ghosts.as_deref() {
            Some((_, after)) if after != present => return None,
            Some((before, _)) => Some(before.clone()),
            None => None,
        };
        Some(Unheard {
            peer: *peer,
            message: message.clone(),
            ghost,
        })
    }

    /// What another process reads from it. `None`: it cannot be read.
    #[must_use]
    pub fn restored(&self, loss: Loss) -> Option<Durable> {
        let mut encoder = Encoder::<Durable>::new(&self.snapshot).ok()?;
        let mut file = encoder.header().to_vec();
        let last = self.last.as_ref().filter(|_| loss == Loss::Process);
        if let Some(last) = last {
            let (mut master, mut said) = (self.snapshot.master.clone(), Vec::new());
            encoder.heard(&last.input).ok()?;
            master.handle(last.input.clone(), &mut said);
            file.extend_from_slice(encoder.said(&said).ok()?);
        }
        let (durable, _) = restore(&file).ok()?;
        Some(durable)
    }

    fn count(&mut self, input: &MasterInput, said: &[MasterOutput]) {
        match input {
            MasterInput::Message { peer, .. } => {
                if let Some(received) = self.received.get_mut(peer) {
                    received.by_master += 1;
                }
            }
            MasterInput::Disconnected { peer } => {
                self.received.remove(peer);
            }
            _ => {}
        }
        for output in said {
            match output {
                MasterOutput::Register { peer, .. } => {
                    let hello = Received {
                        by_master: 1,
                        by_peer: 0,
                    };
                    self.received.insert(*peer, hello);
                }
                MasterOutput::Close { peer } => {
                    self.received.remove(peer);
                }
                _ => {}
            }
        }
    }

    /// Peers acknowledge what they receive at once: then as little as possible is kept.
    fn forget_received(&mut self) {
        for (peer, session) in &mut self.snapshot.sessions {
            let received = self.received.get(peer).map_or(0, |known| known.by_peer);
            let known = received.min(session.sent.sent());
            // No more than was sent.
            let _ = session.sent.acknowledge(known, |_| {});
        }
    }
}

/// Whether a peer says this again if the master does not acknowledge it. Who leaves is gone.
const fn is_repeatable(input: &MasterInput) -> bool {
    match input {
        MasterInput::Message { message, .. } => !matches!(message, ToMaster::Leave),
        _ => false,
    }
}

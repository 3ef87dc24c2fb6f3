//! What passed between a master and each connection, as either end has it.

use std::collections::BTreeMap;

use pccl_core::id::{ConnId, PeerId};
use pccl_core::master::{Master, MasterInput, MasterOutput};
use pccl_core::messages::{Hello, Misdeed, ToMaster, ToPeer};
use pccl_core::peer::{Peer, PeerInput, PeerOutput};

use super::log::Logged;

/// A message, and the record that has it.
pub(super) type Said<T> = (usize, T);

/// A connection as the master's log has it.
pub(super) struct Visit {
    pub(super) hello: Hello,
    /// `None`: it was refused.
    pub(super) peer: Option<PeerId>,
    /// What the master said to it.
    pub(super) down: Vec<Said<ToPeer>>,
    /// What the master heard, the hello first.
    pub(super) up: Vec<Said<ToMaster>>,
    /// The record in which the master lets it go.
    pub(super) gone: Option<usize>,
    /// It did not read, and so has missed something.
    pub(super) overflowed: bool,
}

/// All connections of a master that have said hello.
pub(super) fn visits(log: &Logged<Master>) -> Vec<Visit> {
    let mut book = Book::default();
    for (at, record) in log.records.iter().enumerate() {
        book.hears(at, &record.input);
        for output in &record.outputs {
            book.says(at, output);
        }
    }
    book.visits
}

#[derive(Default)]
struct Book {
    visits: Vec<Visit>,
    connections: BTreeMap<ConnId, usize>,
    peers: BTreeMap<PeerId, usize>,
}

impl Book {
    fn of(&mut self, peer: PeerId) -> Option<&mut Visit> {
        let at = self.peers.get(&peer)?;
        self.visits.get_mut(*at)
    }

    fn hears(&mut self, at: usize, input: &MasterInput) {
        match input {
            MasterInput::Connected { conn, hello, .. } => {
                self.connections.insert(*conn, self.visits.len());
                self.visits.push(Visit {
                    hello: hello.clone(),
                    peer: None,
                    down: Vec::new(),
                    up: vec![(at, ToMaster::Hello(hello.clone()))],
                    gone: None,
                    overflowed: false,
                });
            }
            MasterInput::Message { peer, message } => {
                if let Some(visit) = self.of(*peer) {
                    visit.up.push((at, message.clone()));
                }
            }
            MasterInput::Misbehaved { peer, misdeed } => {
                if let Some(visit) = self.of(*peer) {
                    visit.overflowed |= *misdeed == Misdeed::SlowReader;
                    visit.gone.get_or_insert(at);
                }
            }
            MasterInput::Disconnected { peer } => {
                if let Some(visit) = self.of(*peer) {
                    visit.gone.get_or_insert(at);
                }
            }
            MasterInput::TimerFired(_)
            | MasterInput::TourSolved { .. }
            | MasterInput::TourImproved { .. }
            | MasterInput::Stop => {}
        }
    }

    fn says(&mut self, at: usize, output: &MasterOutput) {
        match output {
            MasterOutput::Register { conn, peer } => {
                if let Some(number) = self.connections.get(conn) {
                    self.peers.insert(*peer, *number);
                }
                if let Some(visit) = self.of(*peer) {
                    visit.peer = Some(*peer);
                }
            }
            MasterOutput::Refuse { conn, reason } => {
                let number = self.connections.get(conn);
                if let Some(visit) = number.and_then(|number| self.visits.get_mut(*number)) {
                    visit.down.push((at, ToPeer::Refused(reason.clone())));
                    visit.gone.get_or_insert(at);
                }
            }
            MasterOutput::Send { peer, message } => {
                if let Some(visit) = self.of(*peer) {
                    visit.down.push((at, message.clone()));
                }
            }
            MasterOutput::Lost { peer, .. } => {
                if let Some(visit) = self.of(*peer) {
                    visit.gone.get_or_insert(at);
                }
            }
            MasterOutput::Close { .. }
            | MasterOutput::StartTimer { .. }
            | MasterOutput::StopTimer(_)
            | MasterOutput::SolveTour { .. }
            | MasterOutput::SearchTour { .. }
            | MasterOutput::EndSearch { .. }
            | MasterOutput::Moved { .. }
            | MasterOutput::Inconsistent { .. }
            | MasterOutput::Stopped => {}
        }
    }
}

/// The other end of a connection: what a peer's log has of it.
pub(super) struct Words {
    /// What it heard.
    pub(super) down: Vec<Said<ToPeer>>,
    /// What it said.
    pub(super) up: Vec<Said<ToMaster>>,
}

pub(super) fn words(log: &Logged<Peer>) -> Words {
    let mut words = Words {
        down: Vec::new(),
        up: Vec::new(),
    };
    for (at, record) in log.records.iter().enumerate() {
        if let PeerInput::Message(message) = &record.input {
            words.down.push((at, message.clone()));
        }
        for output in &record.outputs {
            if let PeerOutput::Send(message) = output {
                words.up.push((at, message.clone()));
            }
        }
    }
    words
}

impl Words {
    /// What it said first, if that was a hello.
    pub(super) fn hello(&self) -> Option<&Hello> {
        match self.up.first() {
            Some((_, ToMaster::Hello(hello))) => Some(hello),
            _ => None,
        }
    }

    /// As whom it was welcomed.
    pub(super) fn welcome(&self) -> Option<PeerId> {
        match self.down.first() {
            Some((_, ToPeer::Welcome { peer, .. })) => Some(*peer),
            _ => None,
        }
    }
}

/// How far two ends agree: how many messages are the same, and whether the shorter one has no others.
pub(super) fn agreement<T: PartialEq>(heard: &[Said<T>], said: &[Said<T>]) -> (usize, bool) {
    let pairs = heard.iter().zip(said);
    let same = pairs.take_while(|((_, a), (_, b))| a == b).count();
    (same, same == heard.len().min(said.len()))
}

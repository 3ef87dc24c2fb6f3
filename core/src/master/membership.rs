//! Hello, leaving, eviction: the connected peers.
//!
//! A newcomer becomes *registered*; a ballot decides whether it is admitted (`topology`). Every end of a membership
//! goes through [`Master::lose`], which removes the peer and withdraws its votes. Then the ballots are counted again.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::probes::Known;
use super::record::{GroupRecord, PeerRecord, Stake, Strikes};
use super::remembered::Remembered;
use super::tally::Tally;
use super::{Master, MasterOutput, Out, send};
use crate::id::{ConnId, GroupId, Identity, PeerId, ProtocolVersion};
use crate::messages::{Hello, Misdeed, Refusal, ToPeer};
use crate::states::{ConnectionPhase, ConnectionState};

impl Master {
    pub(super) fn hello(
        &mut self,
        conn: ConnId,
        hello: Hello,
        (from, identity): (IpAddr, Option<Identity>),
        out: &mut Out,
    ) {
        if let Some(reason) = self.objection(&hello) {
            out.push(MasterOutput::Refuse { conn, reason });
            return;
        }
        let peer = self.next_peer;
        self.next_peer = peer.next();
        let ip = rule!(hello.advertise.unwrap_or(from); AdvertisedIgnored => from).to_canonical();
        let record = PeerRecord {
            phase: ConnectionPhase::Registered,
            state: ConnectionState::Idle,
            group: hello.group,
            address: SocketAddr::new(ip, hello.port),
            identity,
            lanes: hello.lanes,
            site: hello.site,
            name: hello.name,
            tags: Default::default(),
            asked_pending: false,
            round: None,
            stake: Stake::Admission,
            rests: false,
            reached: false,
            missed: false,
            has_dialled: false,
            stuck: false,
            strikes: Strikes::default(),
            left_out: 0,
            passed: 0,
            synced: false,
            spared: false,
            aside: None,
            late: None,
            counted: None,
        };
        self.touched.insert(peer);
        self.peers.insert(peer, record);
        out.push(MasterOutput::Register { conn, peer });
        let heartbeat_ms = millis(self.config.heartbeat);
        let silence_ms = millis(self.config.silence);
        send(
            out,
            peer,
            ToPeer::Welcome {
                peer,
                heartbeat_ms,
                silence_ms,
            },
        );
    }

    fn objection(&self, hello: &Hello) -> Option<Refusal> {
        let peers_max = self.config.peers_max;
        if self.stopping {
            Some(Refusal::Stopping)
        } else if hello.protocol != ProtocolVersion::CURRENT {
            Some(Refusal::Version {
                master: ProtocolVersion::CURRENT,
            })
        } else if hello.port == 0 || hello.lanes == 0 || hello.site.is_found() {
            Some(Refusal::BadHello)
        } else if self.peers.len() >= peers_max as usize {
            Some(Refusal::RunFull { peers_max })
        } else {
            None
        }
    }

    pub(super) fn leave(&mut self, peer: PeerId, out: &mut Out) {
        out.push(MasterOutput::Close { peer });
        self.lose(peer, None, out);
    }

    /// Evicts a peer that broke a rule, and tells it which.
    pub(super) fn kick(&mut self, peer: PeerId, misdeed: Misdeed, out: &mut Out) {
        if !self.peers.contains_key(&peer) {
            return;
        }
        send(out, peer, ToPeer::Kicked(misdeed.clone()));
        out.push(MasterOutput::Close { peer });
        self.lose(peer, Some(misdeed), out);
    }

    /// Refuses a newcomer, and tells it why.
    pub(super) fn refuse(&mut self, peer: PeerId, reason: Refusal, out: &mut Out) {
        send(out, peer, ToPeer::Refused(reason));
        out.push(MasterOutput::Close { peer });
        self.lose(peer, None, out);
    }

    /// Removes a peer: its votes are withdrawn, and its running operations are aborted.
    pub(super) fn lose(&mut self, peer: PeerId, misdeed: Option<Misdeed>, out: &mut Out) {
        let Some(record) = self.peers.remove(&peer) else {
            return;
        };
        out.push(MasterOutput::Lost { peer, misdeed });
        self.touched.insert(peer);
        self.count_out(record.counted);
        rule!(self.known.forget_peer(peer); EdgesOfTheDeadKept => {});
        rule!(self.wirings_lose(peer, out); DeathMidWiringMissed => {});
        self.forget_failures(peer);
        if let Some(group) = self.group_mut(record.group) {
            group.members.remove(&peer);
        }
        self.regrouped.insert(record.group);
        self.optimization_loses(peer, out);
        self.group_loses(record.group, peer, out);
    }

    fn group_loses(&mut self, id: GroupId, peer: PeerId, out: &mut Out) {
        let is_empty = |group: &GroupRecord| group.members.is_empty();
        if self.groups.get(&id).is_none_or(is_empty) {
            rule!({}; RevisionDiesWithTheGroup => self.remembered.forget(id));
            // What it had reached stays remembered: whoever comes next goes on from there.
            if self.groups.remove(&id).is_some() && !self.groups.is_empty() {
                // For the groups that are left this is another world: another epoch when they are
                // told of it.
                self.epoch = rule!(self.epoch.next(); EmptyGroupKeepsEpoch => self.epoch);
            }
            return;
        }
        self.collectives_lose(id, peer, out);
        #[cfg(feature = "mutants")]
        if rule!(false; LossAbortsOtherGroups => true) {
            self.abort_elsewhere(id, peer, out);
        }
        self.sync_loses(id, peer, out);
        if let Some(group) = self.group_mut(id) {
            group.broken.retain(|(a, b)| *a != peer && *b != peer);
            group.aborted_for.retain(|(a, b)| *a != peer && *b != peer);
        }
    }

    /// Counts epochs from the first again.
    #[cfg(feature = "mutants")]
    pub(crate) fn forget_epochs(&mut self) {
        self.epoch = crate::id::Epoch(0);
    }

    pub(super) fn stop(&mut self, out: &mut Out) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        let everybody: Vec<PeerId> = self.peers.keys().copied().collect();
        for peer in everybody {
            send(out, peer, ToPeer::Stopping);
            out.push(MasterOutput::Close { peer });
        }
        self.rechecked.extend(self.peers.keys());
        self.peers.clear();
        self.groups.clear();
        self.tally = Tally::default();
        self.remembered = Remembered::default();
        self.wirings.clear();
        self.attempts.clear();
        self.failed.clear();
        self.departed.clear();
        self.admission_closed_at = None;
        self.optimization = None;
        self.known = Known::default();
        self.searches.clear();
        out.push(MasterOutput::Stopped);
    }
}

fn millis(duration: core::time::Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

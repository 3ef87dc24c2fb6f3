//! What must hold at every step of every run: the model's claims, and what only this world can see.

use std::collections::BTreeSet;

use pccl_core::id::{ConnId, PeerId, Tag};
use pccl_core::journal::Durable;
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput};
use pccl_core::messages::{CallKind, Misdeed, ToMaster, ToPeer};
use pccl_core::peer::{Answer, CallError, Peer, PeerConfig, PeerInput, PeerOutput};
use pccl_core::states::{ConnectionPhase, ConnectionState, Event};
use pccl_model::bystander::Bystander;

use crate::harness::{Holds, Run, Seat, SeatNo};
use crate::journal::Mortal;

/// The machines, before the eyes of a bystander, and what has happened so far.
#[derive(Clone)]
pub(crate) struct Watch {
    bystander: Bystander,
    mortal: Mortal,
    /// Transitions that were taken.
    pub(crate) taken: BTreeSet<(ConnectionState, Event)>,
    pub(crate) commits: u32,
    pub(crate) aborts: u32,
}

impl Watch {
    pub(crate) fn new(config: MasterConfig) -> Self {
        Self {
            mortal: Mortal::new(config.clone()),
            bystander: Bystander::new(config),
            taken: BTreeSet::new(),
            commits: 0,
            aborts: 0,
        }
    }

    pub(crate) fn master(&self) -> &Master {
        self.bystander.master()
    }

    /// The master, as a journal has it.
    pub(crate) const fn durable(&self) -> &Durable {
        self.mortal.durable()
    }

    pub(crate) fn peer(&self, no: SeatNo) -> &Peer {
        self.bystander.peer(no)
    }

    /// A process starts. Its connection has the number of its seat.
    pub(crate) fn starts(&mut self, config: PeerConfig) -> SeatNo {
        let no = self.bystander.starts(config);
        self.bystander.connects(ConnId(no as u64), no);
        no
    }

    /// A process has died, or hangs.
    pub(crate) fn falls_silent(&mut self, no: SeatNo) {
        self.bystander.falls_silent(no);
    }

    pub(crate) fn master_is_given(&mut self, input: MasterInput) -> Vec<MasterOutput> {
        let out = self.bystander.master_is_given(input.clone());
        self.mortal.follows(input.clone(), &out);
        self.no_claim_is_broken(&input);
        for output in &out {
            match output {
                MasterOutput::Moved { event, from, .. } => {
                    self.taken.insert((*from, *event));
                }
                MasterOutput::Send {
                    message: ToPeer::Kicked(misdeed),
                    ..
                } => check_kick(misdeed),
                _ => {}
            }
        }
        out
    }

    pub(crate) fn peer_is_given(&mut self, no: SeatNo, input: PeerInput) -> Vec<PeerOutput> {
        if let PeerInput::Message(ToPeer::SharedStatePlan(_)) = &input
            && self.peer(no).view().ended().is_none()
        {
            let waits = self.peer(no).view().open_calls().major;
            assert_eq!(waits, Some(CallKind::SyncSharedState), "seat {no}");
        }
        let out = self.bystander.peer_is_given(no, input.clone());
        self.no_claim_is_broken(&(no, input));
        out
    }

    fn no_claim_is_broken(&mut self, input: &dyn std::fmt::Debug) {
        let broken = self.bystander.broken();
        let sentences: Vec<&str> = broken.iter().map(|claim| claim.sentence()).collect();
        assert!(broken.is_empty(), "{sentences:#?} is broken by {input:?}");
    }

    /// Exactly-once and restoration.
    pub(crate) fn answered(&mut self, no: SeatNo, seat: &Seat, answer: &Answer) {
        let Answer::CollectiveEnded { tag, result } = answer else {
            return;
        };
        match result {
            Ok(committed) => {
                self.commits += 1;
                let mut contributors = committed.contributors.clone();
                contributors.sort();
                assert_eq!(
                    seat.buffer(*tag),
                    Holds::Sum(contributors),
                    "seat {no} {tag}"
                );
            }
            Err(CallError::Usage(_)) => {}
            Err(_) => {
                self.aborts += 1;
                assert_eq!(seat.buffer(*tag), Holds::Own, "seat {no} {tag}");
                assert_stopped(seat, *tag);
            }
        }
    }
}

/// What was answered as failed does not go on behind the user's back.
fn assert_stopped(seat: &Seat, tag: Tag) {
    assert!(
        !seat.runs_tag(tag),
        "the ring of {tag} goes on after its answer"
    );
}

pub(crate) fn accepted(master: &Master) -> BTreeSet<PeerId> {
    let peers = master.view().peers();
    let accepted = peers.filter(|(_, peer)| peer.phase() == ConnectionPhase::Accepted);
    accepted.map(|(id, _)| id).collect()
}

/// No ring is built under a peer that did not vote for it, so nobody is accepted without the vote of
/// everybody who is: who waits for others to make its call agrees, and so does who was admitted and has
/// voted for nothing since.
pub(crate) fn check_votes(run: &Run, accepted_before: &BTreeSet<PeerId>, out: &[MasterOutput]) {
    for output in out {
        let MasterOutput::Moved {
            peer,
            event: Event::RingHandedOut,
            ..
        } = output
        else {
            continue;
        };
        let was_asked = accepted_before.contains(peer);
        let no = run.seat_with(*peer).filter(|no| run.seats[*no].acts());
        let Some(no) = no.filter(|_| was_asked) else {
            continue;
        };
        let view = run.peer(no).view();
        let waits = view.open_calls().major.is_some() || view.tags().next().is_some();
        // A ring that was announced meanwhile has answered its first vote, which the master has yet to hear.
        let first_vote = |message: &ToMaster| matches!(message, ToMaster::UpdateTopology { .. });
        let has_not_heard = view.topology().is_none();
        let may_rest = view.rests()
            || has_not_heard
            || run.seats[no].connection.up.queue.iter().any(first_vote);
        assert!(waits || may_rest, "{peer} had no vote");
    }
}

/// All peers here keep to the protocol: they may be kicked for what befell them only.
fn check_kick(misdeed: &Misdeed) {
    match misdeed {
        Misdeed::StateMismatch { .. }
        | Misdeed::RevisionAhead { .. }
        | Misdeed::MissedBallot
        | Misdeed::Stalled
        | Misdeed::Cancels
        | Misdeed::Unconnectable { .. }
        | Misdeed::Unfetchable
        | Misdeed::TooManyTags { .. }
        | Misdeed::BadManifest
        | Misdeed::Silent => {}
        Misdeed::WrongState { .. }
        | Misdeed::NotAccepted
        | Misdeed::SecondHello
        | Misdeed::DuplicateVote
        | Misdeed::DuplicateTag { .. }
        | Misdeed::UnknownRound
        | Misdeed::UnaskedProbe
        | Misdeed::Malformed
        | Misdeed::SlowReader => panic!("an honest peer was kicked: {misdeed}"),
    }
}

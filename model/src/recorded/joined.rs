//! A recorded run as the watchers of the model see it.
//!
//! The machines are those of the product, made from the configurations in the logs and given what the
//! logs say. The rest is what a bystander writes down: which lanes are whose link, what runs, what was
//! called. What nobody records (bytes, memory) nobody can look at.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use pccl_core::id::{CallId, GroupId, Identity, PeerId, Round, Seq, Tag};
use pccl_core::log::Machine;
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput};
use pccl_core::peer::{Answer, Peer, PeerInput, PeerOutput};
use pccl_core::shared_state::SyncStrategy;
use pccl_core::topology::Topology;

use super::compare::Logs;
use super::join::Pair;
use super::order::Event;
use super::rule::{Finding, Rule};
use super::seat::Seat;
use super::visits::Visit;
use crate::claim::Claim;
use crate::contents::Compared;
use crate::milestone::Milestone;
use crate::state::Ghost;
use crate::watch::{self, Source, Standing};

/// A run that is gone through again.
pub(super) struct Joined<'a> {
    logs: &'a Logs,
    number: usize,
    master: Rc<Master>,
    pub(super) seats: Vec<Seat>,
    places: BTreeMap<PeerId, usize>,
    ghost: Ghost,
    /// In which round each was last told to connect links.
    orders: BTreeMap<PeerId, Round>,
    concluding: Option<Round>,
    /// What is gone through: the name of the log, and which record.
    at: (String, usize),
    /// The first place where a claim is broken, and how often it is.
    broken: BTreeMap<Claim, (String, usize, u64)>,
}

impl<'a> Joined<'a> {
    /// A run to which nothing has happened.
    pub(super) fn new(logs: &'a Logs, number: usize, pairs: &[Pair]) -> Self {
        let config = logs.masters[number].config.clone();
        let seats = pairs
            .iter()
            .map(|pair| Seat::new(&logs.peers[pair.peer], pair.visit));
        Self {
            logs,
            number,
            master: Rc::new(Master::begin(config)),
            seats: seats.collect(),
            places: BTreeMap::new(),
            ghost: Ghost::default(),
            orders: BTreeMap::new(),
            concluding: None,
            at: (String::new(), 0),
            broken: BTreeMap::new(),
        }
    }

    /// Goes through it in this order; what is broken on the way are findings.
    pub(super) fn go(mut self, pairs: &[Pair], order: &[Event], found: &mut Vec<Finding>) {
        for event in order {
            match event {
                Event::Master(at) => {
                    let log = &self.logs.masters[self.number];
                    self.at = (log.name.clone(), *at);
                    self.master_is_given(log.records[*at].input.clone());
                }
                Event::Peer(place, at) => {
                    let log = &self.logs.peers[pairs[*place].peer];
                    self.at = (log.name.clone(), *at);
                    self.peer_is_given(*place, log.records[*at].input.clone());
                }
            }
        }
        for (claim, (log, at, times)) in self.broken {
            let what = match times {
                1 => "it is broken here".to_owned(),
                times => format!("it is broken here for the first time, and {times} times in all"),
            };
            found.push(Finding {
                log,
                record: Some(at + 1),
                rule: Rule::Holds(claim),
                what,
            });
        }
    }

    fn master_is_given(&mut self, input: MasterInput) {
        if let MasterInput::Message { peer, message } = &input {
            watch::vote_arrives(self, *peer, message);
        }
        let before = Rc::clone(&self.master);
        let mut out = Vec::new();
        Rc::make_mut(&mut self.master).handle(input.clone(), &mut out);
        let after = Rc::clone(&self.master);
        for output in &out {
            if let MasterOutput::Register { peer, .. } = output {
                self.note_name(*peer);
            }
            watch::master_says(self, &before, &after, &input, output);
        }
        watch::master_keeps(self, &before, &after, &input, &out);
        self.note_orders(&out);
    }

    fn note_orders(&mut self, out: &[MasterOutput]) {
        for output in out {
            if let MasterOutput::Send { peer, message } = output
                && let Some(round) = watch::order_to_connect(message)
            {
                self.orders.insert(*peer, round);
            }
        }
    }

    fn note_name(&mut self, peer: PeerId) {
        let visits = &self.logs.visits[self.number];
        let visit = visits.iter().position(|visit| visit.peer == Some(peer));
        let place = self.seats.iter().position(|seat| Some(seat.visit) == visit);
        if let Some(place) = place {
            self.seats[place].id = Some(peer);
            self.places.insert(peer, place);
        }
    }

    fn peer_is_given(&mut self, place: usize, input: PeerInput) {
        if let PeerInput::Message(message) = &input {
            watch::before_message(self, place, message);
        }
        let seat = &mut self.seats[place];
        seat.notes_input(&input);
        let was_connected = seat.is_connected();
        let mut out = Vec::new();
        seat.peer.handle(input.clone(), &mut out);
        watch::peer_keeps(self, place, was_connected, &input, &out);
        for output in &out {
            self.peer_says(place, output);
        }
        self.seats[place].notes_end_of(&input);
    }

    fn peer_says(&mut self, place: usize, output: &PeerOutput) {
        match output {
            PeerOutput::Establish { links, .. } => {
                watch::ordered(self, links.iter().map(|order| order.lanes));
            }
            PeerOutput::MoveState { plan, .. } => watch::planned(self, plan),
            PeerOutput::Probe { probes, .. } => watch::ordered(self, probes.iter().copied()),
            PeerOutput::Answer { answer, .. } => {
                watch::is_restored(self, place, answer);
                if let Answer::Synchronized(Ok(synchronized)) = answer {
                    watch::holds_the_same(self, place, synchronized.revision);
                }
            }
            _ => {}
        }
        self.seats[place].notes_output(output);
        match output {
            PeerOutput::AdoptRing { .. } => {
                if let Some(me) = self.seats[place].peer.view().peer_id() {
                    watch::adopted(self, place, me);
                }
            }
            PeerOutput::RunRing { seq, .. } => watch::ring_runs(self, place, *seq),
            _ => {}
        }
    }

    fn visit_of(&self, peer: PeerId) -> Option<&Visit> {
        let mut visits = self.logs.visits[self.number].iter();
        visits.find(|visit| visit.peer == Some(peer))
    }
}

impl Source for Joined<'_> {
    type Place = usize;

    fn breaks(&mut self, claim: Claim) {
        let (log, at) = self.at.clone();
        let (_, _, times) = self.broken.entry(claim).or_insert((log, at, 0));
        *times += 1;
    }

    fn reach(&mut self, _: Milestone) {}

    fn ghost(&self) -> &Ghost {
        &self.ghost
    }

    fn edit_ghost(&mut self) -> &mut Ghost {
        &mut self.ghost
    }

    fn shock(&mut self) {}

    fn places(&self) -> Vec<usize> {
        (0..self.seats.len()).collect()
    }

    fn place_of(&self, peer: PeerId) -> Option<usize> {
        self.places.get(&peer).copied()
    }

    fn is_honest(&self, peer: PeerId) -> bool {
        self.places.contains_key(&peer)
    }

    fn is_known(&self, peer: PeerId) -> bool {
        self.master.view().peer(peer).is_some()
    }

    fn config(&self) -> MasterConfig {
        self.logs.masters[self.number].config.clone()
    }

    fn users_err(&self) -> bool {
        true
    }

    fn updates_are_many(&self) -> bool {
        true
    }

    fn identity_of(&self, peer: PeerId) -> Option<Identity> {
        self.visit_of(peer)?.identity
    }

    fn whereabouts(&self, peer: PeerId) -> Option<SocketAddr> {
        self.visit_of(peer).map(Visit::whereabouts)
    }

    fn lanes_wished(&self, peer: PeerId) -> Option<u16> {
        self.visit_of(peer).map(|visit| visit.hello.lanes)
    }

    fn has_been_heard_to_vote(&self, peer: PeerId) -> Option<bool> {
        // Peers go first: what one has said may not have arrived yet.
        let seat = &self.seats[self.place_of(peer)?];
        (!seat.has_voted).then_some(false)
    }

    fn order_sent_to(&self, peer: PeerId) -> Option<Round> {
        self.orders.get(&peer).copied()
    }

    fn anybody_dials(&self, _: Round, _: &dyn Fn(PeerId) -> bool) -> bool {
        // No log has what a driver is about to do.
        false
    }

    fn concluding(&self) -> Option<Round> {
        self.concluding
    }

    fn conclude(&mut self, round: Round) {
        self.concluding = Some(round);
    }

    fn id(&self, at: usize) -> Option<PeerId> {
        self.seats[at].id
    }

    fn group(&self, at: usize) -> GroupId {
        self.seats[at].group
    }

    fn peer(&self, at: usize) -> &Peer {
        &self.seats[at].peer
    }

    fn runs(&self, at: usize) -> bool {
        self.seats[at].runs()
    }

    fn topology(&self, at: usize) -> &Topology {
        &self.seats[at].topology
    }

    fn standing(&self, at: usize) -> Vec<Standing> {
        self.seats[at].standing().to_vec()
    }

    fn performs(&self, at: usize, seq: Seq) -> bool {
        self.seats[at].performs(seq)
    }

    fn runs_ring(&self, at: usize, tag: Tag) -> bool {
        self.seats[at].runs_ring(tag)
    }

    fn is_moving(&self, at: usize) -> bool {
        self.seats[at].is_moving()
    }

    fn strategy(&self, at: usize) -> Option<SyncStrategy> {
        self.seats[at].strategy
    }

    fn content(&self, at: usize) -> Compared {
        self.seats[at].content()
    }

    fn restarts(&self, at: usize) -> bool {
        self.seats[at].restarts
    }

    fn has_voted(&self, at: usize) -> bool {
        self.seats[at].has_voted
    }

    fn took_back(&self, at: usize) -> bool {
        self.seats[at].took_back
    }

    fn waits_for(&self, at: usize, call: CallId, answer: &Answer) -> bool {
        self.seats[at].waits_for(call, answer)
    }

    fn misuses(&self, _: usize) -> bool {
        true
    }
}

//! A run that is not the model's, held against the model's claims at each step.
//!
//! The bystander has the machines of the product. Whoever drives the run, a story that is told by hand or the
//! logs of real processes, gives each input to them here. The rest is what a bystander writes down: which
//! lanes are whose link, what runs, what was called. Bytes and memory it cannot see.

mod seat;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use pccl_core::id::{CallId, ConnId, GroupId, Identity, PeerId, Round, Seq, Tag};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput};
use pccl_core::messages::{Hello, ToMaster};
use pccl_core::peer::{Answer, Peer, PeerConfig, PeerInput, PeerOutput};
use pccl_core::shared_state::SyncStrategy;
use pccl_core::states::Event;
use pccl_core::topology::Topology;

use crate::claim::Claim;
use crate::contents::Compared;
use crate::milestone::Milestone;
use crate::run::is_vote;
use crate::state::Ghost;
use crate::watch::{self, Source, Standing};
use seat::Seat;

/// A master, its peers, and what has been seen of them.
#[derive(Clone)]
pub struct Bystander {
    config: MasterConfig,
    master: Rc<Master>,
    seats: Vec<Seat>,
    /// Which process has which connection.
    connections: BTreeMap<ConnId, usize>,
    places: BTreeMap<PeerId, usize>,
    guests: BTreeMap<PeerId, Guest>,
    ghost: Ghost,
    /// In which round each was last told to connect links.
    orders: BTreeMap<PeerId, Round>,
    concluding: Option<Round>,
    broken: Vec<Claim>,
}

/// What a peer said of itself when it connected, and where the master sees it.
#[derive(Clone)]
struct Guest {
    hello: Hello,
    from: IpAddr,
    identity: Option<Identity>,
}

impl Bystander {
    /// A master to which nothing has happened.
    #[must_use]
    pub fn new(config: MasterConfig) -> Self {
        Self {
            master: Rc::new(Master::new(config.clone())),
            config,
            seats: Vec::new(),
            connections: BTreeMap::new(),
            places: BTreeMap::new(),
            guests: BTreeMap::new(),
            ghost: Ghost::default(),
            orders: BTreeMap::new(),
            concluding: None,
            broken: Vec::new(),
        }
    }

    /// The master.
    #[must_use]
    pub fn master(&self) -> &Master {
        &self.master
    }

    /// The machine of a process.
    ///
    /// # Panics
    /// There is no such process.
    #[must_use]
    pub fn peer(&self, place: usize) -> &Peer {
        &self.seats[place].peer
    }

    /// A process starts; returns its place, counted from 0.
    pub fn starts(&mut self, config: PeerConfig) -> usize {
        self.seats.push(Seat::new(config));
        self.seats.len() - 1
    }

    /// The next hello over this connection is that of this process.
    pub fn connects(&mut self, conn: ConnId, place: usize) {
        self.connections.insert(conn, place);
    }

    /// Nothing more is heard of a process: it has died, it hangs, or its log ends.
    ///
    /// # Panics
    /// There is no such process.
    pub fn falls_silent(&mut self, place: usize) {
        self.seats[place].is_out = true;
    }

    /// The claims that were broken since this was asked last, in that order.
    pub fn broken(&mut self) -> Vec<Claim> {
        std::mem::take(&mut self.broken)
    }

    /// Gives the master an input; returns what is to be done.
    pub fn master_is_given(&mut self, input: MasterInput) -> Vec<MasterOutput> {
        if let MasterInput::Message { peer, message } = &input {
            watch::vote_arrives(self, *peer, message);
            self.note_vote(*peer, message);
        }
        let before = Rc::clone(&self.master);
        let mut out = Vec::new();
        Rc::make_mut(&mut self.master).handle(input.clone(), &mut out);
        let after = Rc::clone(&self.master);
        for output in &out {
            if let MasterOutput::Register { conn, peer } = output {
                self.note_name(&input, *conn, *peer);
            }
            if let MasterOutput::Moved {
                peer,
                event: Event::RingHandedOut,
                ..
            } = output
            {
                self.note_consent(*peer);
            }
            watch::master_says(self, &before, &after, &input, output);
        }
        watch::master_keeps(self, &before, &after, &input, &out);
        if !watch::late::means_nothing(&before, &input, &out, &after) {
            self.breaks(Claim::Unmoved);
        }
        self.note_orders(&out);
        out
    }

    fn note_vote(&mut self, peer: PeerId, message: &ToMaster) {
        if let Some(place) = self.place_of(peer) {
            self.seats[place].was_heard |= is_vote(message);
        }
    }

    /// A peer is handed another ring. One that the master has heard no vote of rests, as far as anybody can tell:
    /// the ring before may have answered its first vote on the way.
    fn note_consent(&mut self, peer: PeerId) {
        if let Some(place) = self.place_of(peer) {
            let agrees = watch::agrees(self, place);
            let seat = &mut self.seats[place];
            seat.has_agreed = agrees || !seat.was_heard;
        }
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

    fn note_name(&mut self, input: &MasterInput, conn: ConnId, peer: PeerId) {
        if let MasterInput::Connected {
            hello,
            from,
            identity,
            ..
        } = input
        {
            let guest = Guest {
                hello: hello.clone(),
                from: *from,
                identity: *identity,
            };
            self.guests.insert(peer, guest);
        }
        if let Some(place) = self.connections.remove(&conn) {
            self.seats[place].id = Some(peer);
            self.places.insert(peer, place);
        }
    }

    /// Gives the machine of a process an input; returns what is to be done.
    ///
    /// # Panics
    /// There is no such process.
    pub fn peer_is_given(&mut self, place: usize, input: PeerInput) -> Vec<PeerOutput> {
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
        out
    }

    fn peer_says(&mut self, place: usize, output: &PeerOutput) {
        match output {
            PeerOutput::Establish { links, .. } => {
                watch::ordered(self, links.iter().map(|order| order.lanes));
            }
            PeerOutput::MoveState { plan, .. } => watch::planned(self, plan),
            PeerOutput::Probe { probes, .. } => {
                watch::ordered(self, probes.iter().map(|order| order.lanes));
            }
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
            PeerOutput::RunPlan { seq, .. } => watch::plan_runs(self, place, *seq),
            _ => {}
        }
    }
}

impl Source for Bystander {
    type Place = usize;

    fn breaks(&mut self, claim: Claim) {
        self.broken.push(claim);
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
        self.config.clone()
    }

    fn users_err(&self) -> bool {
        true
    }

    fn updates_are_many(&self) -> bool {
        true
    }

    fn identity_of(&self, peer: PeerId) -> Option<Identity> {
        self.guests.get(&peer)?.identity
    }

    fn whereabouts(&self, peer: PeerId) -> Option<SocketAddr> {
        let Guest { hello, from, .. } = self.guests.get(&peer)?;
        let ip = hello.advertise.unwrap_or(*from).to_canonical();
        Some(SocketAddr::new(ip, hello.port))
    }

    fn lanes_wished(&self, peer: PeerId) -> Option<u16> {
        self.guests.get(&peer).map(|guest| guest.hello.lanes)
    }

    fn has_been_heard_to_vote(&self, peer: PeerId) -> Option<bool> {
        // What one has said may not have arrived yet.
        let seat = &self.seats[self.place_of(peer)?];
        (!seat.has_voted).then_some(false)
    }

    fn order_sent_to(&self, peer: PeerId) -> Option<Round> {
        self.orders.get(&peer).copied()
    }

    fn anybody_dials(&self, _: Round, _: &dyn Fn(PeerId) -> bool) -> bool {
        // Nobody tells what a driver is about to do.
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
        self.seats[at].standing.clone()
    }

    fn fresh(&self, at: usize) -> Vec<Standing> {
        self.seats[at].ordered.clone()
    }

    fn performs(&self, at: usize, seq: Seq) -> bool {
        self.seats[at].performs(seq)
    }

    fn runs_plan(&self, at: usize, tag: Tag) -> bool {
        self.seats[at].runs_plan(tag)
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

    fn has_agreed(&self, at: usize) -> bool {
        self.seats[at].has_agreed
    }

    fn waits_for(&self, at: usize, call: CallId, answer: &Answer) -> bool {
        self.seats[at].waits_for(call, answer)
    }

    fn misuses(&self, _: usize) -> bool {
        true
    }
}

//! One order of all that happened in a run.
//!
//! The logs have no common clock, and need none: what a machine heard was said before. Any order that
//! keeps this, and each log's own, is one in which the run can have happened. Peers go first wherever
//! they can: so one that has died has come to the end of its log before the master notices.

use std::collections::BTreeMap;

use super::compare::Logs;
use super::join::LogPair;
use super::rule::{Finding, Rule};
use super::visits::agreement;

/// A record of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Of the master.
    Master(usize),
    /// Of the peer in this pair.
    Peer(usize, usize),
}

/// How far a run has been ordered.
struct Progress<'a> {
    logs: &'a Logs,
    master: usize,
    pairs: &'a [LogPair],
    /// What a record of the master has to wait for: a pair, and a record of its peer.
    of_master: BTreeMap<usize, (usize, usize)>,
    /// By pair: what a record of its peer has to wait for.
    of_peers: Vec<BTreeMap<usize, usize>>,
    at_master: usize,
    at_peers: Vec<usize>,
    events: Vec<Event>,
}

/// Orders the records of a master and its peers. What contradicts itself is a finding, and the order ends
/// there.
pub(super) fn order(
    logs: &Logs,
    master: usize,
    pairs: &[LogPair],
    found: &mut Vec<Finding>,
) -> Vec<Event> {
    let mut progress = Progress::new(logs, master, pairs);
    while progress.advance() {}
    progress.report_what_is_left(found);
    progress.events
}

impl<'a> Progress<'a> {
    fn new(logs: &'a Logs, master: usize, pairs: &'a [LogPair]) -> Self {
        let mut of_master = BTreeMap::new();
        let mut of_peers = Vec::new();
        for (number, pair) in pairs.iter().enumerate() {
            let (visit, words) = (&logs.visits[master][pair.visit], &logs.words[pair.peer]);
            let (same, _) = agreement(&words.down, &visit.down);
            let heard = words.down.iter().zip(&visit.down).take(same);
            of_peers.push(heard.map(|((at, _), (said, _))| (*at, *said)).collect());
            let (same, _) = agreement(&visit.up, &words.up);
            let heard = visit.up.iter().zip(&words.up).take(same);
            of_master.extend(heard.map(|((at, _), (said, _))| (*at, (number, *said))));
        }
        Self {
            logs,
            master,
            pairs,
            of_master,
            of_peers,
            at_master: 0,
            at_peers: vec![0; pairs.len()],
            events: Vec::new(),
        }
    }

    /// Takes what can be taken from every log; says whether that was anything.
    fn advance(&mut self) -> bool {
        let before = self.events.len();
        for number in 0..self.pairs.len() {
            while self.peer_may_go_on(number) {
                self.events.push(Event::Peer(number, self.at_peers[number]));
                self.at_peers[number] += 1;
            }
        }
        if self.master_may_go_on() {
            self.events.push(Event::Master(self.at_master));
            self.at_master += 1;
        }
        self.events.len() > before
    }

    fn peer_may_go_on(&self, number: usize) -> bool {
        let at = self.at_peers[number];
        let said = self.of_peers[number].get(&at);
        at < self.length(number) && said.is_none_or(|said| *said < self.at_master)
    }

    fn master_may_go_on(&self) -> bool {
        let length = self.logs.masters[self.master].records.len();
        let said = self.of_master.get(&self.at_master);
        self.at_master < length && said.is_none_or(|(peer, said)| *said < self.at_peers[*peer])
    }

    fn length(&self, number: usize) -> usize {
        self.logs.peers[self.pairs[number].peer].records.len()
    }

    fn report_what_is_left(&self, found: &mut Vec<Finding>) {
        for (number, pair) in self.pairs.iter().enumerate() {
            let at = self.at_peers[number];
            if let (true, Some(said)) = (at < self.length(number), self.of_peers[number].get(&at)) {
                found.push(Finding {
                    log: self.logs.peers[pair.peer].name.clone(),
                    record: Some(at + 1),
                    rule: Rule::Order,
                    what: format!(
                        "it hears what {} says in record {}, which comes later, for that waits for this log",
                        self.logs.masters[self.master].name,
                        said + 1
                    ),
                });
            }
        }
    }
}

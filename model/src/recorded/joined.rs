//! A recorded run, gone through again before the bystander's eyes.
//!
//! The machines are those of the product, made from the configurations in the logs and given what the
//! logs say. What nobody records (bytes, memory) nobody can look at.

use std::collections::BTreeMap;

use pccl_core::master::MasterInput;

use super::compare::Logs;
use super::join::LogPair;
use super::order::Event;
use super::rule::{Finding, Rule};
use crate::bystander::Bystander;
use crate::claim::Claim;

/// A run that is gone through again.
pub(super) struct RunReplay<'a> {
    logs: &'a Logs,
    number: usize,
    pairs: &'a [LogPair],
    bystander: Bystander,
    /// How many connections have said hello.
    visits: usize,
    /// The first place where a claim is broken, and how often it is.
    broken: BTreeMap<Claim, (String, usize, u64)>,
}

impl<'a> RunReplay<'a> {
    /// A run to which nothing has happened.
    pub(super) fn new(logs: &'a Logs, number: usize, pairs: &'a [LogPair]) -> Self {
        let mut bystander = Bystander::new(logs.masters[number].config.clone());
        for pair in pairs {
            let log = &logs.peers[pair.peer];
            let place = bystander.starts(log.config.clone());
            if log.records.is_empty() {
                bystander.falls_silent(place);
            }
        }
        Self {
            logs,
            number,
            pairs,
            bystander,
            visits: 0,
            broken: BTreeMap::new(),
        }
    }

    /// Goes through it in this order; what is broken on the way are findings.
    pub(super) fn go(mut self, order: &[Event], found: &mut Vec<Finding>) {
        for event in order {
            match event {
                Event::Master(at) => self.master_goes_on(*at),
                Event::Peer(place, at) => self.peer_goes_on(*place, *at),
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

    fn master_goes_on(&mut self, at: usize) {
        let log = &self.logs.masters[self.number];
        let input = log.records[at].input.clone();
        if let MasterInput::Connected { conn, .. } = &input {
            let is_its = |pair: &LogPair| pair.visit == self.visits;
            if let Some(place) = self.pairs.iter().position(is_its) {
                self.bystander.connects(*conn, place);
            }
            self.visits += 1;
        }
        self.bystander.master_is_given(input);
        self.note_broken(&log.name, at);
    }

    fn peer_goes_on(&mut self, place: usize, at: usize) {
        let log = &self.logs.peers[self.pairs[place].peer];
        self.bystander
            .peer_is_given(place, log.records[at].input.clone());
        if at + 1 == log.records.len() {
            self.bystander.falls_silent(place);
        }
        self.note_broken(&log.name, at);
    }

    fn note_broken(&mut self, log: &str, at: usize) {
        for claim in self.bystander.broken() {
            let first = || (log.to_owned(), at, 0);
            let (_, _, times) = self.broken.entry(claim).or_insert_with(first);
            *times += 1;
        }
    }
}

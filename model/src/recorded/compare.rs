//! Both ends of a connection, held against each other; and whether logs are there, and whole.

use std::collections::BTreeMap;
use std::fmt::Debug;

use pccl_core::log::Machine;
use pccl_core::master::Master;
use pccl_core::messages::ToPeer;
use pccl_core::peer::{Peer, PeerInput, PeerTimer};

use super::join::LogPair;
use super::log::Logged;
use super::rule::{Finding, Rule};
use super::visits::{Said, Visit, Words};

/// All that was read, and what belongs together.
pub(super) struct Logs {
    pub(super) masters: Vec<Logged<Master>>,
    pub(super) visits: Vec<Vec<Visit>>,
    pub(super) peers: Vec<Logged<Peer>>,
    pub(super) words: Vec<Words>,
    pub(super) pairs: Vec<LogPair>,
}

/// What the comparison says.
#[derive(Default)]
pub(super) struct Comparison {
    pub(super) findings: Vec<Finding>,
    pub(super) notes: Vec<String>,
}

/// How one end of a connection compares to the other.
enum Difference {
    None,
    /// The one that was heard has more than the one that was said.
    Lacks(usize),
    /// This message is another one.
    At(usize),
}

fn difference<T: PartialEq>(heard: &[Said<T>], said: &[Said<T>]) -> Difference {
    let pairs = heard.iter().zip(said);
    let same = pairs.take_while(|((_, a), (_, b))| a == b).count();
    if same == heard.len() {
        Difference::None
    } else if same == said.len() {
        Difference::Lacks(heard.len() - same)
    } else {
        Difference::At(same)
    }
}

impl Logs {
    /// Holds every connection's ends against each other, and looks for what is missing.
    pub(super) fn compare(&self) -> Comparison {
        let mut comparison = Comparison::default();
        // Who is known to lack its last records: the masters first, then the peers.
        let mut cut_masters = BTreeMap::new();
        let mut cut_peers = BTreeMap::new();
        for pair in &self.pairs {
            if let Some(lacks) = self.downward(*pair, &mut comparison) {
                let words = format!("{} heard {}", self.peer(*pair).name, messages(lacks));
                cut_masters.entry(pair.master).or_insert(words);
            }
            if let Some(lacks) = self.upward(*pair, &mut comparison) {
                let words = format!("its master heard {}", messages(lacks));
                cut_peers.entry(pair.peer).or_insert(words);
            }
        }
        for master in 0..self.masters.len() {
            let cut = cut_masters.get(&master);
            self.is_master_whole(master, cut, &mut comparison);
            self.is_everybody_here(master, &mut comparison);
        }
        for peer in 0..self.peers.len() {
            self.is_peer_whole(peer, cut_peers.get(&peer), &mut comparison);
        }
        comparison
    }

    fn peer(&self, pair: LogPair) -> &Logged<Peer> {
        &self.peers[pair.peer]
    }

    fn visit(&self, pair: LogPair) -> &Visit {
        &self.visits[pair.master][pair.visit]
    }

    /// What the peer heard. Some: how many messages the master's log lacks at its end.
    fn downward(&self, pair: LogPair, comparison: &mut Comparison) -> Option<usize> {
        let (visit, heard) = (self.visit(pair), &self.words[pair.peer].down);
        let at = match difference(heard, &visit.down) {
            Difference::None => return None,
            Difference::Lacks(lacks) if !self.masters[pair.master].has_end() => return Some(lacks),
            Difference::Lacks(lacks) => heard.len() - lacks,
            Difference::At(at) => at,
        };
        // Who did not read has missed something, and hears no more than the reason.
        let is_last = at + 1 == heard.len();
        if visit.overflowed && is_last && matches!(heard[at].1, ToPeer::Kicked(_)) {
            return None;
        }
        let what = at_odds(
            &heard[at],
            visit.down.get(at),
            "it hears",
            "its master says",
        );
        comparison.findings.push(Finding {
            log: self.peer(pair).name.clone(),
            record: Some(heard[at].0 + 1),
            rule: Rule::Downward,
            what,
        });
        None
    }

    /// What the master heard. Some: how many messages the peer's log lacks at its end.
    fn upward(&self, pair: LogPair, comparison: &mut Comparison) -> Option<usize> {
        let (heard, said) = (&self.visit(pair).up, &self.words[pair.peer].up);
        let at = match difference(heard, said) {
            Difference::None => return None,
            Difference::Lacks(lacks) if !self.peer(pair).has_end() => return Some(lacks),
            Difference::Lacks(lacks) => heard.len() - lacks,
            Difference::At(at) => at,
        };
        let name = &self.peer(pair).name;
        let heard_words = format!("it hears from {name}");
        comparison.findings.push(Finding {
            log: self.masters[pair.master].name.clone(),
            record: Some(heard[at].0 + 1),
            rule: Rule::Upward,
            what: at_odds(&heard[at], said.get(at), &heard_words, "which says"),
        });
        None
    }

    fn pairs_of(&self, master: usize) -> impl Iterator<Item = LogPair> + '_ {
        let pairs = self.pairs.iter().copied();
        pairs.filter(move |pair| pair.master == master)
    }

    /// A master that was killed has no end either: its peers see it go.
    fn is_master_whole(&self, master: usize, cut: Option<&String>, comparison: &mut Comparison) {
        let log = &self.masters[master];
        if log.damage.is_some() || log.has_end() {
            return;
        }
        let rest = of_rest(log);
        if let Some(more) = cut {
            let what = format!("it has no end{rest}, and {more} that it does not have");
            return comparison.lacks(log, Rule::Whole, what);
        }
        let is_open = |pair: &LogPair| self.visit(*pair).gone.is_none();
        let mut open = self.pairs_of(master).filter(is_open);
        let stays = open.find(|pair| {
            let peer = self.peer(*pair);
            !peer.has_end() || lost_its_master(peer)
        });
        match stays {
            Some(pair) => comparison.notes.push(format!(
                "{} has no end{rest}: its process was killed or still ran, as {} shows",
                log.name,
                self.peer(pair).name
            )),
            None => {
                let what = format!(
                    "it has no end{rest}, and no log shows that its process was killed or still ran"
                );
                comparison.lacks(log, Rule::Whole, what);
            }
        }
    }

    fn is_everybody_here(&self, master: usize, comparison: &mut Comparison) {
        for (number, visit) in self.visits[master].iter().enumerate() {
            let mut pairs = self.pairs_of(master);
            let (Some(peer), false) = (visit.peer, pairs.any(|pair| pair.visit == number)) else {
                continue;
            };
            let door = visit.hello.port;
            let what = format!(
                "{peer} of {}, whose port was {door}, has no log",
                visit.hello.group
            );
            comparison.lacks(&self.masters[master], Rule::Everybody, what);
        }
    }

    fn is_peer_whole(&self, number: usize, cut: Option<&String>, comparison: &mut Comparison) {
        let log = &self.peers[number];
        let pair = self.pairs.iter().find(|pair| pair.peer == number);
        if pair.is_none() && self.words[number].welcome().is_some() {
            let what = "it was welcomed, and no log here is that of its master".to_owned();
            comparison.lacks(log, Rule::Master, what);
        } else if pair.is_none() {
            let name = &log.name;
            let note = format!("{name} was never welcomed: it is compared with nothing");
            comparison.notes.push(note);
        }
        if log.damage.is_some() || log.has_end() {
            return;
        }
        let rest = of_rest(log);
        if let Some(more) = cut {
            let what = format!("it has no end{rest}, and {more} that it does not have");
            return comparison.lacks(log, Rule::Whole, what);
        }
        let Some(pair) = pair else {
            return;
        };
        let master = &self.masters[pair.master];
        if let Some(gone) = self.visit(*pair).gone {
            comparison.notes.push(format!(
                "{} has no end{rest}: its process was killed, which {} saw in record {}",
                log.name,
                master.name,
                gone + 1
            ));
        } else if master.has_end() {
            let what = format!("it has no end{rest}, and its master did not see its process go");
            comparison.lacks(log, Rule::Whole, what);
        } else {
            comparison.notes.push(format!(
                "{} has no end{rest}, and neither has {}: they were killed or still ran",
                log.name, master.name
            ));
        }
    }
}

impl Comparison {
    fn lacks<M: Machine>(&mut self, log: &Logged<M>, rule: Rule, what: String) {
        self.findings.push(Finding {
            log: log.name.clone(),
            record: None,
            rule,
            what,
        });
    }
}

fn messages(count: usize) -> String {
    match count {
        1 => "a message".to_owned(),
        count => format!("{count} messages"),
    }
}

fn of_rest<M: Machine>(log: &Logged<M>) -> String {
    match log.torn {
        0 => String::new(),
        bytes => format!(" (but {bytes} bytes of one more record)"),
    }
}

/// Whether the peer's log shows that the master went without a word.
fn lost_its_master(log: &Logged<Peer>) -> bool {
    let silence = PeerInput::TimerFired(PeerTimer::MasterSilence);
    log.records
        .iter()
        .any(|record| record.input == PeerInput::MasterDisconnected || record.input == silence)
}

fn at_odds<T: Debug>(heard: &Said<T>, said: Option<&Said<T>>, hears: &str, says: &str) -> String {
    let (_, heard) = heard;
    match said {
        Some((_, said)) => format!("{hears} {heard:?}, where {says} {said:?}"),
        None => format!("{hears} {heard:?}, where {says} nothing more"),
    }
}

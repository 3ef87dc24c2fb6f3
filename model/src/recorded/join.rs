//! Which connection of which master is whose log.
//!
//! A peer's log names the number that its master gave it; but several runs may have been recorded into
//! one directory, numbers begin at one in each, and a peer that was lost before its welcome has none. So
//! the two ends are held against each other: tickets are random, and no two runs have the same. Where
//! several logs could be a connection's, the one that agrees with it for longest is.

use std::collections::BTreeSet;

use super::visits::{Visit, Words, agreement};

/// A connection: the master's number, the visit there, and the peer's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogPair {
    pub(super) master: usize,
    pub(super) visit: usize,
    pub(super) peer: usize,
}

/// A pair that may be one.
struct Candidate {
    pair: LogPair,
    /// Nothing speaks against it.
    agrees: bool,
    /// Messages that both ends have.
    same: usize,
}

/// Finds the pairs; each log and each connection is in one at most.
pub(super) fn pairs(masters: &[Vec<Visit>], peers: &[Words]) -> Vec<LogPair> {
    let mut candidates = Vec::new();
    for (master, visits) in masters.iter().enumerate() {
        for (visit, seen) in visits.iter().enumerate() {
            for (peer, words) in peers.iter().enumerate() {
                let pair = LogPair {
                    master,
                    visit,
                    peer,
                };
                candidates.extend(candidate(pair, seen, words));
            }
        }
    }
    candidates.sort_by_key(|one| {
        let LogPair {
            master,
            visit,
            peer,
        } = one.pair;
        (!one.agrees, usize::MAX - one.same, master, visit, peer)
    });
    let (mut visits, mut logs) = (BTreeSet::new(), BTreeSet::new());
    let mut pairs = Vec::new();
    for Candidate { pair, .. } in candidates {
        let seat = (pair.master, pair.visit);
        if !visits.contains(&seat) && !logs.contains(&pair.peer) {
            visits.insert(seat);
            logs.insert(pair.peer);
            pairs.push(pair);
        }
    }
    pairs
}

fn candidate(pair: LogPair, visit: &Visit, words: &Words) -> Option<Candidate> {
    if words.hello()? != &visit.hello {
        return None;
    }
    let (down, down_agrees) = agreement(&words.down, &visit.down);
    let (up, up_agrees) = agreement(&visit.up, &words.up);
    let agrees = down_agrees && up_agrees;
    // Who was welcomed is who it was welcomed as, also where its log says something else later.
    let may_be = match words.welcome() {
        Some(peer) => visit.peer == Some(peer),
        None => agrees,
    };
    let same = down + up;
    may_be.then_some(Candidate { pair, agrees, same })
}

#[cfg(test)]
mod tests {
    use pccl_core::id::{GroupId, PeerId, ProtocolVersion};
    use pccl_core::messages::{Hello, ToMaster, ToPeer};
    use pccl_core::site::SiteName;

    use super::*;

    fn hello(port: u16) -> Hello {
        Hello {
            protocol: ProtocolVersion::CURRENT,
            group: GroupId(0),
            port,
            advertise: None,
            lanes: 1,
            site: SiteName::NONE,
            name: Default::default(),
        }
    }

    fn welcome(peer: u64) -> ToPeer {
        ToPeer::Welcome {
            peer: PeerId(peer),
            heartbeat_ms: 1,
            silence_ms: 5,
        }
    }

    /// A connection over which the master said this after its welcome.
    fn visit(peer: u64, port: u16, more: &[ToPeer], heard: &[ToMaster]) -> Visit {
        let down = [welcome(peer)].into_iter().chain(more.to_vec());
        let up = [ToMaster::Hello(hello(port))]
            .into_iter()
            .chain(heard.to_vec());
        Visit {
            hello: hello(port),
            peer: Some(PeerId(peer)),
            down: down.enumerate().collect(),
            up: up.enumerate().collect(),
            gone: None,
            overflowed: false,
        }
    }

    fn log(port: u16, heard: &[ToPeer], more: &[ToMaster]) -> Words {
        let up = [ToMaster::Hello(hello(port))]
            .into_iter()
            .chain(more.to_vec());
        Words {
            down: heard.iter().cloned().enumerate().collect(),
            up: up.enumerate().collect(),
        }
    }

    fn found(masters: &[Vec<Visit>], peers: &[Words]) -> Vec<(usize, usize, usize)> {
        let mut found: Vec<_> = pairs(masters, peers)
            .iter()
            .map(|pair| (pair.master, pair.visit, pair.peer))
            .collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn two_peers_of_one_number_in_two_runs_are_told_apart_by_what_they_heard() {
        let pending = |pending| ToPeer::PeersPending { pending };
        let masters = [
            vec![visit(1, 7, &[pending(true)], &[])],
            vec![visit(1, 7, &[pending(false)], &[])],
        ];
        let peers = [
            log(7, &[welcome(1), pending(false)], &[]),
            log(7, &[welcome(1), pending(true)], &[]),
        ];

        assert_eq!(found(&masters, &peers), [(0, 0, 1), (1, 0, 0)]);
    }

    #[test]
    fn a_peer_that_left_before_its_welcome_is_found_by_its_hello_and_its_farewell() {
        let masters = [vec![
            visit(1, 7, &[], &[]),
            visit(2, 7, &[], &[ToMaster::Leave]),
        ]];
        let peers = [log(7, &[], &[ToMaster::Leave]), log(7, &[welcome(1)], &[])];

        assert_eq!(found(&masters, &peers), [(0, 0, 1), (0, 1, 0)]);
    }

    #[test]
    fn a_log_that_contradicts_its_master_is_still_the_log_of_that_peer() {
        let masters = [vec![visit(3, 7, &[ToPeer::Heartbeat], &[])]];
        let peers = [log(7, &[welcome(3), ToPeer::Stopping], &[])];

        assert_eq!(found(&masters, &peers), [(0, 0, 0)]);
    }

    #[test]
    fn nobody_is_taken_for_a_peer_of_another_number_or_with_another_door() {
        let masters = [vec![visit(3, 7, &[], &[])]];
        let peers = [log(7, &[welcome(4)], &[]), log(8, &[welcome(3)], &[])];

        assert_eq!(found(&masters, &peers), []);
    }
}

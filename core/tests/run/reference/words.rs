//! In which order peers are told things, and when their connections end.

use pccl_core::id::PeerId;
use pccl_core::master::{MasterInput, MasterOutput};
use pccl_core::messages::{ToMaster, ToPeer};

use super::Reference;

fn is_last_word(message: &ToPeer) -> bool {
    matches!(
        message,
        ToPeer::Kicked(_) | ToPeer::Refused(_) | ToPeer::Stopping
    )
}

/// Nothing follows a last word; a better ring is told before it is said that it was found.
pub(super) fn check_order(said: &[(PeerId, ToPeer)]) {
    for (at, (peer, message)) in said.iter().enumerate() {
        let mut later = said[at + 1..].iter().filter(|(whom, _)| whom == peer);
        if is_last_word(message) {
            assert_eq!(later.next(), None, "after the last word to {peer}");
        } else if let ToPeer::OptimizationConcluded { .. } = message {
            let ring = later.find(|(_, later)| matches!(later, ToPeer::TopologyEstablished { .. }));
            assert_eq!(ring, None, "the better ring comes too late for {peer}");
        }
    }
}

/// A connection is ended exactly where its peer has left or heard a last word; a stranger is either
/// registered or refused. The master says once that it has stopped.
pub(super) fn check_endings(before: &Reference, input: &MasterInput, out: &[MasterOutput]) {
    let (mut closed, mut ended, mut answers) = (Vec::new(), Vec::new(), 0);
    for output in out {
        match output {
            MasterOutput::Close { peer } => closed.push(*peer),
            MasterOutput::Send { peer, message } if is_last_word(message) => ended.push(*peer),
            MasterOutput::Register { .. } | MasterOutput::Refuse { .. } => answers += 1,
            _ => {}
        }
    }
    if let MasterInput::Message {
        peer,
        message: ToMaster::Leave,
    } = input
    {
        ended.extend(before.peers.contains_key(peer).then_some(*peer));
    }
    closed.sort();
    ended.sort();
    assert_eq!(closed, ended, "connections that end after {input:?}");
    let is_stranger = matches!(input, MasterInput::Connected { .. });
    assert_eq!(answers, u32::from(is_stranger), "answers to {input:?}");
    let stops = *input == MasterInput::Stop && !before.has_stopped;
    assert_eq!(out.contains(&MasterOutput::Stopped), stops, "{input:?}");
}

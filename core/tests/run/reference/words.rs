//! In which order peers are told things, and when their connections end.

use pccl_core::id::PeerId;
use pccl_core::master::{Master, MasterInput, MasterOutput};
use pccl_core::messages::{ToMaster, ToPeer};

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
            let ring = later.find(|(_, later)| matches!(later, ToPeer::TopologyEstablished(_)));
            assert_eq!(ring, None, "the better ring comes too late for {peer}");
        }
    }
}

/// A connection is ended exactly where its peer has left or heard a last word; a stranger is either
/// registered or refused.
pub(super) fn check_endings(input: &MasterInput, master: &Master, out: &[MasterOutput]) {
    let (mut closed, mut ended, mut answers) = (Vec::new(), Vec::new(), 0);
    for output in out {
        match output {
            MasterOutput::Close { peer } => closed.push(*peer),
            MasterOutput::Send { peer, message } if is_last_word(message) => ended.push(*peer),
            MasterOutput::Register { peer, .. } => {
                assert!(master.view().peer(*peer).is_some());
                answers += 1;
            }
            MasterOutput::Refuse { .. } => answers += 1,
            _ => {}
        }
    }
    if let MasterInput::Message {
        peer,
        message: ToMaster::Leave,
    } = input
    {
        let is_new = out.contains(&MasterOutput::Close { peer: *peer });
        ended.extend(is_new.then_some(*peer));
    }
    closed.sort();
    ended.sort();
    assert_eq!(closed, ended, "connections that end after {input:?}");
    let is_stranger = matches!(input, MasterInput::Connected { .. });
    assert_eq!(answers, u32::from(is_stranger), "answers to {input:?}");
}

//! What a journal keeps of a session, and which records have to be on the disk.

use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;

use super::*;
use crate::id::{ConnId, ProtocolVersion};
use crate::log::{Damage, Encoder, FORMAT, LogError, ReplayError, open_of, restore};
use crate::master::MasterConfig;
use crate::messages::{Hello, ToMaster};

const FROM: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn connected(conn: u64, identity: Option<Identity>) -> MasterInput {
    MasterInput::Connected {
        conn: ConnId(conn),
        hello: Hello {
            protocol: ProtocolVersion::CURRENT,
            group: GroupId(0),
            port: 1,
            advertise: None,
            lanes: 1,
            site: crate::site::SiteName::NONE,
            name: crate::name::PeerName::NONE,
        },
        from: FROM.into(),
        identity,
    }
}

const fn heartbeat(peer: u64) -> MasterInput {
    MasterInput::Message {
        peer: PeerId(peer),
        message: ToMaster::Heartbeat { moved: false },
    }
}

/// A journal of these inputs, and the outputs of each.
fn journal(inputs: &[MasterInput]) -> (Vec<u8>, Vec<Vec<MasterOutput>>) {
    let mut durable = Durable::new(Master::new(MasterConfig::default()));
    let mut encoder = Encoder::new(&durable).unwrap();
    let mut bytes = encoder.header().to_vec();
    let outputs = inputs.iter().map(|input| {
        let mut out = Vec::new();
        let record = encoder.step(&mut durable, input.clone(), &mut out);
        bytes.extend_from_slice(record.unwrap());
        out
    });
    let outputs = outputs.collect();
    (bytes, outputs)
}

fn restored(bytes: &[u8]) -> Durable {
    restore(bytes).unwrap().0
}

#[test]
fn a_session_outlives_the_process_with_what_was_heard_and_what_was_said() {
    let identity = Some(Identity([7; 32]));
    let inputs = [connected(1, identity), heartbeat(1), heartbeat(1)];
    let (bytes, outputs) = journal(&inputs);

    let durable = restored(&bytes);

    let session = &durable.sessions[&PeerId(1)];
    let said = outputs.iter().flatten().filter_map(|output| match output {
        MasterOutput::Send { message, .. } => Some(message),
        _ => None,
    });
    assert_eq!((session.identity, session.heard), (identity, 3));
    assert!(session.is_admitted, "a peer alone is admitted at once");
    assert_eq!(session.sent.sent(), 2);
    assert!(session.sent.iter().eq(said));
    let silence = MasterConfig::default().silence;
    let timers = &durable.pending.timers;
    assert_eq!(timers[&MasterTimer::Silence(PeerId(1))], silence);
    assert!(timers.contains_key(&MasterTimer::HeartbeatDue));
}

#[test]
fn a_peer_that_is_gone_leaves_no_session_and_no_timer() {
    let gone = MasterInput::Disconnected { peer: PeerId(1) };
    let (bytes, _) = journal(&[connected(1, None), gone]);

    let durable = restored(&bytes);

    assert!(durable.sessions.is_empty());
    let silence = MasterTimer::Silence(PeerId(1));
    assert!(!durable.pending.timers.contains_key(&silence));
}

#[test]
fn a_timer_that_has_fired_does_not_run_after_a_restart() {
    let mut pending = Pending::default();
    let timer = MasterTimer::HeartbeatDue;
    let after = Duration::from_secs(1);
    pending.said(&MasterOutput::StartTimer { timer, after });
    let running = pending.clone();

    pending.heard(&MasterInput::TimerFired(timer));

    assert_eq!(running.timers[&timer], after);
    assert!(pending.timers.is_empty());
}

#[test]
fn a_journal_of_another_build_and_a_log_of_another_machine_are_refused() {
    let (mut bytes, _) = journal(&[connected(1, None)]);
    let log = Encoder::<Master>::new(&MasterConfig::default()).unwrap();
    let damage = |error: LogError| error.damage;
    let refused = |bytes: &[u8]| open_of::<Durable>(bytes).map(|_| ()).map_err(damage);
    assert_eq!(refused(log.header()), Err(Damage::Undecodable));

    bytes[8] = bytes[8].wrapping_add(1);

    let found = FORMAT + 1;
    assert_eq!(refused(&bytes), Err(Damage::OtherFormat { found }));
}

#[test]
fn a_journal_from_which_a_record_is_missing_is_never_replayed_past_the_gap() {
    let inputs = [connected(1, None), heartbeat(1), heartbeat(1)];
    let (bytes, _) = journal(&inputs);
    let ends: Vec<usize> = (0..=3).map(|n| journal(&inputs[..n]).0.len()).collect();
    let gap = [&bytes[..ends[1]], &bytes[ends[2]..]].concat();

    let error = restore::<Durable>(&gap).unwrap_err();

    let ReplayError::Log(LogError { record, damage, .. }) = error else {
        panic!("{error}");
    };
    assert_eq!((record, damage), (2, Damage::BadChecksum));
}

#[test]
fn results_wait_for_the_disk_and_votes_do_not() {
    let (_, outputs) = journal(&[connected(1, None), heartbeat(1)]);

    assert_eq!(OnDisk::of(&outputs[0]), OnDisk::Before);
    assert_eq!(OnDisk::of(&outputs[1]), OnDisk::Later);
}

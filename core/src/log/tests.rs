//! What is recorded is replayed; what was changed is found.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use crate::id::{CallId, ConnId, GroupId, PeerId, ProtocolVersion, Tag};
use crate::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use crate::messages::{Hello, PlanOutcome, ToMaster};
use crate::peer::{Call, Peer, PeerConfig, PeerInput, PeerOutput, PeerTimer};
use crate::site::SiteName;
use crate::ticket::TicketMint;

/// A machine and its log.
struct Recorded<M> {
    machine: M,
    encoder: Encoder<M>,
    log: Vec<u8>,
    /// Where each record ends, the header first.
    ends: Vec<usize>,
}

impl<M: Machine<Config: Clone>> Recorded<M> {
    fn new(config: &M::Config) -> Self {
        let encoder = Encoder::new(config).unwrap();
        let log = encoder.header().to_vec();
        Self {
            machine: M::begin(config.clone()),
            ends: vec![log.len()],
            log,
            encoder,
        }
    }

    fn handle(&mut self, input: M::Input) -> Vec<M::Output> {
        let mut out = Vec::new();
        let step = self.encoder.step(&mut self.machine, input, &mut out);
        self.log.extend_from_slice(step.unwrap());
        self.ends.push(self.log.len());
        out
    }
}

const PEER: PeerConfig = PeerConfig {
    group: GroupId(3),
    port: 48149,
    advertise: None,
    lanes: 4,
    site: SiteName::NONE,
    name: crate::name::PeerName::NONE,
    collectives_max: 16,
};

const SPEC: CollectiveSpec = CollectiveSpec {
    kind: CollectiveKind::AllReduce,
    op: ReduceOp::Sum,
    element: ElementType::F32,
    count: 1000,
    quantization: Quantization::None,
    algorithm: None,
    ordered: false,
};

fn called(call: u64, what: Call) -> PeerInput {
    let call = CallId(call);
    PeerInput::Call { call, what }
}

/// One peer joins, reduces alone, and leaves.
fn short_run() -> (Recorded<Master>, Recorded<Peer>) {
    let config = MasterConfig {
        tickets: TicketMint { key: [9; 16] },
        ..MasterConfig::default()
    };
    let (mut master, mut peer) = (Recorded::new(&config), Recorded::new(&PEER));
    let reduce = Call::Initiate {
        tag: Tag(7),
        spec: SPEC,
    };
    let inputs = [
        called(1, Call::Connect),
        PeerInput::TimerFired(PeerTimer::HeartbeatDue),
        called(2, Call::UpdateTopology),
        called(3, Call::UpdateTopology),
        called(4, reduce),
        PeerInput::Leave,
    ];
    for input in inputs {
        play(&mut master, &mut peer, input);
    }
    let timer = MasterTimer::HeartbeatDue;
    master.handle(MasterInput::TimerFired(timer));
    master.handle(MasterInput::Stop);
    (master, peer)
}

/// Gives the peer an input and carries out what it and the master say, until both are silent.
fn play(master: &mut Recorded<Master>, peer: &mut Recorded<Peer>, input: PeerInput) {
    let mut inputs = vec![input];
    while !inputs.is_empty() {
        for output in peer.handle(inputs.remove(0)) {
            if let PeerOutput::Send(message) = output {
                for said in master.handle(heard(message)) {
                    if let MasterOutput::Send { message, .. } = said {
                        inputs.push(PeerInput::Message(message));
                    }
                }
            } else if let PeerOutput::RunPlan { seq, .. } = output {
                let outcome = PlanOutcome::Done;
                inputs.push(PeerInput::PlanEnded { seq, outcome });
            }
        }
    }
}

fn heard(message: ToMaster) -> MasterInput {
    match message {
        ToMaster::Hello(hello) => MasterInput::Connected {
            conn: ConnId(0),
            hello,
            from: Ipv4Addr::LOCALHOST.into(),
            identity: None,
        },
        message => MasterInput::Message {
            peer: PeerId(1),
            message,
        },
    }
}

fn damage_of(log: &[u8]) -> Option<Damage> {
    match replay(log) {
        Err(ReplayError::Log(error)) => Some(error.damage),
        Ok(_) | Err(ReplayError::Difference(_)) => None,
    }
}

#[test]
fn both_machines_say_again_what_they_said() {
    let (master, peer) = short_run();

    let (master_replayed, peer_replayed) = (replay(&master.log), replay(&peer.log));

    let (of_master, of_peer) = (master_replayed.unwrap(), peer_replayed.unwrap());
    assert_eq!(of_master.machine, "master");
    assert_eq!(of_peer.machine, "peer");
    assert_eq!(of_peer.records as usize, peer.ends.len() - 1);
    assert!(
        of_master.records >= 6 && of_master.outputs > 10,
        "{of_master:?}"
    );
    assert!(of_peer.records >= 10 && of_peer.outputs > 10, "{of_peer:?}");
    assert_eq!((of_master.torn, of_peer.torn), (0, 0));
}

#[test]
fn a_log_gives_back_the_configuration_and_every_record() {
    let (_, peer) = short_run();

    let Ok(Log::Peer { config, records }) = open(&peer.log) else {
        panic!("not the log of a peer")
    };

    assert_eq!(config, PEER);
    let records: Result<Vec<_>, _> = records.collect();
    let records = records.unwrap();
    assert_eq!(records[0].input, called(1, Call::Connect));
    assert!(matches!(
        records[0].outputs[0],
        PeerOutput::Send(ToMaster::Hello(_))
    ));
}

#[test]
fn every_changed_byte_of_a_log_is_found() {
    let (master, peer) = short_run();
    for log in [master.log, peer.log] {
        for at in 0..log.len() {
            for flip in [1, 0x80, 0xff] {
                let mut changed = log.clone();
                changed[at] ^= flip;

                let damage = damage_of(&changed);

                assert!(damage.is_some(), "byte {at} ^ {flip:#x} went unnoticed");
            }
        }
    }
}

#[test]
fn a_log_may_end_anywhere_after_its_header_and_counts_what_is_whole() {
    let (_, peer) = short_run();
    let header = peer.ends[0];
    for end in 0..=peer.log.len() {
        let replayed = replay(&peer.log[..end]);

        if end < header {
            assert!(replayed.is_err(), "a header of {end} bytes was taken");
        } else {
            let whole = peer.ends.iter().rposition(|at| *at <= end).unwrap();
            let replayed = replayed.unwrap();
            assert_eq!(replayed.records, whole as u64, "cut at byte {end}");
            assert_eq!(replayed.torn, end - peer.ends[whole]);
        }
    }
}

#[test]
fn a_changed_length_is_no_record_that_was_cut_short() {
    let (_, peer) = short_run();
    let last = peer.ends[peer.ends.len() - 2];
    let mut changed = peer.log.clone();
    changed[last + 2] = 0xff;

    assert_eq!(damage_of(&changed), Some(Damage::BadLength));
}

#[test]
fn a_length_that_nobody_writes_is_refused() {
    let (_, mut peer) = short_run();
    let length = u32::try_from(BODY_MAX).unwrap() + 1;
    peer.log.extend(length.to_le_bytes());
    peer.log.extend((!length).to_le_bytes());

    let length = BODY_MAX + 1;
    assert_eq!(damage_of(&peer.log), Some(Damage::TooLong { length }));
}

#[test]
fn a_record_may_be_as_long_as_a_plan_for_everybody_and_no_longer() {
    let (_, peer) = short_run();
    let with_head = |length: u32| {
        let head = [length.to_le_bytes(), (!length).to_le_bytes()].concat();
        [peer.log.clone(), head].concat()
    };
    let longest = 256 << 20;

    let taken = damage_of(&with_head(longest));
    let refused = damage_of(&with_head(longest + 1));

    assert_eq!(taken, None, "its body is still to come");
    assert!(matches!(refused, Some(Damage::TooLong { .. })));
}

#[test]
fn records_that_are_missing_doubled_or_exchanged_are_found() {
    let (_, peer) = short_run();
    let record = |n: usize| &peer.log[peer.ends[n - 1]..peer.ends[n]];
    let header = &peer.log[..peer.ends[0]];
    let without_the_second = [header, record(1), record(3)].concat();
    let doubled = [header, record(1), record(1)].concat();
    let exchanged = [header, record(2), record(1)].concat();

    for log in [without_the_second, doubled, exchanged] {
        assert_eq!(damage_of(&log), Some(Damage::BadChecksum));
    }
}

#[test]
fn a_record_of_another_run_is_found() {
    let (_, peer) = short_run();
    let other = PeerConfig {
        port: 48150,
        ..PEER
    };
    let other = Recorded::<Peer>::new(&other);
    let grafted = [&other.log[..], &peer.log[peer.ends[0]..]].concat();

    assert_eq!(damage_of(&grafted), Some(Damage::BadChecksum));
}

#[test]
fn damage_is_told_with_its_record_and_offset() {
    let (_, peer) = short_run();
    let mut changed = peer.log.clone();
    changed[peer.ends[1] + HEAD_BYTES] ^= 1;

    let error = replay(&changed).unwrap_err();

    let at = peer.ends[1];
    assert!(
        error
            .to_string()
            .starts_with(&alloc::format!("record 2 at byte {at}: ")),
        "{error}"
    );
}

#[test]
fn other_files_formats_and_protocols_are_told_apart() {
    let (_, peer) = short_run();
    let with = |at: usize, byte: u8| {
        let mut log = peer.log.clone();
        log[at] = byte;
        damage_of(&log)
    };

    assert_eq!(damage_of(b"not a log at all"), Some(Damage::NotALog));
    assert_eq!(damage_of(b""), Some(Damage::CutHeader));
    assert_eq!(with(0, b'p'), Some(Damage::NotALog));
    assert_eq!(with(8, 77), Some(Damage::OtherFormat { found: 77 }));
    assert_eq!(with(10, 77), Some(Damage::OtherProtocol { found: 77 }));
}

#[test]
fn secrets_do_not_appear_when_a_log_is_printed() {
    let (master, _) = short_run();

    let printed = alloc::format!("{:?} {:?}", master.encoder, open(&master.log).unwrap());

    assert!(printed.contains("TicketMint(hidden)"), "{printed}");
    assert!(!printed.contains("9, 9"), "{printed}");
}

/// Says the opposite of what the master says.
#[derive(Clone)]
struct Liar(Master);

impl Machine for Liar {
    type Config = MasterConfig;
    type Input = MasterInput;
    type Output = MasterOutput;

    const NAME: &'static str = "liar";
    const KIND: u8 = Master::KIND;

    fn begin(config: MasterConfig) -> Self {
        Self(Master::new(config))
    }

    fn step(&mut self, input: MasterInput, out: &mut Vec<MasterOutput>) {
        self.0.handle(input, out);
        for output in out {
            if let MasterOutput::Register { peer, .. } = output {
                *peer = PeerId(99);
            }
        }
    }
}

#[test]
fn a_machine_that_says_something_else_is_told_with_input_logged_and_replayed() {
    let mut liar = Recorded::<Liar>::new(&MasterConfig::default());
    liar.handle(MasterInput::TimerFired(MasterTimer::Late(PeerId(1))));
    let hello = Hello {
        protocol: ProtocolVersion::CURRENT,
        group: GroupId(0),
        port: 1,
        advertise: None,
        lanes: 1,
        site: SiteName::NONE,
        name: Default::default(),
    };
    liar.handle(heard(ToMaster::Hello(hello)));

    let Err(ReplayError::Difference(difference)) = replay(&liar.log) else {
        panic!("the lie was believed")
    };

    assert_eq!((difference.record, difference.output), (2, 1));
    assert!(difference.input.starts_with("Connected"));
    assert!(difference.logged.unwrap().contains("PeerId(99)"));
    assert!(difference.replayed.unwrap().contains("PeerId(1)"));
}

#[test]
fn an_output_that_is_missing_in_the_log_is_a_difference() {
    let (config, mut log) = (MasterConfig::default(), Vec::new());
    let encoder = Encoder::<Master>::new(&config).unwrap();
    log.extend_from_slice(encoder.header());
    let mut mute = Encoder::<Mute>::new(&config).unwrap();
    let step = mute.step(&mut Mute, MasterInput::Stop, &mut Vec::new());
    log.extend_from_slice(step.unwrap());

    let Err(ReplayError::Difference(difference)) = replay(&log) else {
        panic!("the silence went unnoticed")
    };

    assert_eq!((difference.record, difference.output), (1, 1));
    assert_eq!(difference.logged, None);
}

/// Says nothing.
#[derive(Clone)]
struct Mute;

impl Machine for Mute {
    type Config = MasterConfig;
    type Input = MasterInput;
    type Output = MasterOutput;

    const NAME: &'static str = "mute";
    const KIND: u8 = Master::KIND;

    fn begin(_: MasterConfig) -> Self {
        Self
    }

    fn step(&mut self, _: MasterInput, _: &mut Vec<MasterOutput>) {}
}

#[test]
fn what_stood_in_the_output_list_before_is_no_part_of_the_record() {
    let mut encoder = Encoder::<Master>::new(&MasterConfig::default()).unwrap();
    let mut log = encoder.header().to_vec();
    let mut master = Master::new(MasterConfig::default());
    let mut out = vec![MasterOutput::Stopped];

    let step = encoder.step(&mut master, MasterInput::Stop, &mut out);

    log.extend_from_slice(step.unwrap());
    assert_eq!(out.len() - 1, replay(&log).unwrap().outputs as usize);
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn no_bytes_panic_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (_, peer) = short_run();
        let header = &peer.log[..peer.ends[0]];

        prop_assert!(replay(&bytes).is_err());
        let _ = replay(&[header, &bytes[..]].concat());
    }

    /// Frames that are in order but say anything.
    #[test]
    fn no_body_panics_the_reader(kind in 0..3_u8, bodies in proptest::collection::vec(
        proptest::collection::vec(any::<u8>(), 0..60), 1..4
    )) {
        let mut log = [&MAGIC[..], &FORMAT.to_le_bytes()].concat();
        log.extend(ProtocolVersion::CURRENT.0.to_le_bytes());
        let mut hash = 0;
        for (n, body) in bodies.iter().enumerate() {
            let body = if n == 0 { [&[kind], &body[..]].concat() } else { body.clone() };
            let length = u32::try_from(body.len()).unwrap();
            let mut head = [0; HEAD_BYTES];
            head[..4].copy_from_slice(&length.to_le_bytes());
            head[4..].copy_from_slice(&(!length).to_le_bytes());
            hash = chain(hash, head, &body);
            log.extend(head);
            log.extend(body);
            log.extend(hash.to_le_bytes());
        }

        let _ = replay(&log);
    }
}

//! What recording costs: `cargo run --release -p pccl-recording --example overhead`.
//!
//! One master hears a peer reduce again and again: as it is, behind a [`Recorded`] without a log, and
//! behind one with a log in a directory for temporary files. All take turns, and the fastest turn
//! of each counts.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{ConnId, Epoch, GroupId, PeerId, ProtocolVersion, Seq, Tag};
use pccl_core::log::Machine;
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput};
use pccl_core::messages::{Hello, PlanOutcome, ToMaster};
use pccl_core::site::SiteName;
use pccl_core::topology::BrokenLinks;
use pccl_recording::Recorded;

const TURNS: usize = 500;

/// Reduces in one turn. Each is two inputs.
const REDUCES: u64 = 500;

fn main() {
    let here = std::env::temp_dir().join(format!("pccl-overhead-{}", std::process::id()));
    let mut fastest = [Duration::MAX; 3];
    for _ in 0..TURNS {
        let mut plain = Master::begin(MasterConfig::default());
        let turns = [
            turn(|input, out| plain.handle(input, out)),
            turn_recorded(None),
            turn_recorded(Some(&here)),
        ];
        fastest = std::array::from_fn(|way| fastest[way].min(turns[way]));
        fs::remove_dir_all(&here).ok();
    }
    let floor = fastest[0].as_secs_f64();
    let steps = (2 * REDUCES) as f64;
    println!("{:34} {:>9}  {:>6}", "the master", "ns/step", "ratio");
    for (name, took) in ["as it is", "recorded nowhere", "recorded"]
        .iter()
        .zip(fastest)
    {
        let took = took.as_secs_f64();
        println!("{name:34} {:9.0}  {:6.3}", took / steps * 1e9, took / floor);
    }
}

fn turn_recorded(directory: Option<&Path>) -> Duration {
    let mut master = Recorded::<Master>::begin(MasterConfig::default(), directory);
    let took = turn(|input, out| master.handle(input, out));
    assert_eq!(
        master.is_recording(),
        directory.is_some(),
        "nothing was written"
    );
    took
}

/// Lets one peer join and reduce.
fn turn(mut handle: impl FnMut(MasterInput, &mut Vec<MasterOutput>)) -> Duration {
    let mut out = Vec::new();
    handle(joins(), &mut out);
    let begun = Instant::now();
    for reduce in 1..=REDUCES {
        let spec = CollectiveSpec {
            kind: CollectiveKind::AllReduce,
            op: ReduceOp::Sum,
            element: ElementType::F32,
            count: 1000,
            quantization: Quantization::None,
            algorithm: None,
            ordered: false,
        };
        let broken = BrokenLinks::NONE;
        let (tag, seq, outcome) = (Tag(0), Seq(reduce), PlanOutcome::Done);
        let starts = ToMaster::InitiateCollective {
            tag,
            spec,
            epoch: Epoch(0),
            broken: broken.clone(),
        };
        let ends = ToMaster::CompleteCollective {
            seq,
            outcome,
            broken,
        };
        for message in [starts, ends] {
            let peer = PeerId(1);
            out.clear();
            handle(MasterInput::Message { peer, message }, &mut out);
        }
    }
    let took = begun.elapsed();
    let decided = |output: &MasterOutput| matches!(output, MasterOutput::Send { .. });
    assert!(out.iter().any(decided), "the last reduce was not decided");
    took
}

fn joins() -> MasterInput {
    let hello = Hello {
        protocol: ProtocolVersion::CURRENT,
        group: GroupId(0),
        port: 48149,
        advertise: None,
        lanes: 1,
        site: SiteName::NONE,
        name: Default::default(),
    };
    MasterInput::Connected {
        conn: ConnId(0),
        hello,
        from: [127, 0, 0, 1].into(),
        identity: None,
    }
}

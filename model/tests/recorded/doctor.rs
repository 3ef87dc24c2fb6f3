//! Logs that are changed on purpose. What is changed is an input, and the machine answers it: so each log
//! by itself is that of a sound machine.

use pccl_core::log::{Log, Machine, Record, RecordOf, open};
use pccl_core::master::{Master, MasterConfig, MasterInput};
use pccl_core::peer::{Peer, PeerConfig, PeerInput};

use crate::run::{Files, Recorded};

/// The records of a peer's log.
pub(crate) fn peer(log: &[u8]) -> (PeerConfig, Vec<RecordOf<Peer>>) {
    let Ok(Log::Peer { config, records }) = open(log) else {
        panic!("not the log of a peer")
    };
    (config, records.map(Result::unwrap).collect())
}

/// The records of a master's log.
pub(crate) fn master(log: &[u8]) -> (MasterConfig, Vec<RecordOf<Master>>) {
    let Ok(Log::Master { config, records }) = open(log) else {
        panic!("not the log of a master")
    };
    (config, records.map(Result::unwrap).collect())
}

fn written<M: Machine<Config: Clone>>(config: &M::Config, inputs: Vec<M::Input>) -> Vec<u8> {
    let mut again = Recorded::<M>::new(config);
    for input in inputs {
        again.give(input);
    }
    again.log
}

fn inputs_of<I, O>(records: Vec<Record<I, O>>) -> Vec<I> {
    records.into_iter().map(|record| record.input).collect()
}

/// The same peer with other inputs.
pub(crate) fn change_peer(files: &mut Files, name: &str, change: impl FnOnce(&mut Vec<PeerInput>)) {
    let log = files.get_mut(name).unwrap();
    let (config, records) = peer(log);
    let mut inputs = inputs_of(records);
    change(&mut inputs);
    *log = written::<Peer>(&config, inputs);
}

/// The same master with other inputs.
pub(crate) fn change_master(files: &mut Files, change: impl FnOnce(&mut Vec<MasterInput>)) {
    let log = files.get_mut("master").unwrap();
    let (config, records) = master(log);
    let mut inputs = inputs_of(records);
    change(&mut inputs);
    *log = written::<Master>(&config, inputs);
}

/// The end of a log is missing: so many records. Of the last of them this many bytes are there.
pub(crate) fn cut(files: &mut Files, name: &str, records: usize, rest: usize) {
    let log = files.get_mut(name).unwrap();
    let wanted = readable(log).unwrap() - records;
    let (mut low, mut high) = (0, log.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        if readable(&log[..middle]).is_some_and(|count| count >= wanted) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    log.truncate(low + rest);
}

/// How many whole records there are; `None`: not even a header.
fn readable(log: &[u8]) -> Option<usize> {
    match open(log) {
        Ok(Log::Peer { records, .. }) => Some(records.count()),
        Ok(Log::Master { records, .. }) => Some(records.count()),
        Err(_) => None,
    }
}

//! Reading logs as far as they are sound.

use pccl_core::log::{Log, LogError, Machine, RecordOf, Records, open};
use pccl_core::master::{Master, MasterOutput};
use pccl_core::peer::{Peer, PeerOutput};

/// The log of one machine, read.
pub(super) struct Logged<M: Machine> {
    pub(super) name: String,
    pub(super) config: M::Config,
    pub(super) records: Vec<RecordOf<M>>,
    /// Bytes of a last record that is not whole.
    pub(super) torn: usize,
    /// Why it could not be read further.
    pub(super) damage: Option<LogError>,
}

/// What a file is.
pub(super) enum Read {
    Master(Logged<Master>),
    Peer(Logged<Peer>),
    /// Its process ended before it had written anything.
    Empty,
    /// Not even its header can be read.
    Unreadable,
}

pub(super) fn read(name: &str, bytes: &[u8]) -> Read {
    if bytes.is_empty() {
        return Read::Empty;
    }
    match open(bytes) {
        Ok(Log::Master { config, records }) => Read::Master(Logged::of(name, config, records)),
        Ok(Log::Peer { config, records }) => Read::Peer(Logged::of(name, config, records)),
        Err(_) => Read::Unreadable,
    }
}

impl<M: Machine> Logged<M> {
    fn of(name: &str, config: M::Config, mut records: Records<'_, M>) -> Self {
        let mut read = Vec::new();
        let mut damage = None;
        for record in records.by_ref() {
            match record {
                Ok(record) => read.push(record),
                Err(error) => damage = Some(error),
            }
        }
        let torn = if damage.is_none() {
            records.unread()
        } else {
            0
        };
        Self {
            name: name.to_owned(),
            config,
            records: read,
            torn,
            damage,
        }
    }
}

impl Logged<Peer> {
    /// Whether its machine came to its end: it left the run, one way or another.
    pub(super) fn has_end(&self) -> bool {
        let mut outputs = self.records.iter().flat_map(|record| &record.outputs);
        outputs.any(|output| *output == PeerOutput::Close)
    }
}

impl Logged<Master> {
    /// Whether its machine came to its end: it was stopped.
    pub(super) fn has_end(&self) -> bool {
        let mut outputs = self.records.iter().flat_map(|record| &record.outputs);
        outputs.any(|output| *output == MasterOutput::Stopped)
    }
}

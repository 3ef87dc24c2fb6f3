//! Command-line options for limits and deadlines that hardly any run has to change. docs/limits.md describes their
//! effects.

use std::time::Duration;

use clap::{ArgAction, Args};
use pccl_core::id::EntryIndex;
use pccl_master::{Limits, MasterConfig};

use crate::arguments::{at_least_one, seconds, seconds_or_none};

/// Limits of the run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tuning of the run")]
pub(crate) struct RunTuning {
    /// Maximum number of collectives of a peer in flight, at least 1000
    #[arg(long, value_name = "TAGS", default_value_t = MasterConfig::default().tags_max,
          value_parser = clap::value_parser!(u32).range(1000..))]
    pub(crate) max_tags: u32,

    /// Maximum number of entries of a shared state; peers offer at most 16384
    #[arg(long, value_name = "ENTRIES", default_value_t = MasterConfig::default().entries_max.0,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_entries: u32,

    /// Seconds that peers may take to connect the links of a ring
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = seconds)]
    pub(crate) wiring: Duration,

    /// Seconds before a failed attempt to connect a ring is repeated; doubles with each failed attempt
    #[arg(long, value_name = "SECONDS", default_value = "0.02", value_parser = seconds)]
    pub(crate) wiring_retry: Duration,

    /// Failed attempts in a row after which a peer is evicted, if every ring contains a pair that failed
    #[arg(long, value_name = "ATTEMPTS", default_value_t = MasterConfig::default().wiring_attempts_max,
          value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) wiring_attempts: u8,

    /// Failed transfers of the shared state after which a peer is evicted, if every holder was tried
    #[arg(long, value_name = "ATTEMPTS", default_value_t = MasterConfig::default().transfer_attempts_max,
          value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) transfer_attempts: u8,

    /// Maximum number of holders from which a peer fetches the shared state at the same time
    #[arg(long, value_name = "HOLDERS", default_value_t = MasterConfig::default().transfer_holders_max,
          value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) transfer_holders: u8,

    /// Bytes that a peer must lack for each holder from which it fetches
    #[arg(long, value_name = "BYTES", default_value_t = MasterConfig::default().transfer_share_min)]
    pub(crate) transfer_share: u64,

    /// Seconds that one rotation of measurements may take
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub(crate) probe: Duration,

    /// Seconds that a measurement is kept at least; at most twice as long
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub(crate) measurements: Duration,

    /// Maximum number of steps of the background search for a better ring; 0: no search
    #[arg(long, value_name = "STEPS", default_value_t = MasterConfig::default().search_steps)]
    pub(crate) search_steps: u64,

    /// Largest group in which all paths are measured
    #[arg(long, value_name = "PEERS", default_value_t = MasterConfig::default().probe_all_max)]
    pub(crate) probe_all: u16,

    /// Percentage of the time of a reduce that another ring must save to be adopted
    #[arg(long, value_name = "PERCENT", default_value_t = MasterConfig::default().rewiring_gain,
          value_parser = clap::value_parser!(u8).range(..=100))]
    pub(crate) rewiring_gain: u8,

    /// Size in bytes of the reduce for --rewiring-gain
    #[arg(long, value_name = "BYTES", default_value_t = MasterConfig::default().reduce_bytes)]
    pub(crate) reduce_bytes: u64,

    /// Smallest group within one machine that sends small buffers in rounds
    #[arg(long, value_name = "PEERS", default_value_t = MasterConfig::default().rounds_from)]
    pub(crate) rounds_from: u16,

    /// Maximum number of bytes that a collective which begins before all have called it may send to one peer; 0: each
    /// begins when all have called it
    #[arg(long, value_name = "BYTES", default_value_t = MasterConfig::default().ahead_max)]
    pub(crate) max_ahead: u64,

    /// Whether collectives within one machine begin before all have called them, too
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = MasterConfig::default().ahead_within_machine)]
    pub(crate) ahead_within_machine: bool,
}

impl RunTuning {
    pub(crate) const fn entries(&self) -> EntryIndex {
        EntryIndex(self.max_entries)
    }
}

/// Limits of connections to the master.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tuning of connections")]
pub(crate) struct ConnectionTuning {
    /// Seconds that a connection may be silent before the end of its handshake while others wait
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) grace: Duration,

    /// Maximum number of connections that wait to be accepted
    #[arg(long, value_name = "CONNECTIONS", default_value_t = Limits::default().waiting_max,
          value_parser = at_least_one)]
    pub(crate) max_waiting: usize,

    /// The same from one address
    #[arg(long, value_name = "CONNECTIONS", default_value_t = Limits::default().waiting_per_address_max,
          value_parser = at_least_one)]
    pub(crate) max_waiting_per_address: usize,

    /// Seconds that a connection waits before it is told to try again; less than a peer's limit of 5
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    pub(crate) waiting: Duration,

    /// Maximum number of bytes of messages of more than 64 KiB that are being received, over all peers
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().long_messages_bytes_max,
          value_parser = at_least_one)]
    pub(crate) max_long_messages_bytes: usize,

    /// Maximum number of bytes that wait to be sent to a peer; a peer beyond it is evicted
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().outbox_bytes_max,
          value_parser = at_least_one)]
    pub(crate) max_outbox_bytes: usize,

    /// Seconds for which a peer whose connection has ended may stay away; 0: it is lost at once, unless the network
    /// failed
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds_or_none)]
    pub(crate) reconnect: Duration,

    /// Seconds for which peers wait for a master that keeps a journal and is gone
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) restart: Duration,

    /// Seconds that the last message to a peer may take
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) farewell: Duration,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, Parser};

    use crate::arguments::{Arguments, Serve};

    /// An option, and a value that is not its default.
    const CHANGED: [(&str, &str); 22] = [
        ("--max-tags", "2000"),
        ("--max-entries", "7"),
        ("--wiring", "7"),
        ("--wiring-retry", "7"),
        ("--wiring-attempts", "7"),
        ("--transfer-attempts", "7"),
        ("--probe", "7"),
        ("--measurements", "7"),
        ("--search-steps", "7"),
        ("--probe-all", "7"),
        ("--rewiring-gain", "7"),
        ("--reduce-bytes", "7"),
        ("--rounds-from", "7"),
        ("--grace", "7"),
        ("--max-waiting", "7"),
        ("--max-waiting-per-address", "7"),
        ("--waiting", "7"),
        ("--max-long-messages-bytes", "7"),
        ("--max-outbox-bytes", "7"),
        ("--reconnect", "7"),
        ("--restart", "7"),
        ("--farewell", "7"),
    ];

    fn told(more: &[&str]) -> Serve {
        Arguments::parse_from([&["pccl-master"], more].concat()).serve
    }

    /// The fields of what the master is made of, as lines of text.
    fn fields(serve: &Serve) -> Vec<String> {
        let text = format!("{:#?}\n{:#?}", serve.config(), serve.limits());
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_option_changes_a_field_of_its_own() {
        let usual = fields(&told(&[]));
        let mut changed = BTreeSet::new();
        for (option, value) in CHANGED {
            let other = fields(&told(&[option, value]));
            let differing: Vec<usize> = (0..usual.len())
                .filter(|line| usual[*line] != other[*line])
                .collect();
            assert_eq!(differing.len(), 1, "{option}: {differing:?}");
            changed.extend(differing);
        }
        assert_eq!(changed.len(), CHANGED.len(), "two options of one field");
    }

    #[test]
    fn the_page_of_limits_names_every_option_of_the_master() {
        let page = include_str!("../../docs/limits.md");
        let command = Arguments::command();
        // These are no limits.
        let others = [
            "listen",
            "identity",
            "advertise",
            "plain",
            "transport",
            "record",
            "journal",
            "no-journal-sync",
        ];
        let options = command.get_opts().filter_map(|option| option.get_long());
        let limits = options.filter(|option| !others.contains(option));
        let missing: Vec<&str> = limits
            .filter(|option| !page.contains(&format!("`--{option}`")))
            .collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}

//! The command line of the program.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use pccl_core::wire::DEFAULT_MASTER_PORT;
use pccl_master::{Limits, MasterConfig, Security, Trust, TrustError, Via};

use crate::addresses::Advertised;
use crate::commands::Command;
use crate::tuning::{ConnectionTuning, RunTuning};

/// The master of a pccl run: it keeps the membership and decides. The peers move the data among themselves.
///
/// On a loopback address the master is plain. On any other address it encrypts, and admits peers that have its join
/// string: one word, which it prints to standard output when it starts (`join: pccl1...`). Keep it like a password.
/// Peers join with that word in place of host:port.
///
/// The master logs to standard error; the environment variable PCCL_LOG sets the level (error, warn, info, debug,
/// trace). On SIGINT and SIGTERM it tells the peers and exits; with --journal, SIGTERM leaves the run to its successor.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) serve: Serve,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The options of the master.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address or host name, and port, to listen on. `[::]:48148` serves IPv6 and IPv4; a host name serves all of its
    /// addresses on this machine
    #[arg(long, value_name = "HOST:PORT", default_value = DEFAULT_ADDRESS)]
    pub(crate) listen: Listen,

    /// Directory that keeps the key and the invitations, so that join strings remain valid after a restart. Encrypts
    /// on loopback as well
    #[arg(long, value_name = "DIR")]
    pub(crate) identity: Option<PathBuf>,

    /// Address at which peers reach the master; repeat for up to four. Default: the listening address, or for a
    /// wildcard the address from which this machine sends to others
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) advertise: Vec<Advertised>,

    /// Do not encrypt, and admit everybody, even on an address other than loopback
    #[arg(long, conflicts_with_all = ["identity", "advertise", "transport"])]
    plain: bool,

    /// Transport of all connections of the run; `quic` encrypts on loopback as well, and needs a program that was
    /// built with the feature `quic`. Default: tcp
    #[arg(long, value_enum)]
    transport: Option<Over>,

    /// Maximum number of peers, newcomers included
    #[arg(long, value_name = "PEERS", default_value_t = MasterConfig::default().peers_max,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_peers: u32,

    /// Seconds of silence after which a peer is evicted; master and peers send heartbeats five times as often. A peer
    /// that is far away, or was heard irregularly in the last minute, gets more, four times as long at most
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    silence: Duration,

    /// Seconds that others wait for a peer's next call before it is evicted, unless more peers would be evicted than
    /// wait. Must exceed the longest computation between two calls
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    late: Duration,

    /// Seconds that a peer may move no bytes of a collective or a shared-state transfer that others wait for
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    stalled: Duration,

    /// Largest group in which every member gets a link to every other one, for direct exchange in small and medium
    /// collectives; 0: rings only
    #[arg(long, value_name = "PEERS", default_value_t = MasterConfig::default().mesh_max)]
    max_mesh: u16,

    /// The same for a group at several sites with several members at one of them; 0: --max-mesh applies
    #[arg(long, value_name = "PEERS", default_value_t = MasterConfig::default().sites_mesh_max)]
    max_sites_mesh: u16,

    /// Seconds that the ring solver may take
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    solver: Duration,

    /// Seconds that a connection may take for its handshake
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    handshake: Duration,

    /// Maximum number of accepted connections from one address that have not finished their handshake; further ones
    /// wait
    #[arg(long, value_name = "CONNECTIONS", default_value_t = Limits::default().strangers_per_address_max,
          value_parser = at_least_one)]
    max_strangers_per_address: usize,

    /// The same over all addresses
    #[arg(long, value_name = "CONNECTIONS", default_value_t = Limits::default().strangers_max,
          value_parser = at_least_one)]
    max_strangers: usize,

    /// Maximum number of registered peers from one address that are not admitted yet; further ones are refused
    #[arg(long, value_name = "PEERS", default_value_t = Limits::default().newcomers_per_address_max,
          value_parser = at_least_one)]
    max_newcomers_per_address: usize,

    /// Directory for a recording of all inputs and outputs of the master, which is as secret as the run. Default: the
    /// environment variable PCCL_RECORD
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,

    /// Directory of the run's journal: a master that is killed and started again with it goes on with the run. On
    /// SIGTERM the master then ends without ending the run; SIGINT ends the run. Keeps the key as well, unless
    /// --identity does
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,

    /// Do not wait until the disk has the journal: the run survives a killed process, but no power failure
    #[arg(long, requires = "journal")]
    pub(crate) no_journal_sync: bool,

    #[command(flatten)]
    run: RunTuning,

    #[command(flatten)]
    connections: ConnectionTuning,
}

/// The transport of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Over {
    /// TCP, with TLS 1.3 unless the master is plain
    Tcp,
    /// QUIC, on a UDP port
    Quic,
}

impl Over {
    /// How peers connect to a master with this option.
    pub(crate) fn via(over: Option<Self>) -> Via {
        match over {
            None | Some(Self::Tcp) => Via::Tls,
            Some(Self::Quic) => Via::Quic,
        }
    }
}

/// Heartbeats in the time after which a silent peer is evicted.
const SIGNS_PER_SILENCE: u32 = 5;

impl Serve {
    /// `None` if the default for the listening address applies.
    pub(crate) fn security(&self) -> Result<Option<Security>, TrustError> {
        let proven = |trust: Trust| Some(Security::Proven(trust.over(Over::via(self.transport))));
        let encrypts = !self.advertise.is_empty() || self.transport == Some(Over::Quic);
        Ok(match (&self.identity, &self.journal) {
            (Some(directory), _) => proven(Trust::of_directory(directory)?),
            (None, _) if self.plain => Some(Security::Plain),
            // Peers come back only to a master with the same key.
            (None, Some(directory)) if encrypts || !self.is_on_loopback() => {
                proven(Trust::of_directory(directory)?)
            }
            (None, None) if encrypts => proven(Trust::ephemeral()?),
            (None, _) => None,
        })
    }

    fn is_on_loopback(&self) -> bool {
        let is_loopback = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
        self.listen.0.iter().all(is_loopback)
    }

    /// Whether the master is plain on an address other than loopback.
    pub(crate) fn is_open_to_strangers(&self) -> bool {
        self.plain && !self.is_on_loopback()
    }

    /// Every field can be set by an option.
    pub(crate) fn config(&self) -> MasterConfig {
        let run = &self.run;
        MasterConfig {
            peers_max: self.max_peers,
            tags_max: run.max_tags,
            entries_max: run.entries(),
            heartbeat: self.silence / SIGNS_PER_SILENCE,
            silence: self.silence,
            late: self.late,
            stalled: self.stalled,
            wiring: run.wiring,
            wiring_retry: run.wiring_retry,
            wiring_attempts_max: run.wiring_attempts,
            transfer_attempts_max: run.transfer_attempts,
            transfer_holders_max: run.transfer_holders,
            transfer_share_min: run.transfer_share,
            probe: run.probe,
            measurements: run.measurements,
            solver: self.solver,
            search_steps: run.search_steps,
            probe_all_max: run.probe_all,
            rewiring_gain: run.rewiring_gain,
            reduce_bytes: run.reduce_bytes,
            mesh_max: self.max_mesh,
            sites_mesh_max: self.max_sites_mesh,
            rounds_from: run.rounds_from,
            ahead_max: run.max_ahead,
            ahead_within_machine: run.ahead_within_machine,
            // The server draws the key.
            tickets: MasterConfig::default().tickets,
        }
    }

    /// Every field can be set by an option.
    pub(crate) fn limits(&self) -> Limits {
        let connections = &self.connections;
        Limits {
            handshake: self.handshake,
            strangers_max: self.max_strangers,
            strangers_per_address_max: self.max_strangers_per_address,
            grace: connections.grace,
            newcomers_per_address_max: self.max_newcomers_per_address,
            waiting_max: connections.max_waiting,
            waiting_per_address_max: connections.max_waiting_per_address,
            waiting: connections.waiting,
            long_messages_bytes_max: connections.max_long_messages_bytes,
            outbox_bytes_max: connections.max_outbox_bytes,
            reconnect: connections.reconnect,
            restart: connections.restart,
            farewell: connections.farewell,
        }
    }
}

/// All IPv4 addresses, and the port that peers use by default.
const DEFAULT_ADDRESS: &str = "0.0.0.0:48148";

/// Addresses to listen on, all with one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen(pub(crate) Vec<SocketAddr>);

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let has_port = text
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if !has_port || text.parse::<IpAddr>().is_ok() {
            return Err(format!(
                "it has no port; written HOST:PORT, an IPv6 address in brackets, as in [::1]:{DEFAULT_MASTER_PORT}"
            ));
        }
        let found = text.to_socket_addrs();
        let found = found.map_err(|error| format!("no such host here: {error}"))?;
        Ok(Self(found.collect()))
    }
}

/// A limit of zero would admit nobody.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().map_err(|_| "not a number")?;
    if number == 0 {
        return Err("must be at least one".into());
    }
    Ok(number)
}

/// A number of seconds, which may have a fraction.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    if !(0.01..=1e8).contains(&seconds) {
        return Err("must be between 0.01 and 100000000 seconds".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// As [`seconds`], or zero.
pub(crate) fn seconds_or_none(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(0.0) => Ok(Duration::ZERO),
        Ok(_) | Err(_) => seconds(text),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn without_arguments_the_limits_are_those_of_the_library() {
        let arguments = Arguments::parse_from(["pccl-master"]).serve;

        assert_eq!(arguments.config(), MasterConfig::default());
        assert_eq!(arguments.limits(), Limits::default());
        let all_of_v4 = SocketAddr::from(([0, 0, 0, 0], DEFAULT_MASTER_PORT));
        assert_eq!(arguments.listen, Listen(vec![all_of_v4]));
    }

    #[test]
    fn a_master_listens_on_an_address_or_a_name() {
        let listen = |text: &str| {
            let parsed = Arguments::try_parse_from(["pccl-master", "--listen", text]);
            parsed.map(|arguments| arguments.serve.listen.0)
        };

        assert_eq!(listen("[::1]:7").unwrap(), ["[::1]:7".parse().unwrap()]);
        let named = listen("localhost:7").unwrap();
        assert!(!named.is_empty());
        for address in named {
            assert!(
                address.ip().is_loopback() && address.port() == 7,
                "{address}"
            );
        }
        for (mistake, told) in [
            ("localhost", "it has no port"),
            ("0.0.0.0", "it has no port"),
            ("::1", "in brackets"),
            ("::1:7", "in brackets"),
            ("no-such-host.invalid:7", "no such host here"),
        ] {
            let error = listen(mistake).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_gate_that_lets_nobody_in_is_refused() {
        for gate in [
            "--max-strangers",
            "--max-strangers-per-address",
            "--max-newcomers-per-address",
        ] {
            let parsed = Arguments::try_parse_from(["pccl-master", gate, "0"]);

            assert!(parsed.is_err(), "{gate} 0 was taken");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for contradiction in [
            &["--plain", "--identity", "d"][..],
            &["--plain", "--advertise", "host"],
            &["--plain", "--transport", "quic"],
            &["--plain", "list", "--identity", "d"],
        ] {
            let parsed = Arguments::try_parse_from([&["pccl-master"], contradiction].concat());

            assert!(parsed.is_err(), "{contradiction:?} was taken");
        }
    }

    #[test]
    fn a_master_is_plain_beyond_loopback_only_by_name() {
        let security = |more: &[&str]| {
            let arguments = Arguments::parse_from([&["pccl-master"], more].concat()).serve;
            (
                arguments.security().unwrap(),
                arguments.is_open_to_strangers(),
            )
        };

        assert!(matches!(security(&[]), (None, false)));
        assert!(matches!(
            security(&["--plain"]),
            (Some(Security::Plain), true)
        ));
        let on_loopback = security(&["--plain", "--listen", "[::1]:7"]);
        assert!(matches!(on_loopback, (Some(Security::Plain), false)));
        let advertised = security(&["--advertise", "host", "--listen", "127.0.0.1:7"]);
        assert!(matches!(advertised, (Some(Security::Proven(_)), false)));
    }

    #[test]
    fn over_quic_a_master_encrypts_on_loopback_as_well() {
        let via = |more: &[&str]| {
            let on_loopback = ["pccl-master", "--listen", "127.0.0.1:7"];
            let arguments = Arguments::parse_from([&on_loopback, more].concat()).serve;
            match arguments.security().unwrap() {
                Some(Security::Proven(trust)) => Some(trust.via()),
                Some(Security::Plain) | None => None,
            }
        };

        assert_eq!(via(&["--transport", "quic"]), Some(Via::Quic));
        assert_eq!(via(&["--transport", "tcp"]), None);
        assert_eq!(via(&["--advertise", "host"]), Some(Via::Tls));
    }

    #[test]
    fn each_time_limit_is_its_own() {
        let limits = [
            "--late",
            "20",
            "--stalled",
            "0.5",
            "--solver",
            "7",
            "--max-mesh",
            "3",
            "--max-sites-mesh",
            "9",
        ];
        let arguments = Arguments::parse_from([&["pccl-master"], &limits[..]].concat()).serve;

        let expected = MasterConfig {
            late: Duration::from_secs(20),
            stalled: Duration::from_millis(500),
            solver: Duration::from_secs(7),
            mesh_max: 3,
            sites_mesh_max: 9,
            ..MasterConfig::default()
        };
        assert_eq!(arguments.config(), expected);
    }

    #[test]
    fn times_that_make_no_sense_are_refused() {
        for nonsense in ["0", "-1", "nan", "inf", "soon"] {
            let parsed = Arguments::try_parse_from(["pccl-master", "--silence", nonsense]);

            assert!(parsed.is_err(), "{nonsense} was taken");
        }
    }
}

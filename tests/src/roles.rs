//! What a test's own program can be besides the test: a master, or a peer.

use std::process::ExitCode;
use std::time::Duration;

use pccl_master::{Limits, MasterConfig, ServeError};
use pccl_subprocess::{obey_orders, tell};

use crate::over::{MasterAt, Over};
use crate::readme::{self, ReadmeOptions};
use crate::scripted::{self, PeerOptions};
use crate::talk::{Event, Order};

/// What a process is.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Role {
    /// A peer that reduces until it is killed
    Peer(PeerOptions),
    /// A peer that runs a program of the README
    Readme(ReadmeOptions),
    /// A master that serves until its standard input ends
    Master(MasterOptions),
}

/// How a master is to be.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MasterOptions {
    /// Milliseconds of silence after which a peer counts as lost
    #[arg(long)]
    pub silence_ms: Option<u64>,
    /// Strangers to let in from one address
    #[arg(long)]
    pub strangers: Option<usize>,
    /// What the run goes over
    #[arg(long, value_enum, default_value_t)]
    pub transport: Over,
}

impl Role {
    /// The command line that makes a program take this role.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        match self {
            Self::Peer(options) => options.arguments(),
            Self::Readme(options) => options.arguments(),
            Self::Master(options) => options.arguments(),
        }
    }

    /// Lives the process's whole life.
    #[must_use]
    pub fn run(&self) -> ExitCode {
        match self {
            Self::Peer(options) => scripted::run(options),
            Self::Readme(options) => readme::run(options),
            Self::Master(options) => options.serve(),
        }
    }
}

impl MasterOptions {
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["master".to_owned()];
        arguments.extend(["--transport".to_owned(), self.transport.name().to_owned()]);
        if let Some(limit) = self.silence_ms {
            arguments.extend(["--silence-ms".to_owned(), limit.to_string()]);
        }
        if let Some(strangers) = self.strangers {
            arguments.extend(["--strangers".to_owned(), strangers.to_string()]);
        }
        arguments
    }

    fn config(&self) -> MasterConfig {
        let config = MasterConfig::default();
        let silence = self.silence_ms.map(Duration::from_millis);
        let silence = silence.unwrap_or(config.silence);
        MasterConfig {
            silence,
            heartbeat: silence / 5,
            ahead_within_machine: true,
            ..config
        }
    }

    fn limits(&self) -> Limits {
        let limits = Limits::default();
        let strangers_per_address_max = self.strangers.unwrap_or(limits.strangers_per_address_max);
        let strangers_max = limits.strangers_max.max(strangers_per_address_max);
        Limits {
            strangers_max,
            strangers_per_address_max,
            ..limits
        }
    }

    fn serve(&self) -> ExitCode {
        let started = self.transport.master().map_err(ServeError::from);
        let started = started.and_then(|builder| {
            let builder = builder.config(self.config()).limits(self.limits());
            builder.spawn("127.0.0.1:0")
        });
        match started {
            Ok(master) => {
                tell(&Event::Listening(MasterAt::from(&master)));
                obey_orders(|order| match order {
                    Order::Stop => master.handle().stop(),
                    Order::StandStillAt(_)
                    | Order::GoOn
                    | Order::StandStillNowhere
                    | Order::Optimize => {}
                });
                ExitCode::SUCCESS
            }
            Err(error) => {
                tell(&Event::Wrong {
                    what: error.to_string(),
                });
                ExitCode::FAILURE
            }
        }
    }
}

//! What a process of a churn is besides its driver: a master, or a peer.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use pccl_master::ServeError;
use pccl_subprocess::{obey_orders, tell};

use super::holdings::own_holdings;
use super::peer::PeerOptions;
use super::talk::Event;
use crate::over::{MasterAt, Over};
use crate::talk::now;

/// What a process is.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Role {
    /// A peer that makes steps until it is killed
    Peer(PeerOptions),
    /// A master that serves until its standard input ends
    Master(MasterOptions),
}

/// How a master is to be.
#[derive(Clone, Debug, clap::Args)]
pub struct MasterOptions {
    /// What the run goes over
    #[arg(long, value_enum, default_value_t)]
    pub transport: Over,
    /// Where it listens
    #[arg(long)]
    pub listen: SocketAddr,
    /// Directory of the run's journal; none is kept without it
    #[arg(long)]
    pub journal: Option<PathBuf>,
}

impl Role {
    /// The command line that makes a program take this role.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        match self {
            Self::Peer(options) => options.arguments(),
            Self::Master(options) => {
                let (over, at) = (options.transport.name(), options.listen.to_string());
                let mut arguments: Vec<String> = ["master", "--transport", over, "--listen", &at]
                    .map(str::to_owned)
                    .into();
                if let Some(directory) = &options.journal {
                    arguments.extend(["--journal".into(), directory.display().to_string()]);
                }
                arguments
            }
        }
    }

    /// Lives the process's whole life.
    #[must_use]
    pub fn run(&self) -> ExitCode {
        match self {
            Self::Peer(options) => options.run(),
            Self::Master(options) => options.serve(),
        }
    }
}

impl MasterOptions {
    fn serve(&self) -> ExitCode {
        let builder = match &self.journal {
            Some(directory) => self.transport.master_that_may_die(directory),
            None => self.transport.master(),
        };
        let builder = builder.map_err(ServeError::from);
        match builder.and_then(|builder| builder.spawn(self.listen)) {
            Ok(master) => {
                tell(&Event::Listening {
                    at: MasterAt::from(&master),
                    since: now(),
                });
                // Ends with the driver. All that it ever orders is a sample.
                obey_orders(|(): ()| tell(&Event::Resting(own_holdings().unwrap_or_default())));
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

//! What a process of a churn is besides its driver: a master, or a peer.

use std::process::ExitCode;

use pccl_master::ServeError;
use pccl_subprocess::{obey_orders, tell};

use super::peer::PeerOptions;
use super::talk::Event;
use crate::over::{MasterAt, Over};

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
}

impl Role {
    /// The command line that makes a program take this role.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        match self {
            Self::Peer(options) => options.arguments(),
            Self::Master(options) => {
                let over = options.transport.name();
                ["master", "--transport", over].map(str::to_owned).into()
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
        let builder = self.transport.master().map_err(ServeError::from);
        match builder.and_then(|builder| builder.spawn("127.0.0.1:0")) {
            Ok(master) => {
                tell(&Event::Listening(MasterAt::from(&master)));
                // Ends with the driver.
                obey_orders(|(): ()| {});
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

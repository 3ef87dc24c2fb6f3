//! Where the processes run: on this machine, or on several that a command of the user's starts programs on.

use std::io;
use std::net::{AddrParseError, IpAddr, Ipv4Addr};
use std::process::Command;
use std::str::FromStr;

/// What is replaced by the address of a host in the command that starts a program there.
const HOST: &str = "{host}";

/// A host, as it stands on the command line: `paris=10.0.0.1`, or its address alone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    name: Option<String>,
    address: IpAddr,
}

impl FromStr for Host {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, address) = match text.split_once('=') {
            Some((name, address)) => (Some(name.to_owned()), address),
            None => (None, text),
        };
        Ok(Self {
            name,
            address: address.parse()?,
        })
    }
}

/// The hosts of a run.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Hosts {
    /// Addresses of the hosts on which the peers run, by turns, as the other hosts reach them; the master runs
    /// on the first. Rings are shown with names, if hosts have some: paris=10.0.0.1. Default: all run here, over
    /// loopback.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "ADDRESSES",
        requires = "launch"
    )]
    hosts: Vec<Host>,
    /// What starts a program on a host, its address in the place of {host}: "ssh {host}", or
    /// "ip netns exec {host}" for network namespaces that are named after their addresses. This program is at
    /// the same path on all of them.
    #[arg(long, value_name = "COMMAND", requires = "hosts")]
    launch: Option<String>,
}

impl Hosts {
    /// Where the master runs.
    pub(crate) fn of_master(&self) -> IpAddr {
        self.of_rank(0)
    }

    /// Where a rank runs.
    pub(crate) fn of_rank(&self, rank: usize) -> IpAddr {
        let host = self.at(rank).map(|host| host.address);
        host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// What a rank is called: like its host, if that has a name, with a number from the second rank on.
    pub(crate) fn name_of_rank(&self, rank: usize) -> String {
        let name = self.at(rank).and_then(|host| host.name.as_deref());
        match (name, rank.checked_div(self.hosts.len())) {
            (Some(name), Some(0)) => name.to_owned(),
            (Some(name), Some(turn)) => format!("{name}-{}", turn + 1),
            (_, _) => rank.to_string(),
        }
    }

    fn at(&self, rank: usize) -> Option<&Host> {
        self.hosts.get(rank.checked_rem(self.hosts.len())?)
    }

    /// What starts this program on a host; its arguments are still to come.
    pub(crate) fn command(&self, host: IpAddr) -> io::Result<Command> {
        let program = std::env::current_exe()?;
        let launch = self.launch.as_deref().unwrap_or_default();
        let words = launch.replace(HOST, &host.to_string());
        let mut words = words.split_whitespace();
        let Some(launcher) = words.next() else {
            return Ok(Command::new(program));
        };
        let mut command = Command::new(launcher);
        command.args(words).arg(program);
        Ok(command)
    }
}

//! Where the processes run: on this machine, or on several that a command of the user's starts programs on.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

/// What is replaced by the address of a host in the command that starts a program there.
const HOST: &str = "{host}";

/// The hosts of a run.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Hosts {
    /// Addresses of the hosts on which the ranks run, by turns, as the other hosts reach them; the master runs
    /// on the first. Default: all run here, over loopback.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "ADDRESSES",
        requires = "launch"
    )]
    pub(crate) hosts: Vec<IpAddr>,
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
        let at = rank.checked_rem(self.hosts.len());
        let host = at.and_then(|at| self.hosts.get(at));
        host.copied().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
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

//! Socket options, the same for opened and accepted connections.

use std::io::Result as IoResult;
use std::time::Duration;

use pccl_core::transport::{CongestionControl, LaneError};
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::TcpStream;

use crate::error::lane_error;

/// When a silent and idle connection counts as dead: after `idle`, and then `probes` unanswered probes at an interval
/// of `interval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe. Whole seconds, at least one. Default: 5 s.
    pub idle: Duration,
    /// Time between two probes. Whole seconds, at least one. Default: 2 s.
    pub interval: Duration,
    /// Number of unanswered probes, at least one. Default: 3.
    pub probes: u32,
}

impl Keepalive {
    /// The longest time until a dead host is detected: `idle + interval * probes`.
    #[must_use]
    pub fn notices_after(&self) -> Duration {
        self.idle
            .saturating_add(self.interval.saturating_mul(self.probes))
    }
}

impl Default for Keepalive {
    /// Five seconds idle, then three probes at an interval of two seconds: 11 s in all.
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(5),
            interval: Duration::from_secs(2),
            probes: 3,
        }
    }
}

/// The congestion control within a machine, where no packet is lost: the simplest one. One that paces by its estimate
/// of the rate, such as BBR, delays bytes there, sometimes for 100 ms and more.
const ON_LOOPBACK: &str = "reno";

/// The congestion control between machines. On a long path that loses packets, one that takes each loss for a full
/// queue carries next to nothing (docs/performance.md, "A lossy path").
const BETWEEN_MACHINES: &str = "bbr";

/// What a lane between machines may get in its place. Nearly all systems lend it.
const FOR_BURSTS: &str = "cubic";

/// A connection with its options.
pub(crate) struct Connected {
    pub(crate) stream: TcpStream,
    /// As [`LaneTx::congestion_control`](pccl_core::transport::LaneTx::congestion_control).
    pub(crate) control: Option<CongestionControl>,
}

/// The options of every connection.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) keepalive: Option<Keepalive>,
    pub(crate) user_timeout: Option<Duration>,
    pub(crate) congestion: Option<String>,
}

impl Default for Options {
    /// A lane with bytes in flight is given up after the same time as an idle one.
    fn default() -> Self {
        let keepalive = Keepalive::default();
        Self {
            keepalive: Some(keepalive),
            user_timeout: Some(keepalive.notices_after()),
            congestion: None,
        }
    }
}

impl Options {
    /// Sets all options. Only `TCP_NODELAY` must succeed, because without it every small frame waits for an
    /// acknowledgement. Without the others the lane still works.
    pub(crate) fn apply(&self, stream: TcpStream) -> Result<Connected, LaneError> {
        let socket = SockRef::from(&stream);
        socket
            .set_tcp_nodelay(true)
            .map_err(|error| lane_error(&error))?;
        if let Some(keepalive) = self.keepalive {
            optional("keepalive", set_keepalive(&socket, keepalive));
        }
        if let Some(limit) = self.user_timeout {
            optional("user timeout", set_user_timeout(&socket, limit));
        }
        let control = self.set_congestion(&socket, is_local(&stream));
        Ok(Connected { stream, control })
    }

    /// Requests the congestion control that a connection begins with. Returns it if it may be changed.
    fn set_congestion(&self, socket: &SockRef<'_>, is_local: bool) -> Option<CongestionControl> {
        let set = set_congestion(socket, self.congestion_on(is_local));
        // Whoever chose one keeps it.
        let has_choice = set.is_ok() && !is_local && self.congestion.is_none();
        optional("congestion control", set);
        has_choice.then_some(CongestionControl::ModelBased)
    }

    /// Whether one lane between machines fills a path that loses packets: only with a congestion control that
    /// estimates the rate of the path, and that the system permits.
    pub(crate) fn fills_with_one(&self) -> bool {
        let asked_for = self.congestion_on(false);
        asked_for.starts_with(BETWEEN_MACHINES) && is_lent(asked_for)
    }

    /// The congestion control to request. A system that does not have it, or reserves it, uses its own.
    fn congestion_on(&self, is_local: bool) -> &str {
        let chosen = self.congestion.as_deref();
        chosen.unwrap_or(if is_local {
            ON_LOOPBACK
        } else {
            BETWEEN_MACHINES
        })
    }
}

/// Changes the congestion control of a lane, unless there is no choice. If the system refuses, there is none from here
/// on.
pub(crate) fn steer(
    stream: &TcpStream,
    has: &mut Option<CongestionControl>,
    control: CongestionControl,
) {
    if has.is_none() {
        return;
    }
    let name = match control {
        CongestionControl::ModelBased => BETWEEN_MACHINES,
        CongestionControl::LossBased => FOR_BURSTS,
    };
    let set = set_congestion(&SockRef::from(stream), name);
    *has = set.is_ok().then_some(control);
    if let Err(error) = set {
        tracing::warn!(name, %error, "the system refuses another congestion control; the lane keeps the one it has");
    }
}

/// Whether the system permits this congestion control to this process.
pub(crate) fn is_lent(congestion: &str) -> bool {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None);
    let lent = socket.and_then(|socket| set_congestion(&SockRef::from(&socket), congestion));
    lent.is_ok()
}

/// Whether both ends are on this machine: their addresses are the same, or the other end's is a loopback address.
pub(crate) fn is_local(stream: &TcpStream) -> bool {
    let (local, peer) = (stream.local_addr(), stream.peer_addr());
    let (Ok(local), Ok(peer)) = (local, peer) else {
        return false;
    };
    let peer = peer.ip().to_canonical();
    peer.is_loopback() || peer == local.ip().to_canonical()
}

fn optional(option: &str, outcome: IoResult<()>) {
    if let Err(error) = outcome {
        tracing::debug!(option, %error, "the system refused a socket option");
    }
}

fn set_keepalive(socket: &SockRef<'_>, keepalive: Keepalive) -> IoResult<()> {
    let parameters = TcpKeepalive::new()
        .with_time(keepalive.idle)
        .with_interval(keepalive.interval)
        .with_retries(keepalive.probes);
    socket.set_tcp_keepalive(&parameters)
}

/// Sets the user timeout, unless it is shorter already.
pub(crate) fn shorten_user_timeout(stream: &TcpStream, limit: Duration) {
    let socket = SockRef::from(stream);
    if user_timeout(&socket).is_none_or(|present| limit < present) {
        optional("user timeout", set_user_timeout(&socket, limit));
    }
}

/// `None`: the system's default applies, or the option does not exist.
#[cfg(target_os = "linux")]
fn user_timeout(socket: &SockRef<'_>) -> Option<Duration> {
    socket.tcp_user_timeout().ok().flatten()
}

#[cfg(not(target_os = "linux"))]
fn user_timeout(_socket: &SockRef<'_>) -> Option<Duration> {
    None
}

#[cfg(target_os = "linux")]
fn set_user_timeout(socket: &SockRef<'_>, limit: Duration) -> IoResult<()> {
    socket.set_tcp_user_timeout(Some(limit))
}

#[cfg(not(target_os = "linux"))]
fn set_user_timeout(_socket: &SockRef<'_>, _limit: Duration) -> IoResult<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
fn set_congestion(socket: &SockRef<'_>, name: &str) -> IoResult<()> {
    socket.set_tcp_congestion(name.as_bytes())
}

#[cfg(not(target_os = "linux"))]
fn set_congestion(_socket: &SockRef<'_>, _name: &str) -> IoResult<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_between_machines_ask_for_bbr_and_those_within_one_do_not() {
        let usual = Options::default();
        assert_eq!(usual.congestion_on(true), "reno");
        assert_eq!(usual.congestion_on(false), "bbr");

        let chosen = Options {
            congestion: Some("cubic".to_owned()),
            ..Options::default()
        };
        assert_eq!(chosen.congestion_on(true), "cubic");
        assert_eq!(chosen.congestion_on(false), "cubic");
    }

    #[test]
    fn a_connection_between_machines_may_be_given_another_congestion_control_if_none_was_chosen() {
        let control = |options: &Options, is_local| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            options.set_congestion(&SockRef::from(&socket), is_local)
        };
        let between_machines = control(&Options::default(), false);

        let may = is_lent(BETWEEN_MACHINES).then_some(CongestionControl::ModelBased);
        assert_eq!(between_machines, may);
        assert_eq!(control(&Options::default(), true), None);
        for chosen in ["reno", BETWEEN_MACHINES] {
            let congestion = Some(chosen.to_owned());
            let options = Options {
                congestion,
                ..Options::default()
            };
            assert_eq!(control(&options, false), None);
        }
    }

    #[test]
    fn one_lane_fills_a_path_only_with_a_congestion_control_that_is_lent_and_estimates_its_rate() {
        let fills = |name: &str| {
            let options = Options {
                congestion: Some(name.to_owned()),
                ..Options::default()
            };
            options.fills_with_one()
        };
        assert!(!fills("reno"));
        assert!(!fills("cubic"));
        assert!(!fills("bbr-that-no-system-has"));
        assert_eq!(fills("bbr"), is_lent("bbr"));
        assert!(is_lent("reno") || cfg!(not(target_os = "linux")));
    }
}

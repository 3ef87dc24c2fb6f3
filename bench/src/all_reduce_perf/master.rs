//! The master of a run, in a process of its own.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use pccl_master::{MasterConfig, RunningMaster, ServeError};
use pccl_subprocess::tell;

use super::over::{Over, join_of};
use super::stopwatch::cpu_time;
use super::talk::{Event, Order, end_with_parent, next_order};

/// Serves until the parent says `Quit`.
/// `limits`: most members of a mesh, and most bytes that are sent ahead.
pub(crate) fn run(host: IpAddr, over: Over, limits: (u16, u64)) -> ExitCode {
    end_with_parent();
    let running = match start(host, over, limits) {
        Ok((running, join)) => {
            let address = running.local_addr();
            tell(&Event::Serving { address, join });
            running
        }
        Err(error) => {
            let error = error.to_string();
            tell(&Event::Failed { error });
            return ExitCode::FAILURE;
        }
    };
    loop {
        match next_order() {
            Order::TellCpuTime => tell(&Event::CpuTime { ns: cpu_time() }),
            Order::Join { .. }
            | Order::JoinFloor { .. }
            | Order::Prepare(_)
            | Order::Measure(_)
            | Order::Optimize
            | Order::Go => {}
            Order::Quit => break,
        }
    }
    running.stop();
    ExitCode::SUCCESS
}

/// The master, and what its peers join with.
fn start(
    host: IpAddr,
    over: Over,
    (mesh_max, ahead_max): (u16, u64),
) -> Result<(RunningMaster, String), ServeError> {
    let config = MasterConfig {
        mesh_max,
        ahead_max,
        ..MasterConfig::default()
    };
    let master = over.master(None)?.config(config);
    let running = master.spawn(SocketAddr::new(host, 0))?;
    let join = join_of(&running)?;
    Ok((running, join))
}

//! The master of a run, in a process of its own.

use std::process::ExitCode;

use super::stopwatch::cpu_time;
use super::talk::{Event, Order, end_with_parent, next_order, tell};

/// Serves until the parent says `Quit`.
pub(crate) fn run() -> ExitCode {
    end_with_parent();
    let running = match pccl_master::spawn("127.0.0.1:0") {
        Ok(running) => running,
        Err(error) => {
            let error = error.to_string();
            tell(&Event::Failed { error });
            return ExitCode::FAILURE;
        }
    };
    let address = running.local_addr();
    tell(&Event::Listening { address });
    loop {
        match next_order() {
            Order::TellCpuTime => tell(&Event::CpuTime { ns: cpu_time() }),
            Order::JoinFloor { .. } | Order::Prepare(_) | Order::Measure(_) | Order::Go => {}
            Order::Quit => break,
        }
    }
    running.stop();
    ExitCode::SUCCESS
}

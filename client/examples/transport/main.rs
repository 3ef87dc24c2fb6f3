//! A transport of your own: this one counts what lanes carry. `cargo run --example transport`
//!
//! Two peers in one process reduce a million numbers, and say how many bytes that took. `metered.rs` needs nothing but
//! `pccl`.

mod metered;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::{error, panic, thread};

use pccl::{Communicator, Error, Reduce, Tcp};

use metered::{Meter, Metered};

const COUNT: usize = 1_000_000;

fn main() -> Result<(), Box<dyn error::Error>> {
    let running = pccl_master::spawn("127.0.0.1:0")?;
    let master = running.local_addr().to_string();
    thread::scope(|both| {
        let other = both.spawn(|| peer(&master));
        peer(&master)?;
        other
            .join()
            .unwrap_or_else(|cause| panic::resume_unwind(cause))
    })?;
    Ok(())
}

fn peer(master: &str) -> Result<(), Error> {
    let meter = Arc::new(Meter::default());
    let transport = Metered::new(Tcp::new(), Arc::clone(&meter));
    let mut comm = Communicator::builder(master)
        .transport(transport)
        .connect()?;
    while comm.world_size() < 2 {
        comm.update_topology()?;
    }
    let sent_before = meter.sent.load(Ordering::Relaxed);
    let mut numbers = vec![1.0_f32; COUNT];
    comm.all_reduce(&mut numbers, Reduce::sum())?;
    let sent = meter.sent.load(Ordering::Relaxed) - sent_before;
    println!("{}: {sent} bytes sent for 4000000", comm.peer_id());
    assert!(numbers.iter().all(|sum| *sum == 2.0));
    // Of two peers each sends half of its own numbers and half of the sums.
    assert!(sent >= 4_000_000, "frames that nobody counted");
    Ok(())
}

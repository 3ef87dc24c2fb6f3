//! The shortest useful program: two peers add up their numbers. `cargo run --example hello`
//!
//! Here everything lives in one process. In earnest the master is a program of its own
//! (`pccl-master`), and every peer is a process on a machine of its own that runs what `peer` does.

use std::{error, panic, thread};

use pccl::{Communicator, Error, Reduce};

fn main() -> Result<(), Box<dyn error::Error>> {
    // The master knows who takes part; the numbers never pass through it. Port 0: any free one.
    let running = pccl_master::spawn("127.0.0.1:0")?;
    let master = running.local_addr().to_string();
    thread::scope(|both| {
        let other = both.spawn(|| peer(&master, [1.0, 2.0, 3.0]));
        peer(&master, [10.0, 20.0, 30.0])?;
        other
            .join()
            .unwrap_or_else(|cause| panic::resume_unwind(cause))
    })?;
    Ok(())
}

fn peer(master: &str, mut numbers: [f32; 3]) -> Result<(), Error> {
    // Who comes second waits in here until the first one lets it in.
    let mut comm = Communicator::builder(master).connect()?;
    while comm.world_size() < 2 {
        comm.update_topology()?; // lets in who waits
    }
    // Every peer calls this with its own numbers and gets the same sums. Had a peer died meanwhile,
    // the call would fail with the numbers as they were, and the others would make it again.
    comm.all_reduce(&mut numbers, Reduce::sum())?;
    println!("{}: the sums are {numbers:?}", comm.peer_id());
    assert_eq!(numbers, [11.0, 22.0, 33.0]);
    Ok(())
}

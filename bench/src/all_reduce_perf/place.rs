//! On which core a rank runs.
//!
//! Where the system puts two ranks on one core, one of them goes to sleep as the other goes on; on two
//! cores each wakes the other across them, which costs both of them more. Small reduces take half as long
//! again then, ours and the floor's, and the system may decide differently for the two. Bound ranks make
//! them comparable.

use std::io;

/// Keeps this thread, and those that it will start, on one core: one rank after the other on the next
/// of those that this process may use.
#[cfg(target_os = "linux")]
pub(crate) fn bind(rank: usize) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    let allowed = sched_getaffinity(None)?;
    let cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let cores: Vec<usize> = cores.collect();
    let mut own = CpuSet::new();
    for core in cores.iter().cycle().skip(rank).take(1) {
        own.set(*core);
    }
    Ok(sched_setaffinity(None, &own)?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn bind(_rank: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

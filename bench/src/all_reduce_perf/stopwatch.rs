//! Time on the wall, and CPU time of this process.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// User and system time of all threads of this process so far, in nanoseconds.
pub(crate) fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, ns) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + ns
}

/// Nanoseconds since `begun`.
pub(crate) fn ns_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

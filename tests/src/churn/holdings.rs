//! What this process holds: of the system, as Linux tells it in `/proc`, and of its heap, as its allocator has counted.

use std::alloc::System;
use std::fs;
use std::io;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use super::talk::Holdings;

/// The allocator of a program whose heap is to be counted.
pub const COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Reads what this process holds. The heap is 0 if the program has another allocator than [`COUNTED`].
///
/// # Errors
/// There is no `/proc`.
pub fn own_holdings() -> io::Result<Holdings> {
    let heap = COUNTED.stats();
    let status = fs::read_to_string("/proc/self/status")?;
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let first = line.and_then(|line| line.split_whitespace().next());
        first.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    Ok(Holdings {
        descriptors: fs::read_dir("/proc/self/fd")?.count() as u64,
        threads: number("Threads:"),
        heap_bytes: (heap.bytes_allocated as u64).saturating_sub(heap.bytes_deallocated as u64),
        memory_kib: number("RssAnon:"),
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_holds_what_it_has_opened() {
        let before = own_holdings().unwrap();
        let files: Vec<_> = (0..50)
            .map(|_| fs::File::open("/proc/self/status").unwrap())
            .collect();

        let after = own_holdings().unwrap();

        // Other tests of this process open and close as well.
        assert!(after.descriptors >= before.descriptors + 25);
        assert!(after.threads >= 1 && after.memory_kib > 0);
        assert_eq!(
            after.heap_bytes, 0,
            "this program has the system's allocator"
        );
        drop(files);
    }
}

//! What a process holds of the system, as Linux tells it in `/proc`.

use std::fs;
use std::io;

use super::talk::Holdings;

/// Reads what a process holds: `self`, or the number by which the system knows it.
///
/// # Errors
/// There is no such process, or no `/proc`.
pub fn holdings_of(process: &str) -> io::Result<Holdings> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let first = line.and_then(|line| line.split_whitespace().next());
        first.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    Ok(Holdings {
        descriptors: fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64,
        threads: number("Threads:"),
        memory_kib: number("RssAnon:"),
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_holds_what_it_has_opened() {
        let before = holdings_of("self").unwrap();
        let files: Vec<_> = (0..50)
            .map(|_| fs::File::open("/proc/self/status").unwrap())
            .collect();

        let after = holdings_of("self").unwrap();

        // Other tests of this process open and close as well.
        assert!(after.descriptors >= before.descriptors + 25);
        assert!(after.threads >= 1 && after.memory_kib > 0);
        drop(files);
    }
}

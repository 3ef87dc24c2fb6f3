//! How much memory a peer has while it reduces in place.

use std::path::Path;

use pccl_tests::contribution::SLOTS;
use pccl_tests::processes::{Swarm, Trouble};
use pccl_tests::roles::MasterOptions;
use pccl_tests::scripted::PeerOptions;

/// Reduces that each peer has done when it is measured: what grows from one to the next would show.
const REDUCES: usize = 3;

const MIB: u64 = 1024 * 1024;

/// Lets two peers in processes of their own reduce a buffer of so many bytes in place, and returns the
/// most memory, in bytes, that either has had at any time. A peer's own memory is the buffer, and next
/// to nothing besides. Only on Linux.
///
/// # Errors
/// Whatever goes wrong with the processes.
pub fn peak(program: &Path, buffer_bytes: u64) -> Result<u64, Trouble> {
    let mut swarm = Swarm::of(program);
    let (_, master) = swarm.start_master(&MasterOptions::default())?;
    let elements = usize::try_from(buffer_bytes).unwrap_or(usize::MAX) / size_of::<f32>();
    let options = PeerOptions {
        elements: elements.max(SLOTS),
        ..PeerOptions::of(master)
    };
    let members = swarm.join_all(&options, 2)?;
    for _ in 1..REDUCES {
        swarm.until_all_commit(&members)?;
    }
    let peaks = members.iter();
    let mut peaks = peaks.map(|member| swarm.peak_memory(member.process));
    peaks.try_fold(0, |most, peak| Ok(most.max(peak?)))
}

/// The most memory that a peer may have had: its buffer, a backup of it, 5 % of both for what the
/// system needs to keep track of them, and 64 MiB.
#[must_use]
pub const fn allowed(buffer_bytes: u64) -> u64 {
    buffer_bytes / 10 * 21 + 64 * MIB
}

/// In words.
#[must_use]
pub fn words(buffer_bytes: u64, peak: u64) -> String {
    let reached = peak <= allowed(buffer_bytes);
    let verdict = if reached { "reached" } else { "MISSED" };
    let beyond = peak.saturating_sub(2 * buffer_bytes) as f64 / MIB as f64;
    format!(
        "2 peers reduce {0} MiB of f32 in place: a peer has at most {1} MiB, that is {beyond:.1} MiB besides \
         the buffer and its backup; the aim, at most 2.1 * {0} MiB + 64 MiB = {2} MiB in all, is {verdict}",
        buffer_bytes / MIB,
        peak / MIB,
        allowed(buffer_bytes) / MIB,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_may_have_2_1_times_its_buffer_and_64_mib() {
        assert_eq!(allowed(1000 * MIB), (2100 + 64) * MIB);
        assert_eq!(allowed(0), 64 * MIB);
    }

    #[test]
    fn one_byte_more_than_allowed_misses_the_aim() {
        let bytes = 100 * MIB;
        let said = [allowed(bytes), allowed(bytes) + 1].map(|peak| words(bytes, peak));

        assert!(
            said[0].ends_with("2.1 * 100 MiB + 64 MiB = 274 MiB in all, is reached"),
            "{}",
            said[0]
        );
        assert!(said[1].ends_with("MISSED"), "{}", said[1]);
    }
}

//! How much memory the program holds, so that a search without end stops before the machine does.

/// Bytes of this process in main memory. `None`: this system does not tell.
pub(crate) fn in_use() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_taken_is_counted() {
        let before = super::in_use().expect("Linux tells");
        let taken = vec![1_u8; 64 << 20];

        let after = super::in_use().expect("Linux tells");

        assert!(after >= before + (32 << 20), "{before}, then {after}");
        assert_eq!(
            taken.iter().map(|one| usize::from(*one)).sum::<usize>(),
            64 << 20
        );
    }
}

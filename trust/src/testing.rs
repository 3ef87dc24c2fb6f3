//! What several tests need.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::base32;

/// Fails if the text shows the bytes in any way in which bytes are printed.
pub(crate) fn assert_hides(text: &str, bytes: &[u8]) {
    let text = text.to_lowercase();
    // A part of them would already be too much.
    for part in bytes.chunks(8) {
        let hex: String = part.iter().map(|byte| format!("{byte:02x}")).collect();
        let decimal: Vec<String> = part.iter().map(u8::to_string).collect();
        let pairs: Vec<_> = part.iter().map(|byte| format!("{byte:02x}")).collect();
        for shown in [
            pairs.join(", "),
            hex,
            decimal.join(", "),
            decimal.join(",\n    "),
            decimal.join(","),
        ] {
            assert!(!text.contains(&shown), "{text} shows {shown}");
        }
    }
    let letters = base32::encode(bytes);
    for start in (0..letters.len() - 12).step_by(4) {
        let shown = &letters[start..start + 12];
        assert!(!text.contains(shown), "{text} shows {shown}");
    }
}

/// A directory of its own for a test, removed afterwards.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pccl-trust-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

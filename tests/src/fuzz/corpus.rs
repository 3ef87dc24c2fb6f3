//! The kept inputs of the fuzz targets: `tests/corpus/TARGET`, a file for each.
//!
//! Most of them were found by libFuzzer, which keeps an input if it takes a path that no other one takes. Inputs that
//! have found a defect are kept as well.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of a target's kept inputs.
#[must_use]
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target)
}

/// The kept inputs of a target, in the order of their files' names. Empty if there is no folder.
///
/// # Panics
/// A file cannot be read.
#[must_use]
pub fn kept(target: &str) -> Vec<Vec<u8>> {
    let Ok(folder) = fs::read_dir(folder(target)) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = folder
        .map(|file| file.expect("a file of the corpus").path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| fs::read(file).expect("a file of the corpus"))
        .collect()
}

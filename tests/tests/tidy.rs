//! Rules for every source file of the repository that neither the compiler nor clippy checks.
//!
//! The rule against `_` arms over our own enums in `core` is checked by clippy (`wildcard_enum_match_arm`,
//! in `core/src/lib.rs`): that check needs types, and this test sees only text.

use std::fs;
use std::path::{Path, PathBuf};

/// A longer file is usually about more than one thing.
const LINES_MAX: usize = 600;

/// A source file: its path from the root of the workspace, and its text.
struct Source {
    path: PathBuf,
    text: String,
}

/// The source files of all crates, including those excluded from the workspace.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the folder of the workspace");
    let mut sources = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder that can be read") {
            let entry = entry.expect("an entry that can be read");
            let path = entry.path();
            // `file_type` does not follow symbolic links, which may form a cycle.
            if entry.file_type().expect("the type of an entry").is_dir() {
                if !is_build_output_or_hidden(&path) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file in UTF-8");
                let path = path.strip_prefix(root).expect("a path below the root");
                let path = path.to_path_buf();
                sources.push(Source { path, text });
            }
        }
    }
    sources
}

/// Whether this is a build directory, which cargo tags whatever its name, or a hidden one.
fn is_build_output_or_hidden(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name == "target" || name.starts_with('.'))
        || folder.join("CACHEDIR.TAG").exists()
}

/// The files that violate a rule and how, one per line, sorted. `violation` takes a file's text.
fn violations(violation: impl Fn(&str) -> Option<String>) -> String {
    let lines = sources().into_iter().filter_map(|source| {
        let violation = violation(&source.text)?;
        Some(format!("{}: {violation}\n", source.path.display()))
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines.concat()
}

#[test]
fn the_files_of_all_crates_are_checked() {
    let sources = sources();

    for path in [
        file!(),
        "core/src/lib.rs",
        "core/no-std-check/src/lib.rs",
        "client/examples/hello.rs",
    ] {
        let checked = sources.iter().any(|source| source.path == Path::new(path));
        assert!(checked, "{path} was not checked");
    }
}

#[test]
fn every_file_opens_with_its_purpose() {
    let without = violations(|text| {
        let first = text.lines().next().unwrap_or_default();
        let purpose = first.strip_prefix("//!").map_or("", str::trim);
        purpose
            .is_empty()
            .then(|| format!("opens with {first:?}, not with `//!` and its purpose"))
    });

    assert!(without.is_empty(), "\n{without}");
}

/// The pages of the documentation whose tables name tests.
const PAGES: [&str; 1] = ["docs/hostile.md"];

#[test]
fn every_test_that_a_page_names_exists() {
    let sources = sources();
    let defined: Vec<&str> = sources
        .iter()
        .flat_map(|source| source.text.split("fn ").skip(1))
        .map(|rest| rest.split(['(', '<']).next().unwrap_or_default())
        .collect();
    for page in PAGES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = fs::read_to_string(root.join(page)).expect("a page");
        // Words in code style; other names have fewer words than the name of a test.
        let words = text.split('`').skip(1).step_by(2);
        let named = words.filter(|word| word.matches('_').count() >= 4 && !word.contains(' '));
        let missing: Vec<&str> = named
            .clone()
            .filter(|name| !defined.contains(name))
            .collect();

        assert_eq!(missing, <[&str; 0]>::default(), "{page} names them");
        assert!(named.count() > 10, "{page} names hardly any test");
    }
}

#[test]
fn no_file_is_longer_than_six_hundred_lines() {
    let too_long = violations(|text| {
        let lines = text.lines().count();
        (lines > LINES_MAX).then(|| format!("{lines} lines; the maximum is {LINES_MAX}"))
    });

    assert!(too_long.is_empty(), "\n{too_long}");
}

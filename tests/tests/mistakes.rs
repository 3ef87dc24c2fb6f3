//! The lists of mistakes fit the sources. The program `mistakes` makes them, and runs the checks that have to see them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pccl_tests::mistakes::{DRIVERS, Mistake};

fn all() -> impl Iterator<Item = &'static Mistake> {
    DRIVERS.iter()
}

#[test]
fn every_mistake_can_be_made() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    for mistake in all() {
        let source = fs::read_to_string(root.join(mistake.file));
        match source.map(|source| (mistake.make_in(&source), source)) {
            Ok((Ok(made), source)) if made == source => {
                wrong.push(format!("{}: nothing is changed", mistake.name));
            }
            Ok((Ok(_), _)) => {}
            Ok((Err(error), _)) => wrong.push(error.to_string()),
            Err(error) => wrong.push(format!("{}: {}: {error}", mistake.name, mistake.file)),
        }
    }

    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn each_mistake_has_a_name_of_its_own() {
    let mut names = BTreeSet::new();
    for mistake in all() {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
        assert!(mistake.name.chars().all(is_name), "{}", mistake.name);
        assert!(
            names.insert(mistake.name),
            "{} is there twice",
            mistake.name
        );
    }

    assert!(names.len() >= 18, "{} mistakes", names.len());
}

#[test]
fn a_text_that_is_there_twice_is_not_replaced() {
    let mistake = Mistake {
        edits: &[("a", "b")],
        ..*DRIVERS.first().expect("a mistake")
    };

    assert_eq!(mistake.make_in("can").as_deref(), Ok("cbn"));
    assert_eq!(mistake.make_in("banana").map_err(|e| e.times), Err(3));
    assert_eq!(mistake.make_in("no").map_err(|e| e.times), Err(0));
}

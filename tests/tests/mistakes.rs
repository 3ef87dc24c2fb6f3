//! The lists of mistakes fit the sources. The program `mistakes` makes them, and runs the checks that have to see them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pccl_tests::mistakes::{DRIVERS, FoundBy, LIMITS, Mistake};

fn all() -> impl Iterator<Item = &'static Mistake> {
    DRIVERS.iter().chain(LIMITS)
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

/// What may be wrong in docs/hostile.md without anybody noticing, and its tests say so.
const NOT_NOTICED: [&str; 1] = ["a_wrong_contribution_makes_the_result_wrong_and_the_same_on_all"];

#[test]
fn each_test_that_the_page_of_bounds_names_sees_a_bound_that_is_removed() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/hostile.md");
    let page = fs::read_to_string(page).expect("the page");
    let (tables, _) = page.split_once("## Fuzzing").expect("the tables");
    let words = tables.split('`').skip(1).step_by(2);
    // Other names have fewer words than that of a test.
    let named = words.filter(|word| word.matches('_').count() >= 4 && !word.contains(' '));
    let named: BTreeSet<&str> = named.collect();
    let test_of = |mistake: &Mistake| match mistake.found_by {
        FoundBy::Test { test, .. } => test.rsplit("::").next().unwrap_or(test),
        FoundBy::Simulator => panic!("{} has no test", mistake.name),
    };
    let proved: BTreeSet<&str> = LIMITS.iter().map(test_of).chain(NOT_NOTICED).collect();

    let unproved: Vec<_> = named.difference(&proved).collect();
    let unnamed: Vec<_> = proved.difference(&named).collect();

    assert!(unproved.is_empty(), "no mistake for {unproved:#?}");
    assert!(unnamed.is_empty(), "the page does not name {unnamed:#?}");
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

//! Keys in files: who gets which, and which files are refused.

use std::fs;
use std::sync::Barrier;
use std::thread;

use super::*;
use crate::testing::Scratch;

#[test]
fn two_key_pairs_that_are_made_are_different() {
    let one = KeyPair::generate().unwrap();
    let other = KeyPair::generate().unwrap();
    assert_ne!(one.public_key(), other.public_key());
}

#[test]
fn all_threads_of_a_process_get_its_one_key_pair() {
    let start = Barrier::new(8);
    let keys = thread::scope(|scope| {
        let ask = || {
            start.wait();
            KeyPair::of_process().unwrap().public_key()
        };
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asking
            .into_iter()
            .map(|asking| asking.join().unwrap())
            .collect::<Vec<_>>()
    });

    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

/// The first vector of RFC 8032, section 7.1.
#[test]
fn the_public_key_is_that_of_the_seed() {
    let bytes = |hex: &str| -> [u8; 32] {
        std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
    };
    let seed = bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
    let public = bytes("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    let pair = KeyPair::from_seed(&seed).unwrap();
    assert_eq!(pair.public_key(), PublicKey::from(public));
}

#[test]
fn derived_keys_depend_on_the_pair_the_purpose_and_the_subject_and_are_not_the_seed() {
    let seed = [7; 32];
    let pair = KeyPair::from_seed(&seed).unwrap();
    let key = pair.derive_key("purpose", b"subject");

    let again = KeyPair::from_seed(&seed).unwrap();
    assert_eq!(key, again.derive_key("purpose", b"subject"));
    let other = KeyPair::from_seed(&[8; 32]).unwrap();
    let others = [
        other.derive_key("purpose", b"subject"),
        pair.derive_key("another", b"subject"),
        pair.derive_key("purpose", b"subjects"),
        Zeroizing::new(seed),
        Zeroizing::new(*pair.public_key().as_bytes()),
    ];
    assert!(others.iter().all(|other| *other != key));
}

#[test]
fn a_directory_keeps_its_key() {
    let scratch = Scratch::new();
    let home = scratch.path().join("not/there/yet");
    let first = KeyPair::load_or_create(&home).unwrap();
    let again = KeyPair::load_or_create(&home).unwrap();
    assert_eq!(first.public_key(), again.public_key());
    assert_eq!(fs::read(home.join("key")).unwrap().len(), 32);
}

#[test]
fn those_who_make_a_key_at_once_get_the_same() {
    let scratch = Scratch::new();
    let start = Barrier::new(8);
    let keys = thread::scope(|scope| {
        let make = || {
            start.wait();
            KeyPair::load_or_create(scratch.path())
                .unwrap()
                .public_key()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
        let keys = threads.into_iter().map(|thread| thread.join().unwrap());
        keys.collect::<Vec<_>>()
    });
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[test]
fn a_file_that_is_no_key_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new();
    KeyPair::load_or_create(scratch.path()).unwrap();
    let path = scratch.path().join("key");
    for bytes in [0, 31, 33] {
        fs::write(&path, vec![7; bytes]).unwrap();
        match KeyPair::load_or_create(scratch.path()) {
            Err(KeyError::NotAKey { bytes: found, .. }) => assert_eq!(found, bytes),
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read(&path).unwrap(), vec![7; bytes]);
    }
    fs::write(&path, vec![7; 65]).unwrap();
    let why = KeyPair::load_or_create(scratch.path()).unwrap_err();
    assert!(
        matches!(why, KeyError::File(FileError::TooLong { .. })),
        "{why}"
    );
}

#[cfg(unix)]
mod permissions {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_key_and_its_directory_are_their_owners_alone() {
        let scratch = Scratch::new();
        let home = scratch.path().join("home");
        KeyPair::load_or_create(&home).unwrap();
        assert_eq!(mode(&home), 0o700);
        assert_eq!(mode(&home.join("key")), 0o600);
    }

    #[test]
    fn a_key_that_others_may_use_is_refused_with_what_to_do() {
        let scratch = Scratch::new();
        KeyPair::load_or_create(scratch.path()).unwrap();
        let path = scratch.path().join("key");
        for open in [0o644, 0o640, 0o604, 0o602, 0o610] {
            fs::set_permissions(&path, fs::Permissions::from_mode(open)).unwrap();
            let why = KeyPair::load_or_create(scratch.path()).unwrap_err();
            assert!(
                matches!(why, KeyError::File(FileError::OpenToOthers { mode, .. }) if mode == open),
                "{why}"
            );
            assert!(
                why.to_string()
                    .contains(&format!("chmod 600 {}", path.display())),
                "{why}"
            );
        }
        for closed in [0o600, 0o400] {
            fs::set_permissions(&path, fs::Permissions::from_mode(closed)).unwrap();
            KeyPair::load_or_create(scratch.path()).unwrap();
        }
    }

    /// A process that dies between writing a draft and giving it its name leaves it behind.
    #[test]
    fn a_draft_that_was_left_behind_is_not_written_into() {
        let scratch = Scratch::new();
        let draft = scratch.path().join("key.draft");
        fs::write(&draft, "left").unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o666)).unwrap();
        KeyPair::load_or_create(scratch.path()).unwrap();
        assert_eq!(mode(&scratch.path().join("key")), 0o600);
        assert!(!draft.exists());
    }
}

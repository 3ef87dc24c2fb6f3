//! Invitations in a file: what survives, and what several processes see of each other.

use std::fs;
use std::sync::Barrier;
use std::thread;

use super::*;
use crate::private_file::{self, FileError, Lock};
use crate::testing::Scratch;

const NOW: u64 = 1_800_000_000;

fn key(number: u8) -> PublicKey {
    PublicKey::from([number; 32])
}

fn binding() -> ChannelBinding {
    ChannelBinding::from([8; 32])
}

fn comes(
    master: &mut Invitations,
    secret: &Secret,
    peer: PublicKey,
) -> Result<Admitted, AdmitError> {
    let proof = Proof::new(secret, &binding(), &peer);
    master.verify(&proof, &binding(), peer, NOW)
}

fn refused(outcome: Result<Admitted, AdmitError>, with: Denial) {
    match outcome {
        Err(AdmitError::Refused(why)) => assert_eq!(why, with),
        other => panic!("{other:?}"),
    }
}

fn uses(uses: u32) -> Terms {
    Terms {
        uses: Some(uses),
        ..Terms::default()
    }
}

#[test]
fn all_of_it_survives_a_restart() {
    let scratch = Scratch::new();
    let mut master = Invitations::open(scratch.path()).unwrap();
    let (id, secret) = master.invite(uses(2), NOW).unwrap();
    let (ended, ended_secret) = master.invite(Terms::default(), NOW).unwrap();
    comes(&mut master, &secret, key(1)).unwrap();
    let _ = master.revoke(ended).unwrap();
    master.ban(key(7)).unwrap();
    let listed = master.list(NOW);
    drop(master);

    let mut master = Invitations::open(scratch.path()).unwrap();
    assert_eq!(master.list(NOW), listed);
    assert_eq!(master.membership(&key(1)), Membership::Member { by: id });
    assert_eq!(master.banned().collect::<Vec<_>>(), [key(7)]);
    assert_eq!(
        comes(&mut master, &secret, key(1)).unwrap(),
        Admitted::Again { by: id }
    );
    assert_eq!(
        comes(&mut master, &secret, key(2)).unwrap(),
        Admitted::First { by: id }
    );
    refused(comes(&mut master, &secret, key(3)), Denial::UsedUp(id));
    refused(
        comes(&mut master, &ended_secret, key(3)),
        Denial::Revoked(ended),
    );
    refused(comes(&mut master, &secret, key(7)), Denial::Banned);
}

#[test]
fn a_running_master_takes_an_invitation_that_another_process_adds_and_one_that_it_revokes() {
    let scratch = Scratch::new();
    let mut master = Invitations::open(scratch.path()).unwrap();
    let mut operator = Invitations::open(scratch.path()).unwrap();

    let (id, secret) = operator.invite(Terms::default(), NOW).unwrap();
    assert_eq!(
        comes(&mut master, &secret, key(1)).unwrap(),
        Admitted::First { by: id }
    );

    assert_eq!(operator.revoke(id).unwrap().members, [key(1)]);
    refused(comes(&mut master, &secret, key(1)), Denial::Revoked(id));
}

#[test]
fn what_another_process_has_changed_is_seen_once() {
    let scratch = Scratch::new();
    let mut master = Invitations::open(scratch.path()).unwrap();
    let mut operator = Invitations::open(scratch.path()).unwrap();
    assert!(!master.reload_if_changed().unwrap());

    let (id, _) = operator.invite(Terms::default(), NOW).unwrap();
    assert!(master.reload_if_changed().unwrap());
    assert!(!master.reload_if_changed().unwrap());
    assert_eq!(master.list(NOW)[0].id, id);

    // Two changes of the same length in one tick of the clock are still changes.
    for _ in 0..50 {
        operator.ban(key(1)).unwrap();
        assert!(master.reload_if_changed().unwrap());
        operator.unban(&key(1)).unwrap();
        operator.ban(key(2)).unwrap();
        assert!(master.reload_if_changed().unwrap());
        assert_eq!(master.membership(&key(1)), Membership::Stranger);
        operator.unban(&key(2)).unwrap();
        assert!(master.reload_if_changed().unwrap());
    }
    // One's own changes are no news.
    master.ban(key(3)).unwrap();
    assert!(!master.reload_if_changed().unwrap());
}

/// A clock that stands still, or is set back, hides no change.
#[cfg(unix)]
#[test]
fn a_change_of_the_same_length_and_time_is_seen() {
    let scratch = Scratch::new();
    let path = scratch.path().join("invitations");
    let mut operator = Invitations::open(scratch.path()).unwrap();
    operator.ban(key(1)).unwrap();
    let mut master = Invitations::open(scratch.path()).unwrap();
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    operator.unban(&key(1)).unwrap();
    operator.ban(key(2)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_modified(time).unwrap();
    assert!(master.reload_if_changed().unwrap());
    assert_eq!(master.membership(&key(2)), Membership::Banned);
}

#[test]
fn those_who_change_it_at_once_lose_nothing_and_admit_no_more_than_they_may() {
    const EACH: u8 = 6;
    let scratch = Scratch::new();
    let (id, secret) = Invitations::open(scratch.path())
        .unwrap()
        .invite(uses(10), NOW)
        .unwrap();
    let (start, home) = (Barrier::new(4), scratch.path());
    let admitted: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (start, secret) = (&start, &secret);
                scope.spawn(move || {
                    let mut mine = Invitations::open(home).unwrap();
                    start.wait();
                    (0..EACH)
                        .filter(|number| {
                            mine.invite(Terms::default(), NOW).unwrap();
                            comes(&mut mine, secret, key(1 + thread * EACH + number)).is_ok()
                        })
                        .count()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(admitted, 10);
    let all = Invitations::open(scratch.path()).unwrap();
    assert_eq!(all.list(NOW).len(), 1 + 4 * usize::from(EACH));
    let first = all
        .list(NOW)
        .into_iter()
        .find(|invitation| invitation.id == id)
        .unwrap();
    assert_eq!((first.uses_left, first.members), (Some(0), 10));
}

#[test]
fn a_master_that_restarts_has_the_same_lasting_invitation() {
    let scratch = Scratch::new();
    let lasting = || {
        let mut master = Invitations::open(scratch.path()).unwrap();
        master.invite(uses(1), NOW).unwrap();
        master.lasting(NOW).unwrap()
    };
    let (id, secret) = lasting();
    assert_eq!(lasting(), (id, secret));
    let _ = Invitations::open(scratch.path())
        .unwrap()
        .revoke(id)
        .unwrap();
    assert_ne!(lasting().0, id);
}

#[test]
fn without_a_directory_the_same_rules_hold() {
    let mut master = Invitations::in_memory();
    let (id, secret) = master.invite(uses(1), NOW).unwrap();
    assert_eq!(
        comes(&mut master, &secret, key(1)).unwrap(),
        Admitted::First { by: id }
    );
    refused(comes(&mut master, &secret, key(2)), Denial::UsedUp(id));
    assert!(!master.reload_if_changed().unwrap());
    assert!(matches!(
        master.revoke(InvitationId::of(&Secret::from([0; 32]))),
        Err(InvitationError::NotThere(_))
    ));
}

#[test]
fn a_damaged_file_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new();
    let mut master = Invitations::open(scratch.path()).unwrap();
    master.invite(Terms::default(), NOW).unwrap();
    let path = scratch.path().join("invitations");
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[30] ^= 1;
    for bad in [&flipped[..], &whole[..whole.len() - 1], &[]] {
        let lock = Lock::take(scratch.path()).unwrap();
        private_file::replace(&path, bad).unwrap();
        drop(lock);
        for outcome in [
            Invitations::open(scratch.path()).map(drop),
            master.reload_if_changed().map(drop),
            master.ban(key(1)),
        ] {
            assert!(
                matches!(outcome, Err(InvitationError::Damaged { .. })),
                "{outcome:?}"
            );
        }
        assert_eq!(fs::read(&path).unwrap(), bad);
    }
}

#[test]
fn a_deleted_file_ends_everything() {
    let scratch = Scratch::new();
    let mut master = Invitations::open(scratch.path()).unwrap();
    let (_, secret) = master.invite(Terms::default(), NOW).unwrap();
    comes(&mut master, &secret, key(1)).unwrap();
    fs::remove_file(scratch.path().join("invitations")).unwrap();
    refused(comes(&mut master, &secret, key(1)), Denial::Unknown);
}

/// Where it cannot be written down that a use is taken, it is not taken, and nobody comes in.
#[cfg(unix)]
#[test]
fn a_newcomer_that_cannot_be_written_down_is_not_let_in() {
    let scratch = Scratch::new();
    let mut master = Invitations::open(scratch.path()).unwrap();
    let (id, secret) = master.invite(uses(1), NOW).unwrap();
    // A directory where the draft goes cannot be removed like a file, by root neither.
    let draft = scratch.path().join("invitations.draft");
    fs::create_dir(&draft).unwrap();
    let outcome = comes(&mut master, &secret, key(1));
    assert!(
        matches!(
            outcome,
            Err(AdmitError::Store(InvitationError::File(
                FileError::Io { .. }
            )))
        ),
        "{outcome:?}"
    );
    assert_eq!(master.membership(&key(1)), Membership::Stranger);
    fs::remove_dir(&draft).unwrap();
    assert_eq!(
        comes(&mut master, &secret, key(1)).unwrap(),
        Admitted::First { by: id }
    );
}

#[cfg(unix)]
#[test]
fn a_file_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let scratch = Scratch::new();
    let mut master = Invitations::open(scratch.path()).unwrap();
    master.invite(Terms::default(), NOW).unwrap();
    let path = scratch.path().join("invitations");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let why = Invitations::open(scratch.path()).unwrap_err();
    assert!(
        matches!(
            why,
            InvitationError::File(FileError::OpenToOthers { mode: 0o644, .. })
        ),
        "{why}"
    );
}

#[test]
fn the_largest_book_fits_into_the_file() {
    use book::{BANNED_MAX, INVITATIONS_MAX, MEMBERS_MAX};

    let scratch = Scratch::new();
    let mut file = BookFile::new(scratch.path()).unwrap();
    let mut book = Book::default();
    let secret = |number: usize| {
        let mut bytes = [0xff; 32];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        Secret::from(bytes)
    };
    // Numbers whose written form is the longest.
    let late = u64::MAX - 1;
    let terms = Terms {
        ttl: Some(Duration::from_secs(1)),
        uses: Some(u32::MAX),
    };
    for number in 0..INVITATIONS_MAX {
        book.invite(secret(number), terms, late).unwrap();
    }
    for number in 0..MEMBERS_MAX.max(BANNED_MAX) {
        book.fill_for_test(PublicKey::from(*secret(number).expose()), late);
    }
    let lock = file.lock().unwrap();
    file.save(&book, &lock).unwrap();
    assert_eq!(file.load().unwrap(), book);
}

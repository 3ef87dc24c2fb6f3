//! Who is let in, by which invitation, and until when.

use std::time::Duration;

use super::*;

const NOW: u64 = 1_800_000_000;

fn key(number: u16) -> PublicKey {
    let mut bytes = [0; 32];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    PublicKey::from(bytes)
}

fn binding() -> ChannelBinding {
    ChannelBinding::from([8; 32])
}

/// A book with one invitation.
struct Story {
    book: Book,
    id: InvitationId,
    secret: Secret,
}

impl Story {
    fn new(ttl: Option<u64>, uses: Option<u32>) -> Self {
        let mut book = Book::default();
        let (id, secret) = invite(&mut book, 1, ttl, uses);
        Self { book, id, secret }
    }

    fn comes(&mut self, peer: u16, now: u64) -> Result<Admitted, Denial> {
        comes(&mut self.book, &self.secret, peer, now)
    }
}

fn invite(
    book: &mut Book,
    number: u8,
    ttl: Option<u64>,
    uses: Option<u32>,
) -> (InvitationId, Secret) {
    let secret = Secret::from([number; 32]);
    let terms = Terms {
        ttl: ttl.map(Duration::from_secs),
        uses,
    };
    let id = book.invite(secret.clone(), terms, NOW).unwrap();
    (id, secret)
}

fn comes(book: &mut Book, secret: &Secret, peer: u16, now: u64) -> Result<Admitted, Denial> {
    let proof = Proof::new(secret, &binding(), &key(peer));
    book.admit(&proof, &binding(), key(peer), now)
}

#[test]
fn an_invitation_holds_until_the_second_in_which_it_ends() {
    let mut story = Story::new(Some(60), None);
    let by = story.id;
    assert_eq!(story.comes(1, NOW + 59), Ok(Admitted::First { by }));
    assert_eq!(story.comes(2, NOW + 60), Err(Denial::Expired(by)));
}

#[test]
fn an_invitation_lets_in_as_many_as_it_says_however_often_they_come() {
    let mut story = Story::new(None, Some(2));
    let by = story.id;
    assert_eq!(story.comes(1, NOW), Ok(Admitted::First { by }));
    for _ in 0..5 {
        assert_eq!(story.comes(1, NOW), Ok(Admitted::Again { by }));
    }
    assert_eq!(story.comes(2, NOW), Ok(Admitted::First { by }));
    assert_eq!(story.comes(3, NOW), Err(Denial::UsedUp(by)));
}

#[test]
fn a_member_comes_again_by_its_key_alone_after_its_invitation_has_ended() {
    let mut story = Story::new(Some(60), Some(1));
    let by = story.id;
    story.comes(1, NOW).unwrap();
    let wrong = Secret::from([99; 32]);
    for now in [NOW, NOW + 60, u64::MAX] {
        let again = comes(&mut story.book, &wrong, 1, now);
        assert_eq!(again, Ok(Admitted::Again { by }));
    }
    assert_eq!(comes(&mut story.book, &wrong, 2, NOW), Err(Denial::Unknown));
}

#[test]
fn a_revoked_invitation_lets_nobody_in_and_its_members_go() {
    let mut story = Story::new(None, None);
    let (other, other_secret) = invite(&mut story.book, 2, None, None);
    story.comes(1, NOW).unwrap();
    comes(&mut story.book, &other_secret, 2, NOW).unwrap();

    let gone = story.book.revoke(story.id).unwrap();
    assert_eq!(gone.members, [key(1)]);
    assert_eq!(story.book.membership(&key(1)), Membership::Stranger);
    assert_eq!(story.comes(1, NOW), Err(Denial::Revoked(story.id)));
    assert_eq!(story.comes(3, NOW), Err(Denial::Revoked(story.id)));
    // Who came by another one stays, and who has another one comes back.
    assert_eq!(
        story.book.membership(&key(2)),
        Membership::Member { by: other }
    );
    let back = comes(&mut story.book, &other_secret, 1, NOW);
    assert_eq!(back, Ok(Admitted::First { by: other }));
}

#[test]
fn revoking_twice_does_nothing_and_revoking_what_is_not_there_is_told() {
    let mut story = Story::new(None, None);
    story.comes(1, NOW).unwrap();
    assert_eq!(story.book.revoke(story.id).unwrap().members.len(), 1);
    assert_eq!(story.book.revoke(story.id).unwrap().members.len(), 0);
    let other = InvitationId::of(&Secret::from([77; 32]));
    assert_eq!(story.book.revoke(other), None);
}

/// Who guesses learns nothing about invitations that have ended.
#[test]
fn only_who_has_the_secret_is_told_why_it_does_not_help() {
    let mut book = Book::default();
    let (revoked, revoked_secret) = invite(&mut book, 1, None, None);
    let (expired, expired_secret) = invite(&mut book, 2, Some(0), None);
    let (used_up, used_up_secret) = invite(&mut book, 3, None, Some(0));
    let _ = book.revoke(revoked).unwrap();
    assert_eq!(
        comes(&mut book, &revoked_secret, 1, NOW),
        Err(Denial::Revoked(revoked))
    );
    assert_eq!(
        comes(&mut book, &expired_secret, 1, NOW),
        Err(Denial::Expired(expired))
    );
    assert_eq!(
        comes(&mut book, &used_up_secret, 1, NOW),
        Err(Denial::UsedUp(used_up))
    );
    let guess = Secret::from([4; 32]);
    assert_eq!(comes(&mut book, &guess, 1, NOW), Err(Denial::Unknown));
}

#[test]
fn who_is_refused_is_not_remembered_and_takes_no_use() {
    let mut story = Story::new(Some(60), Some(3));
    let before = story.book.clone();
    assert!(story.comes(1, NOW + 60).is_err());
    assert!(comes(&mut story.book, &Secret::from([9; 32]), 1, NOW).is_err());
    assert_eq!(story.book, before);
}

#[test]
fn a_banned_key_stays_out_whatever_it_proves_until_the_ban_is_lifted() {
    let mut story = Story::new(None, None);
    let by = story.id;
    story.comes(1, NOW).unwrap();
    story.book.ban(key(1)).unwrap();
    assert_eq!(story.book.membership(&key(1)), Membership::Banned);
    assert_eq!(story.comes(1, NOW), Err(Denial::Banned));
    assert_eq!(story.comes(2, NOW), Ok(Admitted::First { by }));
    assert!(story.book.unban(&key(1)));
    assert!(!story.book.unban(&key(1)));
    assert_eq!(story.book.membership(&key(1)), Membership::Stranger);
    assert_eq!(story.comes(1, NOW), Ok(Admitted::First { by }));
}

#[test]
fn the_list_says_all_but_the_secret() {
    let mut story = Story::new(Some(60), Some(2));
    story.comes(1, NOW).unwrap();
    let expected = Invitation {
        id: story.id,
        state: State::Live,
        made_at: NOW,
        expires_at: Some(NOW + 60),
        uses_left: Some(1),
        members: 1,
    };
    assert_eq!(story.book.list(NOW), std::slice::from_ref(&expected));
    let expired = Invitation {
        state: State::Expired,
        ..expected
    };
    assert_eq!(story.book.list(NOW + 60), [expired]);
}

#[test]
fn an_ended_invitation_makes_room_and_a_live_one_does_not() {
    let mut book = Book::default();
    let secret = |number: usize| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        Secret::from(bytes)
    };
    let short = Terms {
        ttl: Some(Duration::from_secs(1)),
        uses: None,
    };
    book.invite(secret(0), short, NOW).unwrap();
    for number in 1..INVITATIONS_MAX {
        book.invite(secret(number), Terms::default(), NOW).unwrap();
    }
    let before = book.clone();
    assert_eq!(book.invite(secret(9999), Terms::default(), NOW), Err(Full));
    assert_eq!(book, before);
    assert!(book.invite(secret(9999), Terms::default(), NOW + 1).is_ok());
    assert_eq!(
        book.invite(secret(9998), Terms::default(), NOW + 1),
        Err(Full)
    );
    assert_eq!(comes(&mut book, &secret(0), 1, NOW), Err(Denial::Unknown));
}

#[test]
fn of_too_many_members_the_first_is_a_stranger_again() {
    let mut story = Story::new(None, None);
    let by = story.id;
    let member = |since| Member { by, since };
    for number in 0..MEMBERS_MAX {
        let number = u16::try_from(number).unwrap();
        story
            .book
            .members
            .insert(key(number), member(NOW + u64::from(number != 5)));
    }
    assert_eq!(story.comes(u16::MAX, NOW + 2), Ok(Admitted::First { by }));
    assert_eq!(story.book.members.len(), MEMBERS_MAX);
    assert_eq!(story.book.membership(&key(5)), Membership::Stranger);
    assert_eq!(
        story.book.membership(&key(u16::MAX)),
        Membership::Member { by }
    );
}

#[test]
fn an_invitation_can_be_asked_how_it_stands() {
    let mut story = Story::new(Some(60), Some(1));
    assert_eq!(story.book.state(story.id, NOW), Some(State::Live));
    assert_eq!(story.book.state(story.id, NOW + 60), Some(State::Expired));
    story.comes(1, NOW).unwrap();
    assert_eq!(story.book.state(story.id, NOW), Some(State::UsedUp));
    let _ = story.book.revoke(story.id).unwrap();
    assert_eq!(story.book.state(story.id, NOW), Some(State::Revoked));

    let (other, _) = invite(&mut Book::default(), 2, None, None);
    assert_eq!(story.book.state(other, NOW), None);
}

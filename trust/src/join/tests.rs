//! Words that come back, words that do not, and words that somebody made up.

use proptest::prelude::*;

use super::*;

fn join(addresses: &[&str]) -> JoinString {
    let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
    JoinString::new(
        Via::Tls,
        addresses,
        PublicKey::from([3; 32]),
        Secret::from([5; 32]),
    )
    .unwrap()
}

#[test]
fn a_join_string_comes_back_from_its_word() {
    for addresses in [
        &["192.0.2.7:48148"][..],
        &["[2001:db8::7]:48148", "master.example:48148"],
        &["a:1", "b:2", "c:3", "d:4"],
    ] {
        let join = join(addresses);
        assert_eq!(join.to_word().parse(), Ok(join));
    }
}

#[test]
fn the_longest_names_fit() {
    let longest = format!("{}:65535", "n".repeat(253));
    let join = join(&[longest.as_str(); 4]);
    let word = join.to_word();
    assert!(word.len() <= WORD_MAX);
    assert_eq!(word.parse(), Ok(join));
}

#[test]
fn a_word_needs_no_quotes_in_a_shell_or_in_yaml() {
    let word = join(&["master.example:48148"]).to_word();
    assert!(
        word.bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'))
    );
    assert!(word.starts_with("pccl1"));
}

#[test]
fn white_space_around_a_word_and_capitals_do_no_harm() {
    let join = join(&["192.0.2.7:48148"]);
    let word = format!("  {}\n", join.to_word().to_uppercase());
    assert_eq!(word.parse(), Ok(join));
}

#[test]
fn a_join_string_is_told_from_host_and_port() {
    assert!(JoinString::is_meant(&join(&["h:1"]).to_word()));
    assert!(JoinString::is_meant("pccl2abc"));
    for other in [
        "pccl1:48148",
        "master.example:48148",
        "pccl",
        "",
        "pcclé",
        "192.0.2.7:1",
    ] {
        assert!(!JoinString::is_meant(other), "{other}");
    }
}

#[test]
fn what_is_wrong_with_a_word_is_said() {
    let word = join(&["192.0.2.7:48148"]).to_word();
    let read = |text: &str| text.parse::<JoinString>().unwrap_err();

    assert_eq!(read("master.example:48148"), JoinError::NotAJoinString);
    assert_eq!(
        read(&word.replacen("pccl1", "pccl2", 1)),
        JoinError::OtherVersion
    );
    assert_eq!(read(&word[..word.len() - 8]), JoinError::Damaged);
    assert_eq!(read("pccl1"), JoinError::Damaged);
    assert_eq!(
        read(&format!("{}=", *word)),
        JoinError::Character { character: '=' }
    );
    let long = format!("pccl1{}", "a".repeat(WORD_MAX));
    assert_eq!(read(&long), JoinError::TooLong { length: long.len() });
    // A checksum that fits, over content that does not.
    for content in [&[][..], &[7], &[0; 200]] {
        assert_eq!(read(&seal(content)), JoinError::Nonsense);
    }
}

#[test]
fn content_with_something_behind_it_or_an_impossible_address_makes_no_sense() {
    let word = join(&["192.0.2.7:48148"]).to_word();
    let content = unseal(&word).unwrap();
    let longer = [content.as_slice(), &[0]].concat();
    assert_eq!(
        seal(&longer).parse::<JoinString>(),
        Err(JoinError::Nonsense)
    );

    let content = Content {
        via: Via::Quic,
        first: Packed::Name("no host", 1),
        others: [None, None, None],
        master: PublicKey::from([0; 32]),
        secret: Secret::from([0; 32]),
    };
    let bytes = postcard::to_allocvec(&content).unwrap();
    assert_eq!(seal(&bytes).parse::<JoinString>(), Err(JoinError::Nonsense));
}

#[test]
fn a_join_string_has_one_to_four_addresses() {
    let address: Address = "h:1".parse().unwrap();
    for count in [0, 5] {
        let addresses = vec![address.clone(); count];
        let made = JoinString::new(
            Via::Tls,
            addresses,
            PublicKey::from([0; 32]),
            Secret::from([0; 32]),
        );
        assert_eq!(made, Err(JoinError::Addresses(count)));
    }
}

#[test]
fn debug_shows_address_and_key_but_not_the_secret() {
    let secret: [u8; 32] = std::array::from_fn(|i| (i * 7 + 130) as u8);
    let join = JoinString {
        secret: Secret::from(secret),
        ..join(&["master.example:48148"])
    };
    let shown = format!("{join:?} {join:#?}");
    assert!(shown.contains("master.example"));
    assert!(shown.contains(&PublicKey::from([3; 32]).to_string()));
    crate::testing::assert_hides(&shown, &secret);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}|(?i:pccl)[0-9]\\PC{0,200}|pccl1[a-z2-7]{0,300}") {
        let _ = text.parse::<JoinString>();
        let _ = JoinString::is_meant(&text);
    }

    #[test]
    fn any_content_is_read_or_refused_and_reads_the_same_again(
        content in prop::collection::vec(any::<u8>(), 0..300),
        first in 0u8..3,
    ) {
        let content = [&[0, first][..], &content].concat();
        if let Ok(join) = seal(&content).parse::<JoinString>() {
            prop_assert_eq!(join.to_word().parse::<JoinString>(), Ok(join));
        }
    }

    /// A typo is never taken for a secret that the master does not know.
    #[test]
    fn a_wrong_missing_or_doubled_character_is_noticed(at in 5usize..100, by in 1u8..32, kind in 0..4) {
        let word = join(&["192.0.2.7:48148"]).to_word();
        let mut bytes = word.as_bytes().to_vec();
        match kind {
            0 => {
                let alphabet = b"abcdefghijklmnopqrstuvwxyz234567";
                let here = alphabet.iter().position(|letter| *letter == bytes[at]).unwrap();
                bytes[at] = alphabet[(here + usize::from(by)) % 32];
            }
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, bytes[at]),
            _ => bytes.swap(at, at + 1),
        }
        let typed = String::from_utf8(bytes).unwrap();
        prop_assume!(typed != **word);
        prop_assert_eq!(typed.parse::<JoinString>(), Err(JoinError::Damaged));
    }
}

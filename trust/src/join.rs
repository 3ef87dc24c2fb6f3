//! Join strings: one word with all that a peer needs to find a run, to know its master, and to be let in.
//!
//! `pccl1`, then base32 in lower case without padding: the content as postcard, and the first four bytes
//! of the BLAKE3 of `pccl1` and that content. The number in front is the version of all of it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::address::{Address, Packed};
use crate::base32;
use crate::public_key::PublicKey;
use crate::secret::{Secret, exposed};

/// What every join string of this version begins with.
const PREFIX: &str = "pccl1";

/// Bytes of the checksum. One damaged word in four billion passes.
const CHECKSUM: usize = 4;

/// The most bytes that stand in a join string: four names of full length, two keys and a little.
const CONTENT_MAX: usize = 1152;

/// The most characters of a join string.
const WORD_MAX: usize = PREFIX.len() + ((CONTENT_MAX + CHECKSUM) * 8).div_ceil(5);

/// How a peer speaks to a master. (A master that speaks plain TCP has no join string: it could prove
/// neither its key nor a secret. Its peers are given `host:port`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Via {
    /// TLS 1.3 over TCP.
    Tls,
    /// QUIC, over UDP.
    Quic,
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls => "tls",
            Self::Quic => "quic",
        })
    }
}

impl FromStr for Via {
    type Err = NoSuchVia;

    /// As [`Display`](fmt::Display) writes it.
    fn from_str(text: &str) -> Result<Self, NoSuchVia> {
        match text {
            "tls" => Ok(Self::Tls),
            "quic" => Ok(Self::Quic),
            _ => Err(NoSuchVia),
        }
    }
}

/// A text that names no way to speak to a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("peers speak to a master over `tls` or over `quic`")]
pub struct NoSuchVia;

/// All that a peer needs to take part in a run.
///
/// Who has it is invited: keep it like a password. `Debug` does not show the secret, and there is no
/// `Display`: [`to_word`](Self::to_word) says that it gives the secret away.
///
/// ```
/// use pccl_trust::{JoinString, KeyPair, Secret, Via};
///
/// let master = KeyPair::generate()?.public_key();
/// let join = JoinString::new(Via::Tls, vec!["master.example:48148".parse()?], master, Secret::generate()?)?;
///
/// let word = join.to_word();
/// assert!(word.starts_with("pccl1"));
/// assert_eq!(word.parse::<JoinString>()?, join);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinString {
    via: Via,
    addresses: Vec<Address>,
    master: PublicKey,
    secret: Secret,
}

/// Why a text is not a join string, or none can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// It does not begin like one.
    #[error(
        "a join string is one word that begins with `pccl1`: `pccl-master` prints it at its start"
    )]
    NotAJoinString,
    /// It begins like one of another version.
    #[error(
        "this join string was made by another version of pccl, and this one reads those that begin \
         with `pccl1`: use the same version on all machines"
    )]
    OtherVersion,
    /// No join string is that long.
    #[error(
        "a join string has at most {WORD_MAX} characters, and this has {length}: is it one word?"
    )]
    TooLong {
        /// Bytes of the text.
        length: usize,
    },
    /// A character that occurs in none.
    #[error("no join string has a `{}` in it: copy the whole word again", .character.escape_debug())]
    Character {
        /// The first of them.
        character: char,
    },
    /// A character is wrong, missing or too many.
    #[error("the join string is incomplete or has a wrong character: copy the whole word again")]
    Damaged,
    /// It is undamaged, and makes no sense.
    #[error("the join string is undamaged but makes no sense: it was not made by pccl")]
    Nonsense,
    /// None can be made without an address, or with more than four.
    #[error("a join string has one to four addresses, not {0}")]
    Addresses(usize),
}

impl JoinString {
    /// The most addresses of one.
    pub const ADDRESSES_MAX: usize = 4;

    /// For a master that listens at the addresses, with the secret of one of its invitations.
    ///
    /// # Errors
    /// [`JoinError::Addresses`].
    pub fn new(
        via: Via,
        addresses: Vec<Address>,
        master: PublicKey,
        secret: Secret,
    ) -> Result<Self, JoinError> {
        if !(1..=Self::ADDRESSES_MAX).contains(&addresses.len()) {
            return Err(JoinError::Addresses(addresses.len()));
        }
        Ok(Self {
            via,
            addresses,
            master,
            secret,
        })
    }

    /// How to speak to the master.
    #[must_use]
    pub fn via(&self) -> Via {
        self.via
    }

    /// Where the master listens: one to four addresses, to be tried in this order.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Who the master is.
    #[must_use]
    pub fn master(&self) -> PublicKey {
        self.master
    }

    /// What the master is to be shown a [`Proof`](crate::Proof) of.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Whether the text is meant as a join string, not as `host:port`: it begins with `pccl` and a
    /// digit, and has no colon. Parsing it may still fail.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        let text = text.trim();
        version_digit(text).is_some() && !text.contains(':')
    }

    /// The word. It gives the secret away: print it where the operator looks, and nowhere else.
    #[must_use]
    pub fn to_word(&self) -> Zeroizing<String> {
        let mut others = self.addresses.iter().skip(1).map(Packed::from);
        let content = Content {
            via: self.via,
            first: match self.addresses.first() {
                Some(address) => Packed::from(address),
                None => Packed::Name("", 0),
            },
            others: [others.next(), others.next(), others.next()],
            master: self.master,
            secret: self.secret.clone(),
        };
        let mut buffer = Zeroizing::new([0; CONTENT_MAX]);
        // It always fits: names have a longest length, and so has everything else.
        let used = postcard::to_slice(&content, buffer.as_mut_slice()).map_or(0, |used| used.len());
        seal(buffer.get(..used).unwrap_or_default())
    }
}

impl FromStr for JoinString {
    type Err = JoinError;

    /// White space around the word does not count, nor does the case of its letters.
    fn from_str(text: &str) -> Result<Self, JoinError> {
        let bytes = unseal(text.trim())?;
        let (content, rest) =
            postcard::take_from_bytes::<Content<'_>>(&bytes).map_err(|_| JoinError::Nonsense)?;
        if !rest.is_empty() {
            return Err(JoinError::Nonsense);
        }
        let addresses = std::iter::once(content.first)
            .chain(content.others.into_iter().flatten())
            .map(Address::try_from)
            .collect::<Result<_, _>>()
            .map_err(|_| JoinError::Nonsense)?;
        Self::new(content.via, addresses, content.master, content.secret)
    }
}

/// What stands in a join string. At most four addresses, so that reading it allocates nothing that the
/// text does not hold.
#[derive(Serialize, Deserialize)]
struct Content<'a> {
    via: Via,
    #[serde(borrow)]
    first: Packed<'a>,
    #[serde(borrow)]
    others: [Option<Packed<'a>>; JoinString::ADDRESSES_MAX - 1],
    master: PublicKey,
    #[serde(with = "exposed")]
    secret: Secret,
}

/// The content as a word.
fn seal(content: &[u8]) -> Zeroizing<String> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(content.len() + CHECKSUM));
    bytes.extend_from_slice(content);
    bytes.extend_from_slice(&checksum(content));
    let text = base32::encode(&bytes);
    let mut word = Zeroizing::new(String::with_capacity(PREFIX.len() + text.len()));
    word.push_str(PREFIX);
    word.push_str(&text);
    word
}

/// The content of a word.
fn unseal(word: &str) -> Result<Zeroizing<Vec<u8>>, JoinError> {
    match version_digit(word) {
        None => return Err(JoinError::NotAJoinString),
        Some('1') => {}
        Some(_) => return Err(JoinError::OtherVersion),
    }
    if word.len() > WORD_MAX {
        return Err(JoinError::TooLong { length: word.len() });
    }
    let text = word.get(PREFIX.len()..).unwrap_or_default();
    if let Some(character) = text.chars().find(|character| !base32::has(*character)) {
        return Err(JoinError::Character { character });
    }
    let mut bytes = base32::decode(text).ok_or(JoinError::Damaged)?;
    let (content, sum) = bytes
        .split_last_chunk::<CHECKSUM>()
        .ok_or(JoinError::Damaged)?;
    if *sum != checksum(content) {
        return Err(JoinError::Damaged);
    }
    let length = content.len();
    bytes.truncate(length);
    Ok(bytes)
}

/// The digit after `pccl`, in a text that begins so.
fn version_digit(text: &str) -> Option<char> {
    let (name, rest) = text.split_at_checked(4)?;
    let digit = rest.chars().next()?;
    (name.eq_ignore_ascii_case("pccl") && digit.is_ascii_digit()).then_some(digit)
}

fn checksum(content: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(PREFIX.as_bytes());
    hasher.update(content);
    let mut sum = [0; CHECKSUM];
    hasher.finalize_xof().fill(&mut sum);
    sum
}

#[cfg(test)]
mod tests;

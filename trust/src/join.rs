//! Join strings: one word with all that a peer needs to find a run, to authenticate its master, and to be admitted.
//!
//! The format: `pccl1`, then base32 in lower case without padding of the content in postcard and of the first four
//! bytes of the BLAKE3 hash of `pccl1` and that content. The digit is the version of the whole format.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::address::{Address, Packed};
use crate::base32;
use crate::public_key::PublicKey;
use crate::secret::{Secret, exposed};

/// The prefix of every join string of this version.
const PREFIX: &str = "pccl1";

/// Bytes of the checksum. It misses one damaged word in four billion.
const CHECKSUM: usize = 4;

/// Maximum number of bytes of the content: four names of full length, two keys and some more.
const CONTENT_MAX: usize = 1152;

/// Maximum number of characters of a join string.
const WORD_MAX: usize = PREFIX.len() + ((CONTENT_MAX + CHECKSUM) * 8).div_ceil(5);

/// The protocol between a peer and a master. (A master over plain TCP has no join string, because it could prove
/// neither its key nor a secret. Its peers get `host:port`.)
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

    /// Parses the output of [`Display`](fmt::Display).
    fn from_str(text: &str) -> Result<Self, NoSuchVia> {
        match text {
            "tls" => Ok(Self::Tls),
            "quic" => Ok(Self::Quic),
            _ => Err(NoSuchVia),
        }
    }
}

/// A text that names no such protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("peers speak to a master over `tls` or over `quic`")]
pub struct NoSuchVia;

/// All that a peer needs to take part in a run.
///
/// Everybody who has it is invited, so keep it like a password. `Debug` hides the secret, and there is no `Display`:
/// [`to_word`](Self::to_word) reveals the secret explicitly.
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

/// Why a text is not a join string, or a join string cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// It does not begin with the prefix.
    #[error(
        "a join string is one word that begins with `pccl1`: `pccl-master` prints it at its start"
    )]
    NotAJoinString,
    /// It begins with the prefix of another version.
    #[error(
        "this join string was made by another version of pccl, and this one reads those that begin \
         with `pccl1`: use the same version on all machines"
    )]
    OtherVersion,
    /// It is longer than any join string.
    #[error(
        "a join string has at most {WORD_MAX} characters, and this has {length}: is it one word?"
    )]
    TooLong {
        /// Length of the text in bytes.
        length: usize,
    },
    /// It has a character that occurs in no join string.
    #[error("no join string has a `{}` in it: copy the whole word again", .character.escape_debug())]
    Character {
        /// The first such character.
        character: char,
    },
    /// A character is wrong, missing or superfluous.
    #[error("the join string is incomplete or has a wrong character: copy the whole word again")]
    Damaged,
    /// The checksum is right, but the content is not that of a join string.
    #[error("the join string is undamaged but makes no sense: it was not made by pccl")]
    Nonsense,
    /// A join string has one to four addresses, and this many were given.
    #[error("a join string has one to four addresses, not {0}")]
    Addresses(usize),
}

impl JoinString {
    /// Maximum number of addresses in a join string.
    pub const ADDRESSES_MAX: usize = 4;

    /// A join string for a master at these addresses, with the secret of one of its invitations.
    ///
    /// # Errors
    /// [`JoinError::Addresses`] if there are none, or more than [`ADDRESSES_MAX`](Self::ADDRESSES_MAX).
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

    /// The protocol between peers and master.
    #[must_use]
    pub fn via(&self) -> Via {
        self.via
    }

    /// The addresses of the master, one to four. Try them in this order.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The public key of the master.
    #[must_use]
    pub fn master(&self) -> PublicKey {
        self.master
    }

    /// The secret of the invitation. Send the master a [`Proof`](crate::Proof) of it, never the secret.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Whether the text is meant as a join string and not as `host:port`: it begins with `pccl` and a digit, and has
    /// no colon. Parsing it may still fail.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        let text = text.trim();
        version_digit(text).is_some() && !text.contains(':')
    }

    /// The join string as text. It reveals the secret: print it only for the operator.
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

    /// Ignores surrounding white space and the case of the letters.
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

/// The content of a join string. It has at most four addresses, so that reading it allocates no more than the length
/// of the text permits.
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

/// Encodes the content as a word.
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

/// Decodes the content of a word.
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

/// The digit after `pccl`, if the text begins like that.
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

//! The peers that a master admits.
//!
//! A master keeps *invitations*: secrets, which may have an expiry and a limit on their uses. A peer that proves such
//! a secret ([`Proof`]) is admitted, and its key is stored as a *member's*. From then on the key alone is enough,
//! even if the invitation has expired or is used up. Each new key takes one use of the invitation, however often it
//! comes again. A peer with an ephemeral key has another key after each start, and takes one use each time.
//!
//! *Revoking* an invitation ends it, and the membership of all peers that it admitted. An invitation is revoked
//! because the wrong people have it, and nothing distinguishes the peers that it admitted. The others can be invited
//! again. *Banning* a key keeps its holder out, whatever it proves, until the ban is lifted.
//!
//! A peer learns why a secret is refused (expired, used up, revoked) only if it has proved that very secret.
//!
//! In a directory all of this is one file (`invitations`), which only its owner may read, since it holds the secrets.
//! Several processes may use it at the same time: a change locks the directory, reads the file, and replaces it. To
//! delete the file ends all invitations, memberships and bans.

mod book;
mod error;
mod file;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base32;
use crate::proof::{ChannelBinding, Proof};
use crate::public_key::PublicKey;
use crate::secret::Secret;
use book::{Book, Eligibility};
use file::BookFile;

pub use error::{AdmitError, Denial, InvitationError};

/// Identifies an invitation: a hash of its secret, too short to reveal anything about it.
///
/// ```
/// use pccl_trust::{InvitationId, Secret};
///
/// let id = InvitationId::of(&Secret::from([7; 32]));
/// assert_eq!(id.to_string().len(), 13);
/// assert_eq!(id.to_string().parse(), Ok(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InvitationId([u8; 8]);

impl InvitationId {
    /// The id of the invitation with this secret.
    #[must_use]
    pub fn of(secret: &Secret) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("pccl invitation id v1");
        hasher.update(secret.expose());
        let mut id = [0; 8];
        hasher.finalize_xof().fill(&mut id);
        Self(id)
    }
}

impl fmt::Display for InvitationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base32::encode(&self.0))
    }
}

impl fmt::Debug for InvitationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InvitationId({self})")
    }
}

/// A text that is not the id of an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an invitation is named with 13 letters and digits (a-z, 2-7)")]
pub struct NotAnInvitationId;

impl FromStr for InvitationId {
    type Err = NotAnInvitationId;

    fn from_str(text: &str) -> Result<Self, NotAnInvitationId> {
        base32::decode_array(text)
            .map(Self)
            .ok_or(NotAnInvitationId)
    }
}

/// Limits of an invitation. Default: it lasts until it is revoked, and admits any number of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// How long it can be used, in whole seconds. `None`: until it is revoked.
    pub ttl: Option<Duration>,
    /// How many keys it admits. `None`: any number.
    pub uses: Option<u32>,
}

/// Whether an invitation can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It can be used.
    Live,
    /// It has expired.
    Expired,
    /// It has no uses left.
    UsedUp,
    /// It was revoked.
    Revoked,
}

/// An invitation without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invitation {
    /// Its id.
    pub id: InvitationId,
    /// Whether it can be used.
    pub state: State,
    /// When it was made, in Unix seconds.
    pub made_at: u64,
    /// When it expires, in Unix seconds. `None`: never.
    pub expires_at: Option<u64>,
    /// How many more keys it admits. `None`: any number.
    pub uses_left: Option<u32>,
    /// Number of members that it admitted.
    pub members: usize,
}

/// The outcome of [`Invitations::revoke`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a connection of a former member stays open until somebody closes it"]
pub struct Revoked {
    /// The keys that are no longer members. Close their connections.
    pub members: Vec<PublicKey>,
}

/// How a peer was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// For the first time, which took one use of the invitation.
    First {
        /// The invitation.
        by: InvitationId,
    },
    /// As a member.
    Again {
        /// The invitation that admitted it first.
        by: InvitationId,
    },
}

/// The status of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It was admitted.
    Member {
        /// The invitation that admitted it.
        by: InvitationId,
    },
    /// It is banned.
    Banned,
    /// It is unknown.
    Stranger,
}

/// The invitations, members and bans of a master. See the [module](self) for the rules.
///
/// Methods that change anything block the thread for a few writes to the disk, and for up to 5 s if another process
/// holds the directory's lock. Times are Unix seconds, and are passed by the caller.
///
/// ```
/// use pccl_trust::{Admitted, ChannelBinding, Invitations, Proof, PublicKey, Terms};
///
/// let mut master = Invitations::in_memory();
/// let (id, secret) = master.invite(Terms::default(), 1_800_000_000)?;
///
/// let binding = ChannelBinding::from([1; 32]); // of the connection, on both ends
/// let peer = PublicKey::from([2; 32]); // proven by the handshake
/// let proof = Proof::new(&secret, &binding, &peer);
/// let admitted = master.verify(&proof, &binding, peer, 1_800_000_060)?;
/// assert_eq!(admitted, Admitted::First { by: id });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Invitations {
    book: Book,
    file: Option<BookFile>,
}

impl Invitations {
    /// Invitations that end with this process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self {
            book: Book::default(),
            file: None,
        }
    }

    /// The invitations of a directory, which is created for its owner only if it is missing.
    ///
    /// # Errors
    /// [`InvitationError::File`], [`InvitationError::Damaged`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, InvitationError> {
        let mut file = BookFile::new(directory.as_ref())?;
        let book = file.load()?;
        Ok(Self {
            book,
            file: Some(file),
        })
    }

    /// Makes an invitation. Everybody who gets its secret is invited.
    ///
    /// # Errors
    /// [`InvitationError::Full`] if there are too many live ones; the errors of [`open`](Self::open); and
    /// [`InvitationError::NoRandomness`].
    pub fn invite(
        &mut self,
        terms: Terms,
        now: u64,
    ) -> Result<(InvitationId, Secret), InvitationError> {
        let secret = Secret::generate()?;
        let kept = secret.clone();
        let id = self.change(|book| {
            book.invite(kept, terms, now)
                .map_err(|_| InvitationError::Full("invitations"))
        })?;
        Ok((id, secret))
    }

    /// The invitation that lasts until it is revoked. It is made if there is none. So a master that stores its
    /// invitations prints the same join string at each start.
    ///
    /// # Errors
    /// As [`invite`](Self::invite).
    pub fn lasting(&mut self, now: u64) -> Result<(InvitationId, Secret), InvitationError> {
        let secret = Secret::generate()?;
        self.change(|book| match book.lasting(now) {
            Some(found) => Ok(found),
            None => book
                .invite(secret.clone(), Terms::default(), now)
                .map(|id| (id, secret))
                .map_err(|_| InvitationError::Full("invitations")),
        })
    }

    /// Ends an invitation and the membership of all peers that it admitted. Returns their keys, so that the master
    /// can close their connections. Revoking twice is not an error.
    ///
    /// # Errors
    /// [`InvitationError::NotThere`]; the errors of [`open`](Self::open).
    pub fn revoke(&mut self, id: InvitationId) -> Result<Revoked, InvitationError> {
        self.change(|book| book.revoke(id).ok_or(InvitationError::NotThere(id)))
    }

    /// Keeps the holder of a key out, whatever it proves.
    ///
    /// # Errors
    /// [`InvitationError::Full`]; the errors of [`open`](Self::open).
    pub fn ban(&mut self, key: PublicKey) -> Result<(), InvitationError> {
        self.change(|book| {
            book.ban(key)
                .map_err(|_| InvitationError::Full("banned keys"))
        })
    }

    /// Lifts a ban, and returns whether there was one. The holder of the key is then unknown, and needs an
    /// invitation.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn unban(&mut self, key: &PublicKey) -> Result<bool, InvitationError> {
        self.change(|book| Ok(book.unban(key)))
    }

    /// All stored invitations, the oldest first. If there are more than 1024, the oldest ended one is forgotten.
    #[must_use]
    pub fn list(&self, now: u64) -> Vec<Invitation> {
        self.book.list(now)
    }

    /// The state of an invitation, as it was read last. `None` if there is no such invitation.
    #[must_use]
    pub fn state(&self, id: InvitationId, now: u64) -> Option<State> {
        self.book.state(id, now)
    }

    /// All banned keys.
    pub fn banned(&self) -> impl Iterator<Item = PublicKey> {
        self.book.banned()
    }

    /// The status of a key, as it was read last. After [`reload_if_changed`](Self::reload_if_changed) a master checks
    /// all connected keys with it, and disconnects those that are no longer members.
    #[must_use]
    pub fn membership(&self, key: &PublicKey) -> Membership {
        self.book.membership(key)
    }

    /// Admits the holder of `key`, or refuses it. `key` and `binding` must come from the handshake of its connection;
    /// see [`established`](crate::established).
    ///
    /// Reads changes by other processes first. It writes to the disk only to admit a newcomer: a stranger can make a
    /// master compute, but not write. At most 16,384 members are remembered. Beyond it, the one that was admitted
    /// first is forgotten.
    ///
    /// # Errors
    /// [`AdmitError::Refused`], which may be told to the other end; [`AdmitError::Store`] if the master cannot use
    /// its invitations, which is for the operator only.
    pub fn verify(
        &mut self,
        proof: &Proof,
        binding: &ChannelBinding,
        key: PublicKey,
        now: u64,
    ) -> Result<Admitted, AdmitError> {
        self.reload_if_changed()?;
        match self.book.judge(proof, binding, &key, now)? {
            Eligibility::Known(by) => Ok(Admitted::Again { by }),
            Eligibility::Invited(_) => self.change(|book| {
                book.admit(proof, binding, key, now)
                    .map_err(AdmitError::from)
            }),
        }
    }

    /// Reads the file again if another process has changed it, and returns whether it had. If nothing has changed, it
    /// is cheap, so it can be called often.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open). What was read last is kept.
    pub fn reload_if_changed(&mut self) -> Result<bool, InvitationError> {
        let Some(file) = &mut self.file else {
            return Ok(false);
        };
        if !file.has_changed() {
            return Ok(false);
        }
        self.book = file.load()?;
        Ok(true)
    }

    /// Applies a rule to the current content of the file, and stores the outcome. An error changes nothing.
    fn change<T, E: From<InvitationError>>(
        &mut self,
        rule: impl FnOnce(&mut Book) -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(file) = &mut self.file else {
            return rule(&mut self.book);
        };
        let lock = file.lock()?;
        self.book = file.load()?;
        let mut book = self.book.clone();
        let outcome = rule(&mut book)?;
        file.save(&book, &lock)?;
        self.book = book;
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests;

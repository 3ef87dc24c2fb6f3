//! Whom a master lets in.
//!
//! A master keeps *invitations*: secrets, each with an end and a number of uses if it has them. Who
//! proves one ([`Proof`]) is let in, and its key is kept as a *member's*: it comes again by its key
//! alone, also when the invitation has expired or is used up. One new key takes one use of an
//! invitation, however often its holder comes again. A peer whose key is ephemeral has another key after
//! each start, and takes a use each time.
//!
//! *Revoking* an invitation ends it, and the membership of all who came by it: an invitation is revoked
//! because the wrong people have it, and nothing tells apart who came by it. They can be invited anew by
//! another one. *Banning* a key keeps its holder out whatever it proves, until the ban is lifted.
//!
//! Why a secret is refused (expired, used up, revoked) is told only to who has proven that very secret.
//!
//! Kept in a directory, all of this is one file (`invitations`) that its owner alone may read, since the
//! secrets stand in it. Several processes may use it at once: a change locks the directory, reads the
//! file, and puts another one in its place. Where the file is deleted, all invitations, memberships and
//! bans are.

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

/// What an invitation is known by: a hash of its secret, too short to say anything about it.
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
    /// That of the invitation with this secret.
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

/// A text that names no invitation.
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

/// How long an invitation holds, and for how many. The default: until it is revoked, for everybody who
/// has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// How long it can be used, in whole seconds; `None`: until it is revoked.
    pub ttl: Option<Duration>,
    /// How many keys it lets in; `None`: any number.
    pub uses: Option<u32>,
}

/// Whether an invitation lets anybody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It does.
    Live,
    /// Its time is over.
    Expired,
    /// It has let in as many as it may.
    UsedUp,
    /// It was revoked.
    Revoked,
}

/// What can be shown of an invitation: all but its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invitation {
    /// What it is known by.
    pub id: InvitationId,
    /// Whether it lets anybody in.
    pub state: State,
    /// When it was made, in Unix seconds.
    pub made_at: u64,
    /// From when on it lets nobody in, in Unix seconds; `None`: never.
    pub expires_at: Option<u64>,
    /// How many more it lets in; `None`: any number.
    pub uses_left: Option<u32>,
    /// Members that came by it.
    pub members: usize,
}

/// What [`Invitations::revoke`] has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a connection of a former member stays open until somebody closes it"]
pub struct Revoked {
    /// Who is no member any more.
    pub members: Vec<PublicKey>,
}

/// How somebody was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// For the first time, which took one use of the invitation.
    First {
        /// Which invitation.
        by: InvitationId,
    },
    /// As a member.
    Again {
        /// The invitation that let it in at first.
        by: InvitationId,
    },
}

/// What a key is to a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It was let in.
    Member {
        /// By which invitation.
        by: InvitationId,
    },
    /// It is kept out.
    Banned,
    /// It is not known.
    Stranger,
}

/// Whom a master lets in. See the [module](self) for the rules.
///
/// Methods that change anything block the thread for a few writes to the disk, and up to five seconds
/// where another process holds the directory. Times are Unix seconds, and the caller's.
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
    /// For as long as this process lives.
    #[must_use]
    pub fn in_memory() -> Self {
        Self {
            book: Book::default(),
            file: None,
        }
    }

    /// Those of a directory, which is made where it is missing, for its owner alone.
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

    /// Invites whoever will have the secret.
    ///
    /// # Errors
    /// [`InvitationError::Full`] where there are too many live ones; what [`open`](Self::open) says, and
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

    /// The invitation that lasts until it is revoked: the one that is there, or another one. A master
    /// that keeps its invitations so prints the same join string at each start.
    ///
    /// # Errors
    /// See [`invite`](Self::invite).
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

    /// Ends an invitation and the membership of all who came by it; those who are connected are named
    /// in the answer, for the master to send away. Revoking twice is no error.
    ///
    /// # Errors
    /// [`InvitationError::NotThere`]; what [`open`](Self::open) says.
    pub fn revoke(&mut self, id: InvitationId) -> Result<Revoked, InvitationError> {
        self.change(|book| book.revoke(id).ok_or(InvitationError::NotThere(id)))
    }

    /// Keeps the holder of a key out, whatever it proves.
    ///
    /// # Errors
    /// [`InvitationError::Full`]; what [`open`](Self::open) says.
    pub fn ban(&mut self, key: PublicKey) -> Result<(), InvitationError> {
        self.change(|book| {
            book.ban(key)
                .map_err(|_| InvitationError::Full("banned keys"))
        })
    }

    /// Lifts a ban. Its holder is a stranger then, and needs an invitation. Whether there was a ban.
    ///
    /// # Errors
    /// What [`open`](Self::open) says.
    pub fn unban(&mut self, key: &PublicKey) -> Result<bool, InvitationError> {
        self.change(|book| Ok(book.unban(key)))
    }

    /// All invitations that are kept, the oldest first. One that has ended is forgotten when there are
    /// more than 1024.
    #[must_use]
    pub fn list(&self, now: u64) -> Vec<Invitation> {
        self.book.list(now)
    }

    /// How an invitation stands, by what was read last. `None`: no such invitation is kept.
    #[must_use]
    pub fn state(&self, id: InvitationId, now: u64) -> Option<State> {
        self.book.state(id, now)
    }

    /// All keys that are banned.
    pub fn banned(&self) -> impl Iterator<Item = PublicKey> {
        self.book.banned()
    }

    /// What a key is, by what was read last. After [`reload_if_changed`](Self::reload_if_changed) a
    /// master asks this of all who are connected, to send away those who are no members any more.
    #[must_use]
    pub fn membership(&self, key: &PublicKey) -> Membership {
        self.book.membership(key)
    }

    /// Lets the holder of `key` in, or refuses. `key` is what the other end has proven in the handshake
    /// of the connection that `binding` is of ([`established`](crate::established) has both).
    ///
    /// Takes what other processes have changed into account. Writes to the disk only to let a newcomer
    /// in: strangers can make a master compute, not write. Of the members at most 16384 are remembered;
    /// the one that was let in first is then a stranger again.
    ///
    /// # Errors
    /// [`AdmitError::Refused`], which is meant for the other end, and [`AdmitError::Store`], which is
    /// not: the master cannot keep its invitations.
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

    /// Reads the file again if another process has changed it, and says whether it had. Cheap where
    /// nothing has changed: a master calls it as often as it likes.
    ///
    /// # Errors
    /// What [`open`](Self::open) says; what was read last is kept.
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

    /// Applies a rule to what is in the file at this moment, and keeps the outcome. An error changes
    /// nothing.
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

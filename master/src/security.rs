//! Whether a master encrypts, and if so, who it is and whom it lets in.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use pccl_trust::{
    Address, Invitation, InvitationId, Invitations, JoinString, KeyPair, PublicKey, Revoked,
    Secret, Terms, Via,
};

use crate::error::TrustError;

/// Whether a master encrypts.
#[derive(Clone, Debug)]
pub enum Security {
    /// It does not: who reaches its port may join the run, and who is on the way may read and change what
    /// is said.
    Plain,
    /// Every connection is encrypted, both ends prove who they are, and only who was invited comes in.
    Proven(Trust),
}

/// Who a master is, and whom it lets in. Clones are the same: invite and revoke with one while the master
/// runs with the other.
///
/// ```
/// use pccl_master::{MasterServer, Security, Trust};
///
/// let trust = Trust::ephemeral()?;
/// let master = MasterServer::builder().security(Security::Proven(trust)).spawn("127.0.0.1:0")?;
/// let word = master.join_string(&[])?.expect("it is not plain").to_word();
/// assert!(word.starts_with("pccl1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Trust {
    key_pair: KeyPair,
    invitations: Arc<Mutex<Invitations>>,
    via: Via,
}

impl fmt::Debug for Trust {
    /// The public key alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trust({})", self.public_key())
    }
}

impl Trust {
    /// A master with this key pair, which lets in who these invitations invite.
    #[must_use]
    pub fn new(key_pair: KeyPair, invitations: Invitations) -> Self {
        Self {
            key_pair,
            invitations: Arc::new(Mutex::new(invitations)),
            via: Via::Tls,
        }
    }

    /// How peers speak to the master, as its join strings tell them: all lanes of the run go that way.
    /// [`Via::Quic`] needs the cargo feature `quic` of this package. Default: [`Via::Tls`].
    #[must_use]
    pub fn over(self, via: Via) -> Self {
        Self { via, ..self }
    }

    /// How peers speak to the master.
    #[must_use]
    pub fn via(&self) -> Via {
        self.via
    }

    /// Another master each time: its join strings end with the process.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn ephemeral() -> Result<Self, TrustError> {
        Ok(Self::new(KeyPair::generate()?, Invitations::in_memory()))
    }

    /// The master whose key and invitations are kept in this directory, which is made where it is missing.
    /// Other processes may invite and revoke in it while the master runs.
    ///
    /// # Errors
    /// The files in it cannot be used.
    ///
    /// # Blocking
    /// For a few reads and writes of files, and up to five seconds where another process holds the
    /// directory. So does every method that reads or changes invitations.
    pub fn of_directory(directory: impl AsRef<Path>) -> Result<Self, TrustError> {
        let key_pair = KeyPair::load_or_create(&directory)?;
        Ok(Self::new(key_pair, Invitations::open(directory)?))
    }

    /// Who the master is.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        self.key_pair.public_key()
    }

    /// The join string of the invitation that lasts until it is revoked, for a master that is reached at
    /// these one to four addresses. The same one each time, unless it has been revoked.
    ///
    /// # Errors
    /// The invitations cannot be kept, or there are not one to four addresses.
    pub fn join_string(&self, at: &[Address]) -> Result<JoinString, TrustError> {
        let (_, secret) = self.invitations().lasting(now())?;
        self.word_of(secret, at)
    }

    /// Another invitation, and its join string.
    ///
    /// # Errors
    /// As [`join_string`](Self::join_string).
    pub fn invite(
        &self,
        terms: Terms,
        at: &[Address],
    ) -> Result<(InvitationId, JoinString), TrustError> {
        let (id, secret) = self.invitations().invite(terms, now())?;
        Ok((id, self.word_of(secret, at)?))
    }

    /// Ends an invitation, and the membership of all who came by it. A running master lets go of them
    /// within a second.
    ///
    /// # Errors
    /// There is no such invitation, or the invitations cannot be kept.
    pub fn revoke(&self, id: InvitationId) -> Result<Revoked, TrustError> {
        Ok(self.invitations().revoke(id)?)
    }

    /// All invitations that are kept, the oldest first.
    ///
    /// # Errors
    /// The invitations cannot be read.
    pub fn list(&self) -> Result<Vec<Invitation>, TrustError> {
        let mut invitations = self.invitations();
        invitations.reload_if_changed()?;
        Ok(invitations.list(now()))
    }

    fn word_of(&self, secret: Secret, at: &[Address]) -> Result<JoinString, TrustError> {
        let master = self.public_key();
        Ok(JoinString::new(self.via, at.to_vec(), master, secret)?)
    }

    pub(crate) fn key_pair(&self) -> &KeyPair {
        &self.key_pair
    }

    /// Every change is whole or has not happened, also where the thread that made it has panicked.
    pub(crate) fn invitations(&self) -> MutexGuard<'_, Invitations> {
        self.invitations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Unix seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

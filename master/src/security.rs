//! Whether a master encrypts, its key, and the peers that it admits.

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
    /// The master does not encrypt. Every process that reaches its port may join the run, and everybody on the
    /// network path may read and change the traffic.
    Plain,
    /// All connections are encrypted, both ends prove their keys, and only invited peers are admitted.
    Proven(Trust),
}

/// The key of a master and its invitations. Clones share them: use one clone to invite and revoke while the master
/// runs with another.
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
    /// Prints only the public key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trust({})", self.public_key())
    }
}

impl Trust {
    /// A master with this key pair, which admits peers that hold one of these invitations.
    #[must_use]
    pub fn new(key_pair: KeyPair, invitations: Invitations) -> Self {
        Self {
            key_pair,
            invitations: Arc::new(Mutex::new(invitations)),
            via: Via::Tls,
        }
    }

    /// Sets the protocol between peers and master, which the join strings name. All lanes of the run use it.
    /// [`Via::Quic`] needs the cargo feature `quic` of this package. Default: [`Via::Tls`].
    #[must_use]
    pub fn over(self, via: Via) -> Self {
        Self { via, ..self }
    }

    /// The protocol between peers and master.
    #[must_use]
    pub fn via(&self) -> Via {
        self.via
    }

    /// A fresh key, with invitations in memory. Its join strings become useless when the process ends.
    ///
    /// # Errors
    /// The operating system gives no randomness.
    pub fn ephemeral() -> Result<Self, TrustError> {
        Ok(Self::new(KeyPair::generate()?, Invitations::in_memory()))
    }

    /// The key and invitations in this directory, which is created if it is missing. Other processes may invite and
    /// revoke in it while the master runs.
    ///
    /// # Errors
    /// The files in the directory cannot be used.
    ///
    /// # Blocking
    /// For a few reads and writes of files, and up to 5 s if another process holds the directory's lock. The same
    /// holds for every method that reads or changes invitations.
    pub fn of_directory(directory: impl AsRef<Path>) -> Result<Self, TrustError> {
        let key_pair = KeyPair::load_or_create(&directory)?;
        Ok(Self::new(key_pair, Invitations::open(directory)?))
    }

    /// The public key of the master.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        self.key_pair.public_key()
    }

    /// The join string of the invitation that lasts until it is revoked, for a master that is reached at these one to
    /// four addresses. Every call returns the same invitation, unless it has been revoked; then a call makes another
    /// one.
    ///
    /// # Errors
    /// The invitation cannot be stored, or the number of addresses is not between one and four.
    pub fn join_string(&self, at: &[Address]) -> Result<JoinString, TrustError> {
        let (_, secret) = self.invitations().lasting(now())?;
        self.word_of(secret, at)
    }

    /// Makes another invitation and returns its join string.
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

    /// Ends an invitation, and the membership of all peers that it admitted. A running master disconnects them within
    /// a second.
    ///
    /// # Errors
    /// There is no such invitation, or the change cannot be stored.
    pub fn revoke(&self, id: InvitationId) -> Result<Revoked, TrustError> {
        Ok(self.invitations().revoke(id)?)
    }

    /// All stored invitations, the oldest first.
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

    /// A change is complete or has not happened, even if the thread that made it has panicked.
    pub(crate) fn invitations(&self) -> MutexGuard<'_, Invitations> {
        self.invitations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The current time in Unix seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

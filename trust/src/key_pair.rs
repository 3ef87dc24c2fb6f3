//! The key pair of a process: freshly made, or kept in a file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use zeroize::{Zeroize, Zeroizing};

use crate::private_file::{self, FileError, Lock};
use crate::provider::{NoRandomness, random};
use crate::public_key::PublicKey;

/// The file of [`KeyPair::load_or_create`] in its directory.
const FILE: &str = "key";

/// The bytes before the seed in the PKCS#8 form of an Ed25519 private key (RFC 8410).
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// What the root of the derived keys is for (BLAKE3, section 2.3).
const ROOT: &str = "pccl-trust 2026-11-27 root of the keys that are derived from a key pair";

/// A key that was derived from a key pair. It is wiped from memory on drop.
pub type DerivedKey = Zeroizing<[u8; 32]>;

/// The Ed25519 key pair of a process. Cloning it is cheap.
///
/// The seed is wiped from memory as soon as the pair is made. After that the cryptography library holds the private
/// key, and wipes it when the last clone is dropped. The pair also holds a hash of the seed, from which
/// [`derive_key`](Self::derive_key) makes other keys, and wipes it likewise. `Debug` shows only the public key.
#[derive(Clone)]
pub struct KeyPair {
    public: PublicKey,
    certified: Arc<CertifiedKey>,
    root: Arc<DerivedKey>,
}

/// Why a key pair cannot be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The operating system gave no randomness.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The file cannot be read or written, or other users could have read it.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file does not hold a key.
    #[error(
        "{} holds {bytes} bytes, and a key has 32: name another directory, or delete the file to \
         make another key",
        .file.display()
    )]
    NotAKey {
        /// The file.
        file: PathBuf,
        /// Its length in bytes.
        bytes: usize,
    },
    /// The cryptography library rejects the key.
    #[error("the key cannot be used: {0}")]
    Unusable(rustls::Error),
}

impl KeyPair {
    /// A fresh key pair, which ends with this process.
    ///
    /// # Errors
    /// [`KeyError::NoRandomness`].
    pub fn generate() -> Result<Self, KeyError> {
        Self::from_seed(&*random()?)
    }

    /// The key pair of this process, shared by all its transports. It is made by the first call, and stays the same.
    /// So a peer that reconnects has the same key, and takes no other use of its invitation.
    ///
    /// # Errors
    /// [`KeyError::NoRandomness`]. A later call may succeed.
    pub fn of_process() -> Result<&'static Self, KeyError> {
        static OF_PROCESS: OnceLock<KeyPair> = OnceLock::new();
        match OF_PROCESS.get() {
            Some(pair) => Ok(pair),
            None => {
                let pair = Self::generate()?;
                Ok(OF_PROCESS.get_or_init(|| pair))
            }
        }
    }

    /// The key pair of a directory. If the directory or its file is missing, it is created for its owner only. The
    /// file holds the seed of 32 bytes. Blocks the thread while it reads and writes. Processes that call this at the
    /// same time get the same key.
    ///
    /// ```
    /// # let here = std::env::temp_dir().join(format!("pccl-trust-key-doc-{}", std::process::id()));
    /// use pccl_trust::KeyPair;
    ///
    /// let first = KeyPair::load_or_create(&here)?;
    /// let again = KeyPair::load_or_create(&here)?;
    /// assert_eq!(first.public_key(), again.public_key());
    /// # std::fs::remove_dir_all(&here).ok();
    /// # Ok::<(), pccl_trust::KeyError>(())
    /// ```
    ///
    /// # Errors
    /// [`KeyError`], also if users other than its owner may read the file.
    pub fn load_or_create(directory: impl AsRef<Path>) -> Result<Self, KeyError> {
        let directory = directory.as_ref();
        private_file::make_directory(directory)?;
        let path = directory.join(FILE);
        if let Some(pair) = Self::load(&path)? {
            return Ok(pair);
        }
        let _lock = Lock::take(directory)?;
        // Somebody else may have made it before this process had the lock.
        if let Some(pair) = Self::load(&path)? {
            return Ok(pair);
        }
        let seed = random::<32>()?;
        private_file::replace(&path, seed.as_slice())?;
        Self::from_seed(&seed)
    }

    /// The public key.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// A secret that only holders of the private key can know, for one purpose and subject. The purpose has to be a
    /// constant of the program that nobody else uses. The same pair gives the same key in every process.
    ///
    /// ```
    /// # use pccl_trust::KeyPair;
    /// let pair = KeyPair::generate()?;
    /// let key = pair.derive_key("example 2026-11-27 labels of boxes", b"box 7");
    /// assert_eq!(key, pair.derive_key("example 2026-11-27 labels of boxes", b"box 7"));
    /// assert_ne!(key, pair.derive_key("example 2026-11-27 labels of boxes", b"box 8"));
    /// # Ok::<(), pccl_trust::KeyError>(())
    /// ```
    #[must_use]
    pub fn derive_key(&self, purpose: &str, subject: &[u8]) -> DerivedKey {
        derive(purpose, [self.root.as_slice(), subject])
    }

    fn load(path: &Path) -> Result<Option<Self>, KeyError> {
        let Some(file) = private_file::open(path)? else {
            return Ok(None);
        };
        let bytes = private_file::read(&file, path, 64)?;
        match bytes.as_slice().try_into() {
            Ok(seed) => Self::from_seed(seed).map(Some),
            Err(_) => Err(KeyError::NotAKey {
                file: path.into(),
                bytes: bytes.len(),
            }),
        }
    }

    pub(crate) fn from_seed(seed: &[u8; 32]) -> Result<Self, KeyError> {
        let mut pkcs8 = Zeroizing::new([0; 48]);
        let (prefix, rest) = pkcs8.split_at_mut(PKCS8_PREFIX.len());
        prefix.copy_from_slice(&PKCS8_PREFIX);
        rest.copy_from_slice(seed);
        let der = PrivatePkcs8KeyDer::from(pkcs8.as_slice());
        let signing = any_eddsa_type(&der).map_err(KeyError::Unusable)?;
        let public = signing
            .public_key()
            .and_then(|spki| PublicKey::from_spki(&spki))
            .ok_or_else(|| KeyError::Unusable(rustls::Error::General("no public key".into())))?;
        let presented = CertificateDer::from(public.to_spki());
        Ok(Self {
            public,
            certified: Arc::new(CertifiedKey::new(vec![presented], signing)),
            root: Arc::new(derive(ROOT, [seed.as_slice(), &[]])),
        })
    }

    /// The key as a handshake presents it, with its signer.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }
}

/// The key for a purpose, of a secret of 32 bytes and of what follows it.
fn derive(purpose: &str, [secret, subject]: [&[u8]; 2]) -> DerivedKey {
    let mut hasher = blake3::Hasher::new_derive_key(purpose);
    hasher.update(secret).update(subject);
    let mut hash = hasher.finalize();
    let key = Zeroizing::new(*hash.as_bytes());
    hash.zeroize();
    // It holds the secret as its input.
    hasher.zeroize();
    key
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.public)
    }
}

#[cfg(test)]
mod tests;

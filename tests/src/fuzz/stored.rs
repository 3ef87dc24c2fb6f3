//! What is read from files, arguments and environments: logs, join strings, keys as text, files of invitations.
//!
//! Checksums keep random bytes out, so each target also seals what it is given, with code of its own.

use std::fs;
use std::hash::Hasher;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process;
use std::str::FromStr;
use std::sync::OnceLock;

use pccl_core::id::ProtocolVersion;
use pccl_core::log::{FORMAT, Log, Machine, Records, open, replay};
use pccl_trust::{
    Address, ChannelBinding, InvitationId, Invitations, JoinString, Membership, Proof, PublicKey,
    Secret, Via,
};
use siphasher::sip::SipHasher24;

use super::frugal;

/// Bytes of memory for each byte of a record while it is read.
const TIMES: usize = 200;

/// A file that is meant to be a log: as it is, and with right lengths and checksums.
pub fn log(data: &[u8]) {
    frugal(data.len(), TIMES, || read(data));
    // A damaged log is never taken for another one, so its machine hears only what one has heard.
    let _: Result<_, _> = replay(data);
    frugal(data.len(), TIMES, || read(&sealed_log(data)));
}

fn read(log: &[u8]) {
    match open(log) {
        Ok(Log::Master { records, .. }) => count(records, log.len()),
        Ok(Log::Peer { records, .. }) => count(records, log.len()),
        Err(_) => {}
    }
}

fn count<M: Machine>(mut records: Records<'_, M>, length: usize) {
    let read = records.by_ref().take_while(Result::is_ok).count();
    assert!(read <= length, "more records than bytes");
    assert!(records.unread() <= length);
}

/// The beginning of a log, and frames whose bodies are these bytes: each of them a length in two bytes, and a body.
fn sealed_log(mut bodies: &[u8]) -> Vec<u8> {
    let mut log = b"PCCL-LOG".to_vec();
    log.extend(FORMAT.to_le_bytes());
    log.extend(ProtocolVersion::CURRENT.0.to_le_bytes());
    let mut hash = 0_u64;
    while let Some((length, rest)) = bodies.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (body, rest) = rest.split_at(length);
        bodies = rest;
        let length = u32::try_from(length).unwrap_or_default();
        let head = [length.to_le_bytes(), (!length).to_le_bytes()].concat();
        let mut hasher = SipHasher24::new_with_key(&[0; 16]);
        hasher.write(&hash.to_le_bytes());
        hasher.write(&head);
        hasher.write(body);
        hash = hasher.finish();
        log.extend(head);
        log.extend(body);
        log.extend(hash.to_le_bytes());
    }
    log
}

/// A text that is meant to be a join string, and a join string with any content.
pub fn join_string(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    frugal(data.len(), 64, || parse(&text));
    frugal(data.len(), 64, || parse(&sealed_word(data)));
}

fn parse(text: &str) {
    let Ok(join) = text.parse::<JoinString>() else {
        return;
    };
    assert!((1..=JoinString::ADDRESSES_MAX).contains(&join.addresses().len()));
    assert!(
        !format!("{join:?}").contains(&*join.to_word()),
        "a secret is shown"
    );
    let again = join.to_word();
    assert_eq!(again.parse().as_ref(), Ok(&join));
}

/// The word of a join string whose content are these bytes.
fn sealed_word(content: &[u8]) -> String {
    let mut sum = [0; 4];
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"pccl1");
    hasher.update(content);
    hasher.finalize_xof().fill(&mut sum);
    format!("pccl1{}", base32(&[content, &sum].concat()))
}

fn base32(bytes: &[u8]) -> String {
    let letters = b"abcdefghijklmnopqrstuvwxyz234567";
    let bits = |at: usize| {
        bytes
            .get(at / 8)
            .map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1))
    };
    let letter = |at: usize| (0..5).fold(0, |number, bit| number << 1 | bits(5 * at + bit));
    let count = (bytes.len() * 8).div_ceil(5);
    (0..count)
        .map(|at| char::from(letters[letter(at)]))
        .collect()
}

/// Texts that name a key, an invitation, an address or a protocol.
pub fn public_key(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    frugal(data.len(), 64, || {
        if let Ok(key) = text.parse::<PublicKey>() {
            assert_eq!(key.full(), text.to_ascii_lowercase());
        }
        is_its_text::<InvitationId>(&text);
        is_its_text::<Address>(&text);
        let _: Result<Via, _> = text.parse();
    });
}

/// What was understood is understood as the same when it is written.
fn is_its_text<T: FromStr + ToString + PartialEq>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let again = value.to_string().parse::<T>().ok();
        assert!(again.is_some_and(|again| again == value), "{text:?}");
    }
}

/// A time of the tests, in Unix seconds.
const NOW: u64 = 1_800_000_000;

/// A file that is meant to hold invitations: as it is, and with the right first line and checksum.
pub fn invitations(data: &[u8]) {
    load(data);
    let mut file = b"pccl invitations 1\n".to_vec();
    file.extend(data);
    let sum = blake3::hash(&file);
    file.extend(sum.as_bytes());
    load(&file);
}

fn load(file: &[u8]) {
    let directory = directory();
    let path = directory.join("invitations");
    fs::write(&path, file).expect("a folder of its own");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its own file");
    let loaded = frugal(file.len(), 64, || Invitations::open(directory));
    let Ok(mut invitations) = loaded else {
        return;
    };
    for invitation in invitations.list(NOW) {
        assert_eq!(
            invitations.state(invitation.id, NOW),
            Some(invitation.state)
        );
    }
    assert!(invitations.banned().count() <= file.len());
    let key = PublicKey::from([1; 32]);
    let proof = Proof::new(&Secret::from([3; 32]), &ChannelBinding::from([2; 32]), &key);
    let is_member = matches!(invitations.membership(&key), Membership::Member { .. });
    // A proof of another connection is worth nothing, whatever the file holds.
    let admitted = invitations.verify(&proof, &ChannelBinding::from([4; 32]), key, NOW);
    assert_eq!(admitted.is_ok(), is_member);
}

/// A folder for the files of this process, in memory where that is possible.
fn directory() -> &'static PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let in_memory = PathBuf::from("/dev/shm");
        let parent = match in_memory.is_dir() {
            true => in_memory,
            false => std::env::temp_dir(),
        };
        let directory = parent.join(format!("pccl-fuzz-{}", process::id()));
        fs::create_dir_all(&directory).expect("a folder for temporary files");
        directory
    })
}

//! Sending and answering preambles over a lane.

use alloc::string::String;
use alloc::vec::Vec;

use super::limits::REFUSAL_TEXT_MAX;
use super::preamble::{PREAMBLE_BYTES, Preamble, PreambleError};
use super::reply::{REPLY_HEAD_BYTES, Reply, ReplyError, ReplyHead};
use crate::id::{PeerId, Ticket};
use crate::topology::LaneFailure;
use crate::transport::{Lane, LaneError, LaneRx, LaneTx, close, recv_exact, send_all};

/// Length of the proof after the preamble of a control lane whose ends have proved their keys.
pub const PROOF_BYTES: usize = 32;

/// Length of the number of messages that an end of a session has received, as it is sent when the session is resumed.
const COUNT_BYTES: usize = size_of::<u64>();

/// Sends the purpose of a lane and waits for the answer. For the end that dials.
///
/// It has no time limit. The caller sets one, and drops the lane when it runs out.
///
/// # Errors
/// Why the lane cannot be used. Drop it.
pub async fn offer(lane: &mut Lane, preamble: &Preamble) -> Result<(), HandshakeError> {
    introduce(lane, preamble, &[]).await
}

/// As [`offer`], on a control lane whose ends have proved their keys. Also sends the master the proof that this peer
/// was invited. Zeros are no proof, which is enough for a peer that the master has admitted before.
///
/// The proof is useless on another lane, or with another key. It has no time limit.
///
/// # Errors
/// As [`offer`]. If the master does not admit this peer, the text of [`HandshakeError::Refused`] says what to do.
pub async fn offer_proven(
    lane: &mut Lane,
    preamble: &Preamble,
    proof: &[u8; PROOF_BYTES],
) -> Result<(), HandshakeError> {
    introduce(lane, preamble, proof).await
}

/// Resumes the session of a peer at the master, on another control lane: sends its token and the number of messages that
/// the peer has received, and returns the number that the master has received. What either end lacks follows at once.
///
/// `attempt` grows with each connection that the peer opens for the session: the master takes no connection that was
/// overtaken. On a lane whose ends have proved their keys, `proof` is that of [`offer_proven`].
///
/// It has no time limit.
///
/// # Errors
/// As [`offer`]. [`HandshakeError::Refused`]: the master knows no such session; it is over.
pub async fn offer_again(
    lane: &mut Lane,
    (peer, token): (PeerId, Ticket),
    (received, attempt): (u64, u64),
    proof: Option<&[u8; PROOF_BYTES]>,
) -> Result<u64, HandshakeError> {
    let mut rest = Vec::new();
    rest.extend(proof.into_iter().flatten());
    for number in [received, attempt] {
        rest.extend_from_slice(&number.to_le_bytes());
    }
    introduce(lane, &Preamble::resume(peer, token), &rest).await?;
    Ok(recv_count(lane).await?)
}

/// Waits for a number of a session: of messages that the other end has received, or of attempts to resume it.
///
/// # Errors
/// The error of the lane. Drop it.
pub async fn recv_count(lane: &mut Lane) -> Result<u64, LaneError> {
    let mut count = [0; COUNT_BYTES];
    recv_exact(lane.rx.as_mut(), &mut count).await?;
    Ok(u64::from_le_bytes(count))
}

/// Sends all in one piece, so that the other end never waits for the second half.
async fn introduce(
    lane: &mut Lane,
    preamble: &Preamble,
    proof: &[u8],
) -> Result<(), HandshakeError> {
    send_all(lane.tx.as_mut(), &preamble.encode(), proof).await?;
    match recv_reply(lane.rx.as_mut()).await? {
        Reply::Accepted => Ok(()),
        Reply::Refused(text) => Err(HandshakeError::Refused(text)),
        Reply::NotYet(text) => Err(HandshakeError::NotYet(text)),
    }
}

/// Waits for the preamble of a lane. For the end that accepts. Answer with [`send_reply`] or [`refuse`].
///
/// If the bytes are not a preamble, this function refuses them, with a text that says why. It has no time limit. The
/// caller sets one, and drops the lane when it runs out.
///
/// # Errors
/// Why the lane cannot be used. Drop it.
pub async fn recv_preamble(lane: &mut Lane) -> Result<Preamble, HandshakeError> {
    let mut bytes = [0; PREAMBLE_BYTES];
    recv_exact(lane.rx.as_mut(), &mut bytes).await?;
    match Preamble::decode(&bytes) {
        Ok(preamble) => Ok(preamble),
        Err(error) => {
            refuse(lane.tx.as_mut(), &Reply::from(error)).await?;
            Err(HandshakeError::Preamble(error))
        }
    }
}

/// Waits for the proof after the preamble of a control lane whose ends have proved their keys. For the master, before
/// it answers. It has no time limit.
///
/// # Errors
/// The error of the lane. Drop it.
pub async fn recv_proof(lane: &mut Lane) -> Result<[u8; PROOF_BYTES], LaneError> {
    let mut proof = [0; PROOF_BYTES];
    recv_exact(lane.rx.as_mut(), &mut proof).await?;
    Ok(proof)
}

/// Answers a preamble.
///
/// # Errors
/// The error of the lane. Drop it.
pub async fn send_reply(tx: &mut dyn LaneTx, reply: &Reply) -> Result<(), LaneError> {
    send_all(tx, &reply.encode(), &[]).await
}

/// Answers a preamble and closes the sending direction, so that the answer arrives before the end of the stream. Drop
/// the lane afterwards.
///
/// # Errors
/// The error of the lane. Drop it.
pub async fn refuse(tx: &mut dyn LaneTx, reply: &Reply) -> Result<(), LaneError> {
    send_reply(tx, reply).await?;
    close(tx).await
}

/// Waits for the answer to a preamble.
///
/// # Errors
/// The lane failed, or the other end does not speak this protocol. Drop it.
pub async fn recv_reply(rx: &mut dyn LaneRx) -> Result<Reply, HandshakeError> {
    let mut head = [0; REPLY_HEAD_BYTES];
    recv_exact(rx, &mut head).await?;
    let head = ReplyHead::decode(&head)?;
    let mut text = [0; REFUSAL_TEXT_MAX];
    let text = text.get_mut(..head.text_bytes()).unwrap_or_default();
    recv_exact(rx, text).await?;
    Ok(head.finish(text)?)
}

/// Why an opened lane cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HandshakeError {
    /// The connection failed.
    #[error("{0}")]
    Lane(#[from] LaneError),
    /// The end that dialled does not speak this protocol. It was told so.
    #[error("{0}")]
    Preamble(#[from] PreambleError),
    /// The end that answered does not speak this protocol.
    #[error("{0}")]
    Reply(#[from] ReplyError),
    /// The other end refuses the connection. The text says why.
    #[error("the other end refused the connection: {0}")]
    Refused(String),
    /// The other end refuses the connection for the moment. Open another one a little later.
    #[error("the other end does not take the connection yet: {0}")]
    NotYet(String),
}

impl From<HandshakeError> for LaneFailure {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Lane(error) => error.into(),
            HandshakeError::Preamble(_) | HandshakeError::Reply(_) | HandshakeError::Refused(_) => {
                Self::BadHandshake
            }
            HandshakeError::NotYet(_) => Self::TimedOut,
        }
    }
}

//! Saying and answering preambles over a lane.

use alloc::string::String;

use super::limits::REFUSAL_TEXT_MAX;
use super::preamble::{PREAMBLE_BYTES, Preamble, PreambleError};
use super::reply::{REPLY_HEAD_BYTES, Reply, ReplyError, ReplyHead};
use crate::topology::LaneFailure;
use crate::transport::{Lane, LaneError, LaneRx, LaneTx, close, recv_exact, send_all};

/// Length of what follows the preamble on a control lane whose ends have proved who they are.
pub const PROOF_BYTES: usize = 32;

/// Says what a lane is for and waits for the answer: the part of the end that dials.
///
/// It has no time limit of its own; the caller sets one, and drops the lane where it runs out.
///
/// # Errors
/// Why the lane cannot be used. Drop it.
pub async fn offer(lane: &mut Lane, preamble: &Preamble) -> Result<(), HandshakeError> {
    introduce(lane, preamble, &[]).await
}

/// As [`offer`], on a control lane whose ends have proved who they are: shows the master also that whoever
/// dials was invited. Zeros show nothing, which is enough for whom the master has let in before.
///
/// The proof is worth nothing on another lane, or with another key. It has no time limit of its own.
///
/// # Errors
/// As [`offer`]; [`HandshakeError::Refused`] says what to do where the master does not let anybody in so.
pub async fn offer_proven(
    lane: &mut Lane,
    preamble: &Preamble,
    proof: &[u8; PROOF_BYTES],
) -> Result<(), HandshakeError> {
    introduce(lane, preamble, proof).await
}

/// In one piece, so that who is dialled never waits for the second half of it.
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

/// Waits for the first bytes of a lane: the first part of the end that was dialled. Answer with
/// [`send_reply`] or [`refuse`].
///
/// What is not a preamble is refused here already, with a text that says why. It has no time limit
/// of its own; the caller sets one, and drops the lane where it runs out.
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

/// Waits for the proof after the preamble of a control lane whose ends have proved who they are: the
/// master's part, before it answers. It has no time limit of its own.
///
/// # Errors
/// What the lane says. Drop it.
pub async fn recv_proof(lane: &mut Lane) -> Result<[u8; PROOF_BYTES], LaneError> {
    let mut proof = [0; PROOF_BYTES];
    recv_exact(lane.rx.as_mut(), &mut proof).await?;
    Ok(proof)
}

/// Answers a preamble.
///
/// # Errors
/// What the lane says. Drop it.
pub async fn send_reply(tx: &mut dyn LaneTx, reply: &Reply) -> Result<(), LaneError> {
    send_all(tx, &reply.encode(), &[]).await
}

/// Answers a preamble and ends the sending direction, so that the answer arrives before the end does.
/// Drop the lane then.
///
/// # Errors
/// What the lane says. Drop it.
pub async fn refuse(tx: &mut dyn LaneTx, reply: &Reply) -> Result<(), LaneError> {
    send_reply(tx, reply).await?;
    close(tx).await
}

/// Waits for the answer to a preamble.
///
/// # Errors
/// The lane failed, or whoever answers does not speak this protocol. Drop it.
pub async fn recv_reply(rx: &mut dyn LaneRx) -> Result<Reply, HandshakeError> {
    let mut head = [0; REPLY_HEAD_BYTES];
    recv_exact(rx, &mut head).await?;
    let head = ReplyHead::decode(&head)?;
    let mut text = [0; REFUSAL_TEXT_MAX];
    let text = text.get_mut(..head.text_bytes()).unwrap_or_default();
    recv_exact(rx, text).await?;
    Ok(head.finish(text)?)
}

/// Why a lane was opened but cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HandshakeError {
    /// The connection failed.
    #[error("{0}")]
    Lane(#[from] LaneError),
    /// Whoever dialled does not speak this protocol. It was told so.
    #[error("{0}")]
    Preamble(#[from] PreambleError),
    /// Whoever answered does not speak this protocol.
    #[error("{0}")]
    Reply(#[from] ReplyError),
    /// The other end does not want the connection.
    #[error("the other end refused the connection: {0}")]
    Refused(String),
    /// The other end does not want the connection for the moment. Open another one a little later.
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

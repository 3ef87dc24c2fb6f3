//! The handshake: preamble, proof, answer, hello, all within one time limit.

use std::sync::Arc;
use std::time::Duration;

use pccl_core::messages::{Hello, Refusal, ToMaster, ToPeer};
use pccl_core::transport::{Lane, LaneError, LaneRx, close, recv_some, send_all};
use pccl_core::wire::{
    ControlError, DecodeError, FIRST_CONTROL_FRAME_MAX, HandshakeError, PreambleError, Purpose,
    Reply, encode_control, recv_count, recv_preamble, recv_proof, send_reply,
};
use tokio::time::{Instant, timeout};

use crate::connection::Session;
use crate::doorkeeper::{Doorkeeper, Inside, Unwelcome};
use crate::gate::Permit;
use crate::intake::Intake;
use crate::patience::Patience;

/// Number of bytes that are discarded at a time.
const DISCARD_BYTES: usize = 4 * 1024;

/// Why a connection did not complete its handshake.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GreetError {
    #[error("{0}")]
    Preamble(#[from] HandshakeError),
    #[error("the connection is for {0}, not for a master")]
    NotForMaster(Purpose),
    #[error(
        "this master speaks TLS, and this connection is plain: join with its join string, which `pccl-master` prints at its start"
    )]
    Plain,
    #[error(
        "this master is plain and keeps no invitations: dial it as host:port, without a join string"
    )]
    NoDoor,
    #[error("{0}")]
    Unwelcome(#[from] Unwelcome),
    #[error("the handshake took too long")]
    Slow,
    #[error("{0}")]
    Lane(#[from] LaneError),
    #[error("no hello: {0}")]
    Hello(ControlError),
    #[error("the hello was damaged on its way")]
    Damaged,
    #[error("the first message is not a hello")]
    NotHello,
    #[error("the hello took too long")]
    SlowHello,
}

/// Why a refusal concerns the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Concern {
    OtherVersion,
    Encrypted,
    Plain,
    Uninvited,
    Unavailable,
}

impl GreetError {
    /// The concern of a well-meaning peer, which will try again and again, in vain. All other errors are the noise of
    /// every open port.
    pub(crate) fn concern(&self) -> Option<Concern> {
        match self {
            Self::Preamble(HandshakeError::Preamble(error)) => match error {
                PreambleError::UnsupportedVersion { .. } => Some(Concern::OtherVersion),
                PreambleError::Encrypted => Some(Concern::Encrypted),
                PreambleError::WrongMagic
                | PreambleError::UnknownPurpose { .. }
                | PreambleError::ReservedNotZero
                | PreambleError::NoSuchLane { .. } => None,
            },
            Self::NoDoor => Some(Concern::Encrypted),
            Self::Plain => Some(Concern::Plain),
            Self::Unwelcome(Unwelcome::Refused(_)) => Some(Concern::Uninvited),
            Self::Unwelcome(Unwelcome::Unavailable) => Some(Concern::Unavailable),
            Self::Preamble(_)
            | Self::NotForMaster(_)
            | Self::Slow
            | Self::Lane(_)
            | Self::Hello(_)
            | Self::Damaged
            | Self::NotHello
            | Self::SlowHello => None,
        }
    }

    /// The answer to the other end, in the form that it expects. Empty if it has been told, is gone, or has made no
    /// mistake and only has to connect again.
    fn last_words(&self) -> Vec<u8> {
        match self {
            Self::Preamble(_) | Self::Lane(_) | Self::Damaged => Vec::new(),
            Self::NotForMaster(purpose) => Reply::Refused(format!(
                "a master listens here, which takes no connection for {purpose}; dial the peer"
            ))
            .encode(),
            // The path may be long, or the master under load.
            Self::Slow | Self::Unwelcome(Unwelcome::Unavailable) => {
                Reply::NotYet(self.to_string()).encode()
            }
            Self::Plain | Self::NoDoor | Self::Unwelcome(Unwelcome::Refused(_)) => {
                Reply::Refused(self.to_string()).encode()
            }
            Self::Hello(_) | Self::NotHello => frame_of(Refusal::BadHello),
            Self::SlowHello => frame_of(Refusal::SlowHello),
        }
    }
}

fn frame_of(refusal: Refusal) -> Vec<u8> {
    let mut frame = Vec::new();
    // A refusal is far below the limit of a frame.
    encode_control(&ToPeer::Refused(refusal), &mut frame).ok();
    frame
}

/// How a connection introduces itself.
pub(crate) enum Introduction {
    /// A peer that wants to join. It was answered.
    Hello(Hello),
    /// A peer whose connection has broken. It waits for the answer.
    Session(Session),
}

/// Receives a hello or the name of a session, and verifies the proof if one is required. A stranger that has to give
/// way counts as timed out.
pub(crate) async fn greet(
    lane: &mut Lane,
    intake: &mut Intake,
    permit: &Permit,
    door: Option<&Arc<Doorkeeper>>,
    limit: Duration,
) -> Result<(Introduction, Option<Inside>), GreetError> {
    let mut patience = Patience::of(limit);
    let mut dismissed = std::pin::pin!(permit.dismissed());
    let introduced = tokio::select! {
        biased;
        introduced = patience.wait(introduction(lane, permit, door)) => introduced,
        () = &mut dismissed => None,
    };
    let (session, inside) = introduced.unwrap_or(Err(GreetError::Slow))?;
    if let Some(session) = session {
        return Ok((Introduction::Session(session), inside));
    }
    let replied = Instant::now();
    let first = intake.receive(lane.rx.as_mut(), permit.pulse(), || FIRST_CONTROL_FRAME_MAX);
    let first = tokio::select! {
        biased;
        first = patience.wait(first) => first,
        () = dismissed => None,
    };
    match first {
        Some(Ok((ToMaster::Hello(hello), _))) => {
            permit.pulse().answered_after(replied.elapsed());
            Ok((Introduction::Hello(hello), inside))
        }
        Some(Ok(_)) => Err(GreetError::NotHello),
        Some(Err(ControlError::Lane(error))) => Err(error.into()),
        Some(Err(ControlError::Decode(DecodeError::Damaged))) => Err(GreetError::Damaged),
        Some(Err(error)) => Err(GreetError::Hello(error)),
        None => Err(GreetError::SlowHello),
    }
}

async fn introduction(
    lane: &mut Lane,
    permit: &Permit,
    door: Option<&Arc<Doorkeeper>>,
) -> Result<(Option<Session>, Option<Inside>), GreetError> {
    let preamble = recv_preamble(lane).await?;
    let resumes = match preamble.purpose {
        Purpose::Control => false,
        Purpose::Resume => true,
        other @ (Purpose::LinkLane | Purpose::SharedState | Purpose::Probe) => {
            return Err(GreetError::NotForMaster(other));
        }
    };
    let inside = admit(lane, permit, door).await?;
    if resumes {
        let session = Session {
            peer: preamble.from,
            token: preamble.ticket,
            received: recv_count(lane).await?,
            attempt: recv_count(lane).await?,
        };
        return Ok((Some(session), inside));
    }
    send_reply(lane.tx.as_mut(), &Reply::Accepted).await?;
    Ok((None, inside))
}

/// Requires an identity on an encrypted lane, and an encrypted lane if there is admission control.
async fn admit(
    lane: &mut Lane,
    permit: &Permit,
    door: Option<&Arc<Doorkeeper>>,
) -> Result<Option<Inside>, GreetError> {
    match (door, lane.proven) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(GreetError::Plain),
        (None, Some(_)) => Err(GreetError::NoDoor),
        (Some(door), Some(proven)) => {
            let proof = recv_proof(lane).await?;
            // It waits for the master, and is not silent.
            let _excused = permit.pulse().excuse();
            Ok(Some(door.admit(proven, proof).await?))
        }
    }
}

/// Tells the other end why it is refused, within the time limit.
pub(crate) async fn part(lane: Lane, error: &GreetError, limit: Duration) {
    say_and_close(lane, &error.last_words(), limit).await;
}

/// Sends the last message and waits until the other end has read it, within the time limit.
pub(crate) async fn say_and_close(mut lane: Lane, words: &[u8], limit: Duration) {
    let farewell = async {
        send_all(lane.tx.as_mut(), words, &[]).await?;
        close(lane.tx.as_mut()).await?;
        discard(lane.rx.as_mut()).await
    };
    // Whoever does not want to hear it need not.
    let _: Result<Result<(), LaneError>, _> = timeout(limit, farewell).await;
}

/// Reads to the end of the stream. If a connection is dropped with unread bytes, it is reset, and the other end may
/// lose the last message.
pub(crate) async fn discard(rx: &mut dyn LaneRx) -> Result<(), LaneError> {
    let mut bytes = [0; DISCARD_BYTES];
    while recv_some(rx, &mut bytes).await? > 0 {}
    Ok(())
}

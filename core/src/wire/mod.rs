//! Bytes: what travels on every connection, exactly.

mod bytes;
mod control;
mod frame;
mod handshake;
mod limits;
mod preamble;
mod shared_state;

pub use control::{
    CONTROL_HEAD_BYTES, ControlError, ControlReader, DecodeError, EncodeError, encode_control,
    recv_control, send_control,
};
pub use frame::{FRAME_HEADER_BYTES, FrameError, FrameHeader};
pub use handshake::{HandshakeError, offer, recv_preamble, recv_reply, refuse, send_reply};
pub use limits::{
    CONTROL_FRAME_MAX, DATA_FRAME_MAX, DEFAULT_MASTER_PORT, FIRST_CONTROL_FRAME_MAX,
    FIRST_PEER_PORT, FRAME_PAYLOAD_MAX, MAX_ENTRY_NAME_BYTES, PROBE_BYTES_MAX, REFUSAL_TEXT_MAX,
    STATE_REQUEST_MAX,
};
pub use preamble::{
    MAGIC, PREAMBLE_BYTES, Preamble, PreambleError, Purpose, REPLY_HEAD_BYTES, Reply, ReplyError,
    ReplyHead,
};
pub use shared_state::{
    ENTRY_HEADER_BYTES, EntryError, EntryHeader, PROBE_ANSWER_BYTES, StateRequest,
    decode_probe_answer, encode_probe_answer,
};

//! Control frames in both directions, with session frames between them, however the stream is cut.

use std::fmt::Debug;

use pccl_core::messages::{ToMaster, ToPeer};
use pccl_core::wire::{
    CONTROL_FRAME_MAX, CONTROL_HEAD_BYTES, ControlHead, ControlReader, DecodeError,
    FIRST_CONTROL_FRAME_MAX, SessionFrame, StateRequest, encode_control,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::frugal;
use super::made::Bytes;

/// Bytes of memory that a decoded byte of a message may take while it is decoded. See [`CONTROL_FRAME_MAX`].
const TIMES: usize = 160;

/// What a peer sends to the master, before its welcome and after it.
pub fn to_master(data: &[u8]) {
    stream::<ToMaster>(data);
}

/// What a master sends to a peer.
pub fn to_peer(data: &[u8]) {
    stream::<ToPeer>(data);
}

/// The first two bytes say how the stream is cut, how long messages may be, and whether the rest is the stream as it is
/// or lengths and bodies that are to be [sealed].
fn stream<M: Serialize + DeserializeOwned + PartialEq + Debug>(data: &[u8]) {
    let Some(([piece, cap], stream)) = data.split_first_chunk() else {
        return;
    };
    let sealed = match cap & 2 {
        0 => sealed(stream),
        _ => stream.to_vec(),
    };
    let stream = &sealed[..];
    let cap = match cap & 1 {
        0 => FIRST_CONTROL_FRAME_MAX,
        _ => CONTROL_FRAME_MAX,
    };
    let piece = usize::from(*piece).max(1);
    let whole = frugal(stream.len(), TIMES, || {
        read::<M>(stream, stream.len().max(1), cap)
    });
    let pieces = frugal(stream.len(), TIMES, || read::<M>(stream, piece, cap));
    assert_eq!(whole, pieces, "the same stream, in pieces of {piece}");
    for message in whole.messages {
        is_its_encoding(&message);
    }
}

/// Frames with right checksums, of lengths in four bytes and bodies. Of a body that is cut short the sum is that of what
/// there is.
fn sealed(mut parts: &[u8]) -> Vec<u8> {
    const IS_SESSION: u32 = 1 << 31;
    let mut stream = Vec::new();
    while let Some((first, rest)) = parts.split_first_chunk() {
        let first = u32::from_le_bytes(*first);
        let length = (first & !IS_SESSION) as usize;
        let (body, rest) = rest.split_at(length.min(rest.len()));
        let sums = ControlHead::of_message(body).expect("an input is short");
        let head = ControlHead {
            is_session: first & IS_SESSION != 0,
            length,
            ..sums
        };
        stream.extend(head.encode());
        stream.extend(body);
        parts = rest;
    }
    stream.extend(parts);
    stream
}

/// What came out of a stream.
#[derive(Debug, PartialEq)]
struct Heard<M> {
    messages: Vec<M>,
    end: Result<(), DecodeError>,
    counted: u64,
    token: bool,
}

fn read<M: DeserializeOwned>(stream: &[u8], piece: usize, cap: usize) -> Heard<M> {
    let mut reader = ControlReader::with_cap(cap);
    let (mut messages, mut token) = (Vec::new(), false);
    let mut end = Ok(());
    'all: for piece in stream.chunks(piece) {
        reader.feed(piece);
        loop {
            match reader.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => {
                    end = Err(error);
                    break 'all;
                }
            }
        }
        let held = CONTROL_HEAD_BYTES + cap + piece.len() + 16 * 1024;
        assert!(
            reader.capacity() <= 2 * held,
            "{} bytes are held",
            reader.capacity()
        );
        token |= reader.take_terms().is_some();
        let _: Option<u64> = reader.take_acknowledged();
    }
    // An error may have come after a token in one piece.
    token |= reader.take_terms().is_some();
    if end.is_err() {
        assert!(
            reader.is_empty() && reader.capacity() == 0,
            "nothing is kept after an error"
        );
        assert_eq!(
            reader.next_message::<M>().err(),
            end.err(),
            "the error stays"
        );
    }
    assert_eq!(reader.received(), messages.len() as u64);
    Heard {
        counted: reader.received(),
        messages,
        end,
        token,
    }
}

/// What was understood can be sent, and is understood as the same.
fn is_its_encoding<M: Serialize + DeserializeOwned + PartialEq + Debug>(message: &M) {
    let mut frame = Vec::new();
    encode_control(message, &mut frame).expect("what arrived is no longer than what may be sent");
    let mut reader = ControlReader::with_cap(CONTROL_FRAME_MAX);
    reader.feed(&frame);
    let again = reader.next_message::<M>();
    assert_eq!(again.as_ref().map(Option::as_ref), Ok(Some(message)));
}

/// Messages of every kind that are made, and not received: they can be sent, and arrive as they are, with session
/// frames between them.
pub fn made(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut stream = Vec::new();
    let (mut up, mut down) = (0, 0);
    while !bytes.is_empty() {
        match bytes.below(4) {
            0 => up += usize::from(passes::<ToMaster>(&mut bytes)),
            1 => down += usize::from(passes::<ToPeer>(&mut bytes)),
            2 => down += usize::from(passes::<StateRequest>(&mut bytes)),
            _ => {
                let messages = bytes.value().unwrap_or_default();
                SessionFrame::Received { messages }.encode(&mut stream);
                let mut reader = ControlReader::new();
                reader.feed(&stream);
                assert_eq!(reader.next_message::<ToMaster>(), Ok(None));
                assert_eq!(reader.take_acknowledged(), Some(messages));
                stream.clear();
            }
        }
        if up + down > 200 {
            return;
        }
    }
}

fn passes<M>(bytes: &mut Bytes<'_>) -> bool
where
    M: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let Some(message) = bytes.value::<M>() else {
        return false;
    };
    is_its_encoding(&message);
    true
}

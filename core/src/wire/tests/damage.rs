//! What is cut short or damaged on its way: refused, or another message, never a panic; and the small
//! encodings beside the messages.

use alloc::vec::Vec;
use core::fmt::Debug;

use proptest::collection::vec as list;
use proptest::prelude::*;
use proptest::sample::Index;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::frame;
use super::strategies::{to_master, to_peer};
use crate::id::{EntryIndex, Round};
use crate::messages::{ToMaster, ToPeer};
use crate::wire::{
    CONTROL_HEAD_BYTES, ControlReader, DecodeError, REPLY_HEAD_BYTES, Reply, ReplyHead,
    STATE_REQUEST_MAX, StateRange, StateRequest, decode_probe_answer, encode_control,
    encode_probe_answer,
};

fn state_request() -> impl Strategy<Value = StateRequest> {
    let range = (any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(entry, length, offset)| {
        let entry = EntryIndex(entry);
        StateRange {
            entry,
            length,
            offset,
        }
    });
    (any::<u64>(), list(range, 0..6)).prop_map(|(round, ranges)| StateRequest {
        round: Round(round),
        ranges,
    })
}

fn body_of<M: Serialize>(message: &M) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_control(message, &mut frame).unwrap();
    frame.split_off(CONTROL_HEAD_BYTES)
}

fn decoded<M: DeserializeOwned>(body: &[u8]) -> Result<M, DecodeError> {
    let mut reader = ControlReader::with_cap(STATE_REQUEST_MAX);
    reader.feed(&frame(body.len(), body));
    reader.next_message().map(Option::unwrap)
}

/// No beginning of a message is a message, and none goes on after its end.
fn is_refused_where_it_is_cut<M>(message: &M) -> Result<(), TestCaseError>
where
    M: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let mut body = body_of(message);
    for end in 0..body.len() {
        prop_assert_eq!(decoded::<M>(&body[..end]), Err(DecodeError::Malformed));
    }
    body.push(0);
    prop_assert_eq!(decoded::<M>(&body), Err(DecodeError::Rest { bytes: 1 }));
    Ok(())
}

/// What is made of damaged bytes under right checksums, if anything, is a message like any other.
fn is_survived_where_it_is_damaged<M>(message: &M, at: Index, with: u8) -> Result<(), TestCaseError>
where
    M: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let mut body = body_of(message);
    let at = at.index(body.len());
    body[at] ^= with;
    if let Ok(other) = decoded::<M>(&body) {
        prop_assert_eq!(decoded::<M>(&body_of(&other)), Ok(other));
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn a_message_that_is_cut_short_or_goes_on_is_refused(
        up in to_master(), down in to_peer(), request in state_request()
    ) {
        is_refused_where_it_is_cut::<ToMaster>(&up)?;
        is_refused_where_it_is_cut::<ToPeer>(&down)?;
        is_refused_where_it_is_cut(&request)?;
    }

    #[test]
    fn a_message_with_a_damaged_byte_is_refused_or_another_message(
        up in to_master(), down in to_peer(), request in state_request(),
        at in any::<Index>(), with in 1..=255_u8
    ) {
        is_survived_where_it_is_damaged::<ToMaster>(&up, at, with)?;
        is_survived_where_it_is_damaged::<ToPeer>(&down, at, with)?;
        is_survived_where_it_is_damaged(&request, at, with)?;
    }

    #[test]
    fn a_state_request_arrives_as_it_was_sent(request in state_request()) {
        prop_assert_eq!(decoded(&body_of(&request)), Ok(request));
    }

    #[test]
    fn the_answer_to_a_probe_arrives_as_it_was_sent(received in any::<u64>()) {
        prop_assert_eq!(decode_probe_answer(encode_probe_answer(received)), received);
    }

    #[test]
    fn a_reply_with_a_damaged_byte_is_refused_or_another_reply(
        text in ".{1,40}", at in any::<Index>(), with in 1..=255_u8
    ) {
        let mut bytes = Reply::Refused(text).encode();
        let at = at.index(bytes.len());
        bytes[at] ^= with;

        let head = ReplyHead::decode(bytes.first_chunk().unwrap());
        let rest = &bytes[REPLY_HEAD_BYTES..];
        // Where the length is damaged, the stream brings fewer bytes, or other ones after these.
        if let Some((head, text)) = head.ok().and_then(|head| Some((head, rest.get(..head.text_bytes())?)))
            && let Ok(reply) = head.finish(text)
        {
            let again = reply.encode();
            prop_assert_eq!(&again[REPLY_HEAD_BYTES..], text);
        }
    }
}

//! What is sent between peers: headers of data frames, requests and ranges of shared state, quantized frames.

use pccl_core::wire::{
    ControlReader, DATA_FRAME_MAX, FRAME_HEADER_BYTES, FrameHeader, STATE_RANGE_HEADER_BYTES,
    STATE_REQUEST_MAX, StateRange, StateRequest,
};
use pccl_kernels::{Codec, ElementType, Op, Scheme};

use super::frugal;

/// A header that is understood is the one that was sent, and announces no more than a frame may have.
pub fn frame_header(data: &[u8]) {
    let Some(bytes) = data.first_chunk::<FRAME_HEADER_BYTES>() else {
        return;
    };
    if let Ok(header) = FrameHeader::decode(bytes) {
        assert_eq!(header.encode(), *bytes);
        assert!(header.length as usize <= DATA_FRAME_MAX);
    }
}

/// A request for shared state, and the header of its answer.
pub fn state_request(data: &[u8]) {
    let request = frugal(data.len(), 64, || {
        let mut reader = ControlReader::with_cap(STATE_REQUEST_MAX);
        reader.feed(data);
        reader.next_message::<StateRequest>()
    });
    let expected = request
        .ok()
        .flatten()
        .and_then(|request| request.ranges.first().copied());
    if let Some(bytes) = data.first_chunk::<STATE_RANGE_HEADER_BYTES>() {
        let range = StateRange::decode(bytes);
        assert_eq!(range.encode(), *bytes);
        assert_eq!(StateRange::decode_expecting(bytes, range), Ok(()));
        if let Some(expected) = expected.filter(|expected| *expected != range) {
            let refused = StateRange::decode_expecting(bytes, expected);
            assert!(refused.is_err_and(|error| !error.to_string().is_empty()));
        }
    }
}

const ELEMENTS: [ElementType; 4] = [
    ElementType::F16,
    ElementType::BF16,
    ElementType::F32,
    ElementType::F64,
];

const SCHEMES: [Scheme; 5] = [
    Scheme::MinMaxU8,
    Scheme::ZeroPointU8,
    Scheme::ZeroPointI8,
    Scheme::MinMaxU16,
    Scheme::Blockwise4,
];

/// A quantized frame of any bytes decodes to some numbers, the same ones at every address.
pub fn quantized(data: &[u8]) {
    let Some(([which, count], frame)) = data.split_first_chunk() else {
        return;
    };
    let element = ELEMENTS[usize::from(which % 4)];
    let scheme = SCHEMES[usize::from(which / 4) % SCHEMES.len()];
    let codec = Codec::new(element, scheme).expect("a float");
    let count = usize::from(*count);
    let length = codec.encoded_len(count);
    let mut result = vec![0; count * element.size()];
    if frame.len() != length {
        assert!(codec.decode(frame, &mut result).is_err());
    }
    let mut padded = vec![0; length + 1];
    for (to, from) in padded[1..].iter_mut().zip(frame) {
        *to = *from;
    }
    codec
        .decode(&padded[1..], &mut result)
        .expect("the length is right");
    padded.copy_within(1.., 0);
    let mut again = vec![0; result.len()];
    codec
        .decode(&padded[..length], &mut again)
        .expect("the length is right");
    assert_eq!(result, again, "an address has changed the numbers");

    let mut sums = vec![0; count * codec.sum_element().size()];
    let reduced = codec.reduce(Op::Sum, &result, &padded[..length], &mut sums);
    reduced.expect("the lengths are right");
    codec
        .encode_sums(&sums, &mut padded[..length])
        .expect("the lengths are right");
}

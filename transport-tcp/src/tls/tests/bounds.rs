//! Padding, the longest records, where records are cut, and how much memory is taken.

use aws_lc_rs::aead::Aad;

use super::super::record::{CONTENT_MAX, HEADER_BYTES, OVERHEAD_BYTES, RECORD_MAX};
use super::super::record_writer::BATCH_BYTES;
use super::*;

/// A record with padding, as TLS allows it and nobody here sends it.
fn padded(secret: &TrafficSecret, content: &[u8], padding: usize) -> Vec<u8> {
    let mut key = secret.key().unwrap();
    let extra = [&[23], vec![0; padding].as_slice()].concat();
    let body = content.len() + extra.len() + 16;
    let [high, low] = u16::try_from(body).unwrap().to_be_bytes();
    let mut record = vec![23, 3, 3, high, low];
    let header: [u8; HEADER_BYTES] = record.as_slice().try_into().unwrap();
    let mut sealed = [content, &extra].concat();
    let nonce = key.next_nonce().unwrap();
    let tag = key
        .aead
        .seal_in_place_separate_tag(nonce, Aad::from(header), &mut sealed);
    record.extend(sealed);
    record.extend(tag.unwrap().as_ref());
    record
}

fn secret() -> TrafficSecret {
    let secret = rustls::crypto::tls13::OkmBlock::new(&[5; 32]);
    TrafficSecret::new(SUITES[0], secret).unwrap()
}

fn hears() -> RecordReader {
    RecordReader::new(ReadBuffer::default(), Opener::new(secret()).unwrap(), true)
}

#[test]
fn padding_is_taken_off_and_too_much_of_it_refused() {
    for (content, padding, expected) in [
        (3, 0, Some(3)),
        (3, 200, Some(3)),
        (3, 4000, Some(3)),
        (16000, 384, Some(16000)),
        (16384, 0, Some(16384)),
        // More than a content and its kind.
        (16384, 1, None),
        (16384, 239, None),
        (10, 16375, None),
    ] {
        for room in [5, 20_000] {
            let mut hears = hears();
            let content = pattern(content);
            let record = padded(&secret(), &content, padding);
            assert_eq!(hears.read_buffer.put(&record), record.len());
            let mut into = vec![0; room];
            let received = hears.receive(&mut into);
            let expected = match expected {
                Some(bytes) => Ok(Received::Data(room.min(bytes))),
                None => Err(TlsError::TooLong),
            };
            assert_eq!(received, expected, "{} + {padding}", content.len());
            if let Ok(Received::Data(bytes)) = received {
                assert_eq!(into[..bytes], content[..bytes]);
            }
        }
    }
}

#[test]
fn a_record_of_padding_alone_is_refused() {
    let mut key = secret().key().unwrap();
    let (nonce, mut zeros) = (key.next_nonce().unwrap(), [0; 40]);
    let header = [23, 3, 3, 0, 56];
    let tag = key
        .aead
        .seal_in_place_separate_tag(nonce, Aad::from(header), &mut zeros);
    let mut hears = hears();
    hears
        .read_buffer
        .put(&[&header[..], &zeros, tag.unwrap().as_ref()].concat());

    assert_eq!(hears.receive(&mut [0; 100]), Err(TlsError::Unexpected));
}

#[test]
fn a_frame_of_header_and_payload_leaves_in_full_records() {
    let (head, body) = (pattern(32), pattern(256 << 10));
    let mut sends = RecordWriter::new(Sealer::new(secret()).unwrap());
    let mut hears = hears();
    let (mut sent, mut heard) = (0, Vec::new());
    let mut sealed = Vec::new();
    while sent < head.len() + body.len() {
        let of_body = sent.saturating_sub(head.len());
        let parts = [head.get(sent..).unwrap_or_default(), &[], &body[of_body..]];
        sent += sends.seal(&parts).unwrap();
        let wire = sends.rest().to_vec();
        sends.wrote(wire.len());
        sealed.extend(lengths(&wire));
        let mut wire = wire.as_slice();
        let mut into = vec![0; 300_000];
        while !wire.is_empty() {
            wire = &wire[hears.read_buffer.put(wire)..];
            while let Received::Data(bytes) = hears.receive(&mut into).unwrap() {
                heard.extend_from_slice(&into[..bytes]);
            }
        }
    }
    assert_eq!(sealed, [vec![CONTENT_MAX; 16], vec![32]].concat());
    assert_eq!(heard, [head, body].concat());
}

#[test]
fn however_much_is_offered_a_batch_is_taken() {
    let much = vec![1; 10 << 20];
    let mut sends = RecordWriter::new(Sealer::new(secret()).unwrap());

    assert_eq!(sends.seal(&[&much]), Ok(BATCH_BYTES));
    let sealed = sends.rest().len();

    assert_eq!(
        sealed,
        BATCH_BYTES + BATCH_BYTES / CONTENT_MAX * OVERHEAD_BYTES
    );
}

/// Its other end need not read for minutes: a lane that was given up must not keep more than it has to.
#[test]
fn who_sends_nothing_more_keeps_what_is_left_to_be_written_and_no_more() {
    let mut sends = RecordWriter::new(Sealer::new(secret()).unwrap());
    sends.seal(&[&pattern(BATCH_BYTES)]).unwrap();
    let wire = sends.rest().to_vec();
    sends.wrote(wire.len() - 100);
    sends.close();

    sends.release();

    assert!(sends.bytes_held() <= 100 + OVERHEAD_BYTES + 2);
    let left = sends.rest().to_vec();
    assert_eq!(left[..100], wire[wire.len() - 100..]);
    assert_eq!(left.len(), 100 + OVERHEAD_BYTES + 2, "and the goodbye");

    sends.end(LaneError::TimedOut);
    sends.release();
    assert_eq!(sends.bytes_held(), 0);
    assert_eq!(sends.rest(), b"");
}

#[test]
fn what_is_read_at_a_time_grows_with_what_comes_and_never_beyond_a_bound() {
    let mut read_buffer = ReadBuffer::default();
    let much = vec![1; 1 << 20];
    let mut reads = Vec::new();
    for _ in 0..8 {
        reads.push(read_buffer.put(&much));
        read_buffer.consume(reads[reads.len() - 1]);
    }
    assert!(reads[0] >= RECORD_MAX);
    assert!(reads.is_sorted(), "{reads:?}");
    assert_eq!(reads[7], 320 << 10);

    // The beginning of a record that is not all here leaves room for the rest of it.
    read_buffer.put(&much[..RECORD_MAX - 1]);
    assert!(read_buffer.put(&much) > 100_000);

    let mut sparse = ReadBuffer::default();
    for _ in 0..8 {
        assert_eq!(sparse.put(&much[..100]), 100);
        sparse.consume(100);
    }
    assert!(sparse.put(&much) < 32 << 10);
}

#[test]
fn a_record_that_cannot_be_sealed_leaves_nothing_to_be_written() {
    let mut sends = RecordWriter::new(Sealer::new(secret()).unwrap());
    sends.sealer_mut().wear_out();

    assert_eq!(sends.seal(&[b"in", b"clear"]), Err(LaneError::Failed));
    assert_eq!(sends.rest(), b"");

    let mut closes = RecordWriter::new(Sealer::new(secret()).unwrap());
    closes.sealer_mut().wear_out();
    closes.close();
    assert_eq!(closes.rest(), b"");
}

//! Records of TLS: sealed with the right key and with any content, changed on their way, or made of nothing.

use pccl_transport_tcp::fuzzing::{Claim, SEALED_MAX, Session};

use super::frugal;
use super::made::Bytes;

/// What is heard is the beginning of what was sealed as data, whatever else comes between.
pub fn tls_records(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let Some(mut session) = Session::new(bytes.byte(), bytes.byte() & 1 == 1) else {
        return;
    };
    let room = match bytes.below(4) {
        0 => bytes.below(256),
        1 => SEALED_MAX,
        2 => SEALED_MAX + 1,
        _ => 20_000,
    };
    let (mut said, mut heard) = (Vec::new(), 0);
    let mut goes_on = true;
    while goes_on && !bytes.is_empty() {
        let wire = next(&mut bytes, &mut session, &mut said);
        // Room for all that can be heard, which is the target's and not the reader's.
        let mut piece = Vec::with_capacity(said.len() - heard);
        goes_on = frugal(wire.len(), 4, || session.hear(&wire, room, &mut piece));
        let rest = &said[heard..];
        assert!(
            rest.starts_with(&piece),
            "something was heard that nobody has said"
        );
        heard += piece.len();
    }
    if !goes_on {
        let more = session.sealed(Claim::Data, b"more").unwrap_or_default();
        let mut piece = Vec::new();
        assert!(
            !session.hear(&more, room, &mut piece),
            "a session that has ended goes on"
        );
        assert!(piece.is_empty(), "something was heard after the end");
    }
}

/// The next bytes on the wire.
fn next(bytes: &mut Bytes<'_>, session: &mut Session, said: &mut Vec<u8>) -> Vec<u8> {
    let content = |bytes: &mut Bytes<'_>| {
        let length = bytes.below(64);
        bytes.take(length).to_vec()
    };
    match bytes.below(8) {
        // Out of nowhere.
        0 => content(bytes),
        1 => {
            let content = content(bytes);
            session.sealed(Claim::Alert, &content).unwrap_or_default()
        }
        2 => {
            let content = content(bytes);
            session
                .sealed(Claim::Handshake, &content)
                .unwrap_or_default()
        }
        // A key update, as an honest end does it, or as one that keeps its key.
        3 => {
            let update = [24, 0, 0, 1, bytes.byte() & 1];
            let record = session.sealed(Claim::Handshake, &update);
            if bytes.below(8) > 0 {
                session.update();
            }
            record.unwrap_or_default()
        }
        // Longer than the content of most records.
        4 => {
            let length = (bytes.below(256) << 8 | bytes.below(256)).min(SEALED_MAX);
            let content = vec![bytes.byte(); length];
            said.extend(&content);
            session.sealed(Claim::Data, &content).unwrap_or_default()
        }
        // One that was changed on its way.
        5 => {
            let content = content(bytes);
            let mut record = session.sealed(Claim::Data, &content).unwrap_or_default();
            let at = bytes.below(record.len().clamp(1, 256));
            if let Some(byte) = record.get_mut(at) {
                *byte ^= bytes.byte().max(1);
            }
            record
        }
        _ => {
            let content = content(bytes);
            said.extend(&content);
            session.sealed(Claim::Data, &content).unwrap_or_default()
        }
    }
}

//! What this crate says rustls understands, and the other way round: it is TLS.

use rustls::{AlertDescription, Error};

use super::*;

/// Around the bounds of records and batches.
const SIZES: [usize; 9] = [1, 2, 1000, 16383, 16384, 16385, 65536, 278_527, 300_001];

#[test]
fn both_directions_of_both_ends_speak_with_rustls_in_every_cipher_suite() {
    for suite in SUITES {
        let mut met = meet(suite);
        for (ours, theirs) in [
            (&mut met.our_client, &mut met.server),
            (&mut met.our_server, &mut met.client),
        ] {
            for (size, room) in SIZES
                .into_iter()
                .zip([1, 7, 999, 16384, 16385, 70_000].iter().cycle())
            {
                let bytes = pattern(size);
                let wire = ours.say(&bytes).unwrap();
                assert_eq!(
                    hear(theirs, &wire),
                    Ok((bytes.clone(), false)),
                    "{suite:?} {size}"
                );

                let wire = said(theirs, &bytes);
                let heard = ours.hear(&wire, *room);
                assert!(heard == (bytes, Ok(Received::Nothing)), "{suite:?} {size}");
            }
        }
    }
}

#[test]
fn keys_are_renewed_before_they_are_worn_and_rustls_goes_along() {
    for suite in SUITES {
        let met = meet(suite);
        let (mut ours, mut theirs) = (met.our_client, met.server);
        // Of three records that a key is good for the last one says that another follows.
        ours.writer.sealer_mut().wear_after(3);
        let mut sealed = Vec::new();

        for size in SIZES {
            let bytes = pattern(size);
            let wire = ours.say(&bytes).unwrap();
            sealed.extend(lengths(&wire));
            assert_eq!(
                hear(&mut theirs, &wire),
                Ok((bytes, false)),
                "{suite:?} {size}"
            );
        }
        for key in sealed.chunks_exact(3) {
            assert_eq!(key[2], 5, "{sealed:?}");
        }
    }
}

#[test]
fn rustls_renews_its_keys_and_is_answered_with_ours() {
    for suite in SUITES {
        let met = meet(suite);
        let (mut ours, mut theirs) = (met.our_server, met.client);
        for round in 0..40 {
            theirs.refresh_traffic_keys().unwrap();
            let wire = said(&mut theirs, b"under the next key");
            let heard = ours.hear(&wire, 100);
            assert_eq!(
                heard,
                (b"under the next key".to_vec(), Ok(Received::Nothing)),
                "{round}"
            );

            let answer = ours.written();
            assert!(!answer.is_empty(), "{round}: it was asked to renew its own");
            hear(&mut theirs, &answer).unwrap();
            let wire = ours.say(b"and so do we").unwrap();
            assert_eq!(
                hear(&mut theirs, &wire),
                Ok((b"and so do we".to_vec(), false))
            );
        }
    }
}

#[test]
fn the_end_is_told_and_heard() {
    let met = meet(SUITES[0]);
    let (mut ours, mut theirs) = (met.our_client, met.server);
    let mut wire = ours.say(b"last words").unwrap();
    ours.writer.close();
    ours.writer.close();
    wire.extend(ours.written());
    assert_eq!(hear(&mut theirs, &wire), Ok((b"last words".to_vec(), true)));
    assert_eq!(ours.writer.seal(&[b"more"]), Err(LaneError::Closed));

    let mut wire = said(&mut theirs, b"goodbye");
    theirs.send_close_notify();
    wire.extend(written(&mut theirs));
    wire.extend(b"whatever somebody appends");
    assert_eq!(
        ours.hear(&wire, 100),
        (b"goodbye".to_vec(), Ok(Received::Closed))
    );
}

#[test]
fn rustls_reads_why_what_it_sent_is_not_taken() {
    let met = meet(SUITES[0]);
    let (mut ours, mut theirs) = (met.our_client, met.server);
    let mut wire = said(&mut theirs, b"one");
    wire[5] ^= 1;
    let (heard, end) = ours.hear(&wire, 100);
    assert_eq!((heard, end), (vec![], Err(TlsError::Forged)));

    ours.writer.fail(TlsError::Forged);

    let alert = AlertDescription::BadRecordMac;
    let heard = hear(&mut theirs, &ours.written());
    assert_eq!(heard, Err(Error::AlertReceived(alert)));
    assert_eq!(ours.writer.seal(&[b"more"]), Err(LaneError::Failed));
}

#[test]
fn why_rustls_does_not_take_what_was_sent_is_heard() {
    let met = meet(SUITES[0]);
    let (mut ours, mut theirs) = (met.our_client, met.server);
    let mut wire = ours.say(b"one").unwrap();
    wire[5] ^= 1;
    assert_eq!(hear(&mut theirs, &wire), Err(Error::DecryptError));

    let (heard, end) = ours.hear(&written(&mut theirs), 100);

    let told = TlsError::Told(AlertDescription::BadRecordMac);
    assert_eq!((heard, end), (vec![], Err(told)));
}

#[test]
fn session_tickets_of_a_server_are_not_minded() {
    // Of a server that hands them out, as one of another make may.
    let of_client = Arc::<Overheard>::default();
    let mut config = client_of(SUITES[0]);
    config.key_log = of_client.clone();
    let name = ServerName::try_from("anybody.invalid").unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name)
        .unwrap()
        .into();
    let mut config = server_config(&KeyPair::generate().unwrap()).unwrap();
    config.session_storage = rustls::server::ServerSessionMemoryCache::new(8);
    config.send_tls13_tickets = 3;
    let mut server = ServerConnection::new(Arc::new(config)).unwrap().into();
    while is_shaking(&server) {
        let wire = written(&mut client);
        hear(&mut server, &wire).unwrap();
        if is_shaking(&server) {
            let wire = written(&mut server);
            hear(&mut client, &wire).unwrap();
        }
    }
    let mut ours = Ours::new(SUITES[0], &of_client, true);

    let mut wire = written(&mut server);
    assert!(wire.len() > 100, "there are tickets in it");
    wire.extend(said(&mut server, b"data"));

    assert_eq!(
        ours.hear(&wire, 100),
        (b"data".to_vec(), Ok(Received::Nothing))
    );
}

fn is_shaking(end: &Connection) -> bool {
    end.is_handshaking()
}

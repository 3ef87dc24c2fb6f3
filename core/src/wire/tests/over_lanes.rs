//! Messages and handshakes over lanes.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::task::Poll;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::frame;
use super::lane::{Pipe, attempt, pair};
use super::strategies::to_master;
use crate::messages::ToMaster;
use crate::topology::LaneFailure;
use crate::transport::LaneError;
use crate::wire::{
    ControlError, ControlReader, DecodeError, HandshakeError, Preamble, PreambleError, Purpose,
    Reply, encode_control, offer, offer_proven, recv_control, recv_preamble, recv_proof, refuse,
    send_control, send_reply,
};

type Received = Poll<Result<ToMaster, ControlError>>;

#[test]
fn a_message_that_is_sent_is_received() {
    let mut lane = Pipe::default();
    let mut reader = ControlReader::new();

    let sent = attempt(send_control(&mut lane, &ToMaster::Leave));
    let received: Received = attempt(recv_control(&mut lane, &mut reader));

    assert_eq!(sent, Poll::Ready(Ok(())));
    assert_eq!(received, Poll::Ready(Ok(ToMaster::Leave)));
}

#[test]
fn the_end_between_two_messages_is_no_failure_and_within_one_it_is() {
    let mut between = Pipe::default();
    between.close();
    let mut within = Pipe::default();
    within.put(&[1, 0, 0]);
    within.close();

    let ended: Received = attempt(recv_control(&mut between, &mut ControlReader::new()));
    let lost: Received = attempt(recv_control(&mut within, &mut ControlReader::new()));

    assert_eq!(ended, Poll::Ready(Err(ControlError::Ended)));
    assert_eq!(lost, Poll::Ready(Err(LaneError::Closed.into())));
}

#[test]
fn garbage_ends_a_connection_for_good() {
    let mut lane = Pipe::default();
    lane.put(&frame(1, &[99]));
    let mut reader = ControlReader::new();

    for _ in 0..2 {
        let received: Received = attempt(recv_control(&mut lane, &mut reader));
        assert_eq!(received, Poll::Ready(Err(DecodeError::Malformed.into())));
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn a_receive_that_is_given_up_loses_nothing(
        messages in vec(to_master(), 1..5), cuts in vec(any::<Index>(), 0..8)
    ) {
        let mut bytes = Vec::new();
        for message in &messages {
            encode_control(message, &mut bytes).unwrap();
        }
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        ends.push(bytes.len());
        ends.sort_unstable();
        let mut lane = Pipe::default();
        let mut reader = ControlReader::new();
        let mut arrived: Vec<ToMaster> = Vec::new();
        let mut from = 0;

        for end in ends {
            lane.put(&bytes[from..end]);
            from = end;
            // Each attempt drops its future in the middle of whatever had come.
            while let Poll::Ready(message) = attempt(recv_control(&mut lane, &mut reader)) {
                arrived.push(message.unwrap());
            }
        }

        prop_assert_eq!(arrived, messages);
    }
}

#[test]
fn two_ends_of_one_version_agree() {
    let (mut dialling, mut dialled) = pair();
    let preamble = Preamble {
        purpose: Purpose::Probe,
        ..Preamble::CONTROL
    };
    let mut offered = core::pin::pin!(offer(&mut dialling, &preamble));

    assert!(attempt(offered.as_mut()).is_pending());
    let arrived = attempt(recv_preamble(&mut dialled));
    assert_eq!(arrived, Poll::Ready(Ok(preamble)));
    assert!(attempt(send_reply(dialled.tx.as_mut(), &Reply::Accepted)).is_ready());

    assert_eq!(attempt(offered), Poll::Ready(Ok(())));
}

#[test]
fn a_proof_follows_the_preamble_and_both_are_answered_at_once() {
    let (mut dialling, mut dialled) = pair();
    let proof = core::array::from_fn(|at| at as u8);
    let mut offered = core::pin::pin!(offer_proven(&mut dialling, &Preamble::CONTROL, &proof));

    assert!(attempt(offered.as_mut()).is_pending());
    let arrived = attempt(recv_preamble(&mut dialled));
    let shown = attempt(recv_proof(&mut dialled));
    assert!(attempt(send_reply(dialled.tx.as_mut(), &Reply::Accepted)).is_ready());

    assert_eq!(arrived, Poll::Ready(Ok(Preamble::CONTROL)));
    assert_eq!(shown, Poll::Ready(Ok(proof)));
    assert_eq!(attempt(offered), Poll::Ready(Ok(())));
}

#[test]
fn a_proof_that_does_not_come_whole_is_none() {
    let (mut dialling, mut dialled) = pair();
    let sent = attempt(crate::transport::send_all(
        dialling.tx.as_mut(),
        &[0; 31],
        &[],
    ));
    assert!(sent.is_ready());

    assert!(attempt(crate::transport::close(dialling.tx.as_mut())).is_ready());

    let shown = attempt(recv_proof(&mut dialled));
    assert_eq!(shown, Poll::Ready(Err(LaneError::Closed)));
}

#[test]
fn who_is_refused_reads_why() {
    let (mut dialling, mut dialled) = pair();
    let mut offered = core::pin::pin!(offer(&mut dialling, &Preamble::CONTROL));

    assert!(attempt(offered.as_mut()).is_pending());
    let reply = Reply::Refused("this is a peer, not a master".to_string());
    assert!(attempt(refuse(dialled.tx.as_mut(), &reply)).is_ready());

    let error = HandshakeError::Refused("this is a peer, not a master".to_string());
    assert_eq!(attempt(offered), Poll::Ready(Err(error.clone())));
    assert_eq!(LaneFailure::from(error), LaneFailure::BadHandshake);
}

#[test]
fn who_speaks_something_else_is_refused_before_anybody_is_asked() {
    let (mut dialling, mut dialled) = pair();
    let http = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n...";
    let sent = attempt(crate::transport::send_all(dialling.tx.as_mut(), http, &[]));
    assert!(sent.is_ready());

    let arrived = attempt(recv_preamble(&mut dialled));
    let answer = attempt(crate::wire::recv_reply(dialling.rx.as_mut()));

    let wrong = PreambleError::WrongMagic;
    assert_eq!(arrived, Poll::Ready(Err(HandshakeError::Preamble(wrong))));
    assert_eq!(answer, Poll::Ready(Ok(Reply::from(wrong))));
}

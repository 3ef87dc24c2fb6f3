//! What members cannot do to one another, nor who sits between two of them: over TLS and over QUIC.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use pccl::{Builder, Communicator, Error, Misdeed, Reduce};
use pccl_core::id::PeerId;
use pccl_core::transport::{Security, Transport, recv_some, send_all};
use pccl_core::wire::{ControlHead, HandshakeError, Reply, recv_reply};
use pccl_master::{KeyPair, RunningMaster, Trust, Via};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::support::tapped::{Said, Tapped};
use crate::support::under::{Under, over_each_transport, spawn_invited};
use crate::support::{LANES, begin, join_as, reduce_and_share, together};

over_each_transport! {
    a_ticket_is_worth_nothing_to_another_member_nor_to_a_stranger_on_a_plain_lane,
    whoever_sits_between_two_peers_learns_nothing_and_the_ring_leads_around,
    a_peer_that_was_kicked_opens_nothing_with_its_old_tickets,
}

/// Against hangs only.
const GUARD: Duration = Duration::from_secs(30);

fn master_over(via: Via) -> RunningMaster {
    spawn_invited(Trust::ephemeral().unwrap().over(via))
}

/// A builder of a member with a transport of its own.
fn member(master: &RunningMaster, transport: impl Transport) -> Builder {
    let invited = master.join_string(&[]).unwrap().expect("it encrypts");
    Communicator::builder(invited.to_word().as_str())
        .listen(IpAddr::V4(Ipv4Addr::LOCALHOST))
        .first_port(0)
        .transport(transport)
}

fn pair() -> KeyPair {
    KeyPair::generate().unwrap()
}

fn under(via: Via, pair: &KeyPair) -> Under {
    Under::proving(via, pair).lanes(LANES)
}

/// Says what another has said, and returns what is answered.
async fn repeat(said: &Said, by: &Under, is_plain: bool) -> Result<Reply, HandshakeError> {
    let expect = said.expect.filter(|_| !is_plain);
    let mut lane = by.open(&said.to, expect).await?;
    send_all(lane.tx.as_mut(), &said.first, &[]).await?;
    let answer = timeout(GUARD, recv_reply(lane.rx.as_mut())).await;
    answer.expect("an answer")
}

/// The lanes of the first member are opened late: another member comes with the ticket before.
fn a_ticket_is_worth_nothing_to_another_member_nor_to_a_stranger_on_a_plain_lane(via: Via) {
    let master = master_over(via);
    let (victim, thief) = (pair(), pair());
    let answers = Arc::new(Mutex::new(Vec::new()));
    let (by, heard) = (under(via, &thief), Arc::clone(&answers));
    let robbed = Tapped::new(move |said| {
        let (by, heard) = (by.clone(), Arc::clone(&heard));
        Box::pin(async move {
            for is_plain in [false, true] {
                if is_plain && via != Via::Tls {
                    continue;
                }
                let answer = repeat(&said, &by, is_plain).await;
                heard.lock().unwrap().push(answer);
            }
        })
    });

    let mut peers = vec![begin(member(&master, robbed.on(under(via, &victim))))];
    join_as(member(&master, under(via, &thief)), &mut peers);
    join_as(member(&master, under(via, &pair())), &mut peers);
    reduce_and_share(&mut peers);

    let answers = answers.lock().unwrap();
    assert!(!answers.is_empty(), "no ticket was stolen");
    for answer in &*answers {
        let Ok(Reply::Refused(text)) = answer else {
            panic!("{answer:?}");
        };
        assert!(text.contains("another key"), "{text}");
    }
}

/// Answers in the place of somebody else, with a key of its own. Tells when somebody has come, and what it has
/// said behind the handshake.
fn sit_in_between(via: Via) -> (SocketAddr, mpsc::Receiver<Vec<u8>>) {
    let (tells, told) = mpsc::channel();
    let (listens, listening) = mpsc::channel();
    thread::spawn(move || {
        Runtime::new().unwrap().block_on(async move {
            let on = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let own = under(via, &pair());
            let mut listener = own.listen(on, Security::Proven).await.unwrap();
            listens.send(listener.local_addr()).unwrap();
            loop {
                let mut heard = Vec::new();
                if let Ok(mut incoming) = poll_fn(|cx| listener.poll_accept(cx)).await {
                    heard.resize(64, 0);
                    let said = recv_some(incoming.lane.rx.as_mut(), &mut heard).await;
                    heard.truncate(said.unwrap_or(0));
                }
                if tells.send(heard).is_err() {
                    return;
                }
            }
        });
    });
    (listening.recv().unwrap(), told)
}

/// All that one of two peers opens ends at somebody else; what the other one opens does not.
fn whoever_sits_between_two_peers_learns_nothing_and_the_ring_leads_around(via: Via) {
    let master = master_over(via);
    let (between, told) = sit_in_between(via);
    let mut diverted = Tapped::new(|_| Box::pin(async {}));
    diverted.diverted = Some(between);
    let diverted = diverted.on(under(via, &pair()));

    let mut peers = vec![begin(member(&master, diverted))];
    join_as(member(&master, under(via, &pair())), &mut peers);
    let sums = together(&mut peers, |peer| {
        let mut ones = [1_u32; 1000];
        peer.all_reduce(&mut ones, Reduce::sum()).map(|_| ones)
    });

    assert_eq!(sums, [Ok([2; 1000]), Ok([2; 1000])]);
    let first = told.recv_timeout(GUARD).expect("somebody was misled");
    for heard in [first].into_iter().chain(told.try_iter()) {
        assert_eq!(heard, [], "it has heard something");
    }
}

fn a_peer_that_was_kicked_opens_nothing_with_its_old_tickets(via: Via) {
    let master = master_over(via);
    let villain = pair();
    let old = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&old);
    let tapped = Tapped::new(move |said| {
        keeps.lock().unwrap().push(said);
        Box::pin(async {})
    });
    let control = Arc::clone(&tapped.control);
    let mut peers = vec![begin(member(&master, under(via, &pair())))];
    join_as(member(&master, under(via, &pair())), &mut peers);
    join_as(member(&master, tapped.on(under(via, &villain))), &mut peers);
    reduce_and_share(&mut peers);

    let mut kicked = peers.pop().unwrap();
    let garbage = [0xff; 64];
    let head = ControlHead::of_message(&garbage).unwrap().encode();
    Runtime::new().unwrap().block_on(poll_fn(|cx| {
        let mut control = control.lock().unwrap();
        let control = control.as_mut().expect("a connection");
        control
            .poll_send(cx, &[&head, &garbage])
            .map(Result::unwrap)
    }));
    let told = kicked.update_topology().err();
    assert_eq!(told, Some(Error::Kicked(Misdeed::Malformed)));

    let old = std::mem::take(&mut *old.lock().unwrap());
    assert!(!old.is_empty(), "it has opened no lane");
    let again = under(via, &villain);
    let answers = Runtime::new().unwrap().block_on(async {
        let mut answers = Vec::new();
        for said in &old {
            answers.push(repeat(said, &again, false).await);
        }
        answers
    });
    for answer in answers {
        let Ok(Reply::Refused(text)) = answer else {
            panic!("{answer:?}");
        };
        assert!(text.contains("the ticket was used"), "{text}");
    }
    let survivors: Vec<PeerId> = peers.iter().map(Communicator::peer_id).collect();
    let results = together(&mut peers, |peer| {
        peer.update_topology().unwrap();
        let mut ones = [1_u32; 1000];
        let report = peer.all_reduce(&mut ones, Reduce::sum()).unwrap();
        (ones, report.contributors)
    });
    for (ones, mut contributors) in results {
        contributors.sort();
        assert_eq!((ones, contributors), ([2; 1000], survivors.clone()));
    }
}

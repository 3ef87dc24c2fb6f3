//! Where a run's master is, and whether this peer knows who it has to be.

use std::fmt;

use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane, LaneError, Protocol, Security, Transport};
use pccl_core::wire::{HandshakeError, PROOF_BYTES, Preamble, offer, offer_again, offer_proven};
use pccl_trust::{ChannelBinding, JoinString, Proof, PublicKey, Via};

use crate::address::MasterAddress;
use crate::engine::Shown;
use crate::error::Error;

/// The environment variable that holds a join string, or `host:port`.
const VARIABLE: &str = "PCCL_JOIN";

/// Whom to reach.
#[derive(Clone)]
pub(crate) enum Destination {
    /// Whoever answers at `host:port`, over plain lanes.
    Plain(MasterAddress),
    /// The master of a join string.
    Invited(Box<JoinString>),
    /// Neither.
    Unusable(Error),
}

impl Destination {
    /// Of a join string, or `host:port`.
    pub(crate) fn of(text: &str) -> Self {
        if !JoinString::is_meant(text) {
            return match MasterAddress::of(text) {
                Ok(master) => Self::Plain(master),
                Err(reason) => Self::Unusable(Error::BadAddress {
                    address: text.trim().to_owned(),
                    reason,
                }),
            };
        }
        match text.trim().parse() {
            Ok(join) => Self::Invited(Box::new(join)),
            Err(reason) => Self::Unusable(Error::BadJoinString(reason)),
        }
    }

    /// Of the environment.
    pub(crate) fn of_environment() -> Self {
        match std::env::var(VARIABLE) {
            Ok(text) if !text.trim().is_empty() => Self::of(&text),
            Ok(_) | Err(_) => Self::Unusable(Error::NoJoinString),
        }
    }

    /// What lanes of the run are.
    pub(crate) fn security(&self) -> Security {
        match self {
            Self::Plain(_) | Self::Unusable(_) => Security::Plain,
            Self::Invited(_) => Security::Proven,
        }
    }

    /// The transport that the join string asks for.
    pub(crate) fn via(&self) -> Option<Via> {
        match self {
            Self::Invited(join) => Some(join.via()),
            Self::Plain(_) | Self::Unusable(_) => None,
        }
    }

    /// Whether this transport may go there.
    pub(crate) fn check(&self, transport: &dyn Transport) -> Result<(), Error> {
        match self {
            Self::Unusable(error) => Err(error.clone()),
            Self::Plain(master) if !transport.has_plain_lanes() => {
                let master = master.as_str().to_owned();
                Err(Error::NoPlainLanes { master })
            }
            Self::Plain(master)
                if !master.is_loopback() && transport.security() == Security::Proven =>
            {
                let master = master.as_str().to_owned();
                Err(Error::JoinStringNeeded { master })
            }
            Self::Invited(join) => check_protocol(join.via(), transport),
            Self::Plain(_) => Ok(()),
        }
    }

    /// Opens a control lane to the master, at one of its addresses after the other. Each attempt begins with another
    /// one, so that an address that swallows what is sent there keeps nobody from the others.
    pub(crate) async fn reach(
        &self,
        transport: &dyn Transport,
        attempt: usize,
    ) -> Result<Reached, HandshakeError> {
        match self {
            Self::Plain(master) => {
                let mut reached = open_plain(master, transport).await?;
                offer(&mut reached.lane, &Preamble::CONTROL).await?;
                Ok(reached)
            }
            Self::Invited(join) => {
                let mut reached = Err(LaneError::NameNotResolved.into());
                let all = join.addresses();
                for address in all
                    .iter()
                    .cycle()
                    .skip(attempt % all.len().max(1))
                    .take(all.len())
                {
                    reached = enter(join, &address.to_string(), transport).await;
                    // Whoever has answered is the master: the other addresses are its own as well.
                    if !matches!(reached, Err(HandshakeError::Lane(_))) {
                        break;
                    }
                }
                reached.map(|lane| Reached { lane, link: None })
            }
            Self::Unusable(_) => Err(LaneError::NameNotResolved.into()),
        }
    }

    /// Opens another control lane for a session, and returns the number of messages that the master has received in it.
    /// Like [`reach`](Self::reach) it begins with another address each time. An error that may pass comes before one
    /// that stays.
    pub(crate) async fn reach_again(
        &self,
        transport: &dyn Transport,
        shown: Shown,
        may_pass: impl Fn(&HandshakeError) -> bool,
    ) -> Result<(Lane, u64), HandshakeError> {
        let first = usize::try_from(shown.attempt).unwrap_or(0);
        match self {
            Self::Plain(master) => {
                let Reached { lane, .. } = open_plain(master, transport).await?;
                resume(lane, shown, None).await
            }
            Self::Invited(join) => {
                // Which stays.
                let mut failed = Err(LaneError::Refused.into());
                let all = join.addresses();
                let in_turn = all.iter().cycle().skip(first % all.len().max(1));
                for address in in_turn.take(all.len()) {
                    let reason =
                        match enter_again(join, &address.to_string(), transport, shown).await {
                            Ok(reached) => return Ok(reached),
                            Err(reason) => reason,
                        };
                    // Whoever has answered is the master.
                    let is_last = !matches!(reason, HandshakeError::Lane(_));
                    if is_last || !failed.as_ref().is_err_and(&may_pass) {
                        failed = Err(reason);
                    }
                    if is_last {
                        break;
                    }
                }
                failed
            }
            Self::Unusable(_) => Err(LaneError::NameNotResolved.into()),
        }
    }
}

/// A connection to the master.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) lane: Lane,
    /// The link of this machine on which the master is, if its address is of one link alone.
    pub(crate) link: Option<u32>,
}

/// Whether a transport speaks what a join string asks for, as far as both are known.
fn check_protocol(via: Via, transport: &dyn Transport) -> Result<(), Error> {
    let asked = match via {
        Via::Tls => Protocol::Tls,
        Via::Quic => Protocol::Quic,
        // A release of this crate that does not know it has no transport for it either.
        _ => return Ok(()),
    };
    match transport.protocol() {
        Some(given) if given != asked => Err(Error::WrongTransport { asked, given }),
        Some(_) | None => Ok(()),
    }
}

/// Shows the master that this peer has the join string's secret, on a lane that only the master's key
/// could have opened.
async fn enter(
    join: &JoinString,
    address: &str,
    transport: &dyn Transport,
) -> Result<Lane, HandshakeError> {
    let (mut lane, proof) = open_proven(join, address, transport).await?;
    offer_proven(&mut lane, &Preamble::CONTROL, &proof).await?;
    Ok(lane)
}

/// The same for a session.
async fn enter_again(
    join: &JoinString,
    address: &str,
    transport: &dyn Transport,
    shown: Shown,
) -> Result<(Lane, u64), HandshakeError> {
    let (lane, proof) = open_proven(join, address, transport).await?;
    resume(lane, shown, Some(&proof)).await
}

async fn resume(
    mut lane: Lane,
    shown: Shown,
    proof: Option<&[u8; PROOF_BYTES]>,
) -> Result<(Lane, u64), HandshakeError> {
    let session = (shown.peer, shown.token);
    let numbers = (shown.received, shown.attempt);
    let count = offer_again(&mut lane, session, numbers, proof).await?;
    Ok((lane, count))
}

/// Opens a lane that only the master's key could have opened, and proves on it that this peer has the secret of the join
/// string.
async fn open_proven(
    join: &JoinString,
    address: &str,
    transport: &dyn Transport,
) -> Result<(Lane, [u8; PROOF_BYTES]), LaneError> {
    let master = Identity(join.master().into());
    let to = Endpoint::Name(address.to_owned());
    let lane = transport.open(&to, Some(master)).await?;
    let Some(proven) = lane.proven.filter(|proven| proven.identity == master) else {
        return Err(LaneError::Untrusted);
    };
    let (binding, own) = (
        ChannelBinding::from(proven.binding),
        PublicKey::from(proven.own.0),
    );
    let proof = Proof::new(join.secret(), &binding, &own).to_bytes();
    Ok((lane, proof))
}

/// Opens a plain lane to whoever answers at the address.
async fn open_plain(
    master: &MasterAddress,
    transport: &dyn Transport,
) -> Result<Reached, LaneError> {
    let at = master.on_its_link().await?;
    let to = match at {
        Some(at) => Endpoint::Address(at.into()),
        None => Endpoint::Name(master.as_str().to_owned()),
    };
    let lane = transport.open(&to, None).await?;
    let link = at.map(|at| at.scope_id());
    Ok(Reached { lane, link })
}

/// The addresses. Never the secret.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(master) => f.write_str(master.as_str()),
            Self::Invited(join) => {
                let addresses = join.addresses().iter().map(ToString::to_string);
                f.write_str(&addresses.collect::<Vec<_>>().join(" or "))
            }
            Self::Unusable(_) => f.write_str("nowhere"),
        }
    }
}

#[cfg(test)]
mod tests {
    use pccl_transport_tcp::Tcp;
    use pccl_trust::{KeyPair, Secret};

    use super::*;

    fn invited() -> JoinString {
        invited_over(Via::Tls)
    }

    fn invited_over(via: Via) -> JoinString {
        let master = KeyPair::generate().unwrap().public_key();
        let address = "master.example:48148".parse().unwrap();
        JoinString::new(via, vec![address], master, Secret::generate().unwrap()).unwrap()
    }

    /// Checks the transport against a join string, and returns what its user reads.
    fn contradiction(via: Via, transport: &dyn Transport) -> Option<(Error, String)> {
        let checked = Destination::of(&invited_over(via).to_word()).check(transport);
        checked
            .err()
            .map(|error| (error.clone(), error.to_string()))
    }

    #[test]
    fn a_transport_that_contradicts_the_join_string_is_an_error_that_says_what_to_do() {
        let cases = [
            (
                Via::Quic,
                Tcp::new(),
                Protocol::Quic,
                Protocol::Tls,
                "Quic::new()",
            ),
            (
                Via::Quic,
                Tcp::plain(),
                Protocol::Quic,
                Protocol::Plain,
                "Quic::new()",
            ),
            (
                Via::Tls,
                Tcp::plain(),
                Protocol::Tls,
                Protocol::Plain,
                "Tcp::new()",
            ),
        ];
        for (via, tcp, asked, given, remedy) in cases {
            let (error, text) = contradiction(via, &tcp).expect("an error");
            assert_eq!(error, Error::WrongTransport { asked, given });
            for part in [
                &asked.to_string(),
                &given.to_string(),
                remedy,
                "leave that line out",
            ] {
                assert!(text.contains(part), "{text}");
            }
        }
        assert_eq!(contradiction(Via::Tls, &Tcp::new()), None);
    }

    #[cfg(feature = "quic")]
    #[test]
    fn quic_contradicts_a_join_string_that_asks_for_tls() {
        let quic = pccl_transport_quic::Quic::new();

        let (error, text) = contradiction(Via::Tls, &quic).expect("an error");

        let (asked, given) = (Protocol::Tls, Protocol::Quic);
        assert_eq!(error, Error::WrongTransport { asked, given });
        assert!(text.contains("Tcp::new()"), "{text}");
        assert_eq!(contradiction(Via::Quic, &quic), None);
    }

    #[test]
    fn a_join_string_is_told_from_an_address() {
        let word = invited().to_word();

        let addresses = [
            "master.example:48148",
            "pccl1:48148",
            "[::1]:7",
            "pccl.example:9",
        ];
        for address in addresses {
            assert!(
                matches!(Destination::of(address), Destination::Plain(_)),
                "{address}"
            );
        }
        assert!(matches!(Destination::of(&word), Destination::Invited(_)));
        let with_line_end = format!(" {}\n", &*word);
        assert!(matches!(
            Destination::of(&with_line_end),
            Destination::Invited(_)
        ));
    }

    #[test]
    fn a_damaged_join_string_is_not_taken_for_an_address() {
        let word = invited().to_word();
        let damaged = &word[..word.len() - 1];

        let checked = Destination::of(damaged).check(&Tcp::new());

        assert!(
            matches!(checked, Err(Error::BadJoinString(_))),
            "{checked:?}"
        );
    }

    #[test]
    fn beyond_this_machine_plain_lanes_have_to_be_asked_for_by_name() {
        let far = [
            "192.0.2.1:48148",
            "master.example:48148",
            "[2001:db8::1]:48148",
        ];
        let near = [
            "127.0.0.1:48148",
            "127.8.8.8:1",
            "localhost:48148",
            "[::1]:48148",
        ];

        for master in far {
            let refused = Destination::of(master).check(&Tcp::new());
            let expected = Error::JoinStringNeeded {
                master: master.to_owned(),
            };
            assert_eq!(refused, Err(expected));
            assert_eq!(Destination::of(master).check(&Tcp::plain()), Ok(()));
        }
        for master in near {
            assert_eq!(
                Destination::of(master).check(&Tcp::new()),
                Ok(()),
                "{master}"
            );
        }
    }

    #[cfg(feature = "quic")]
    #[test]
    fn an_address_is_not_enough_for_a_transport_that_always_encrypts() {
        let quic = pccl_transport_quic::Quic::new();
        for master in ["127.0.0.1:48148", "master.example:48148"] {
            let expected = Error::NoPlainLanes {
                master: master.to_owned(),
            };
            assert_eq!(Destination::of(master).check(&quic), Err(expected));
        }
    }

    #[test]
    fn nothing_that_is_printed_holds_the_secret() {
        let join = invited();
        let secret: String = join
            .secret()
            .expose()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();

        let shown = Destination::Invited(Box::new(join)).to_string();

        assert_eq!(shown, "master.example:48148");
        assert!(!shown.contains(&secret));
    }
}

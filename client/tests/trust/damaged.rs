//! Bits that flip between two peers: the collective is aborted, its buffers are restored, and the next one succeeds.

use std::sync::{Arc, Mutex};
use std::task::Poll;

use pccl::{
    AbortCause, Algorithm, Broadcast, Checksums, Communicator, Error, Gather, Pattern, PeerId,
    Quantization, Reduce, Tcp,
};
use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane};
use pccl_core::wire::{FRAME_HEADER_BYTES, PREAMBLE_BYTES, Purpose};
use pccl_master::{MasterBuilder, MasterConfig};
use pccl_transport_memory::{Intercepted, Interceptor, on_send};

use crate::support::{Run, begin, join_as, together_with};

/// Elements: few enough for every algorithm.
const COUNT: usize = 1001;

/// Bytes that may still pass on lanes to other peers before a bit of one flips. `None`: none flips.
#[derive(Clone, Debug, Default)]
struct Noise(Arc<Mutex<Option<usize>>>);

impl Noise {
    fn flips_after(&self, bytes: usize) {
        *self.0.lock().unwrap() = Some(bytes);
    }

    fn is_over(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }

    /// A lane that this peer has opened, on which data follows a preamble that says so.
    fn on(&self, lane: Lane) -> Lane {
        let noise = self.clone();
        let mut preamble = Vec::new();
        let tx = on_send(lane.tx, move |tx, cx, parts| {
            if preamble.len() < PREAMBLE_BYTES {
                let sent = tx.poll_send(cx, parts);
                if let Poll::Ready(Ok(sent)) = sent {
                    preamble.extend_from_slice(&parts.concat()[..sent]);
                }
                return sent;
            }
            let mut left = noise.0.lock().unwrap();
            let carries_data = preamble[6] == Purpose::LinkLane as u8;
            let Some(flips_after) = left.as_mut().filter(|_| carries_data) else {
                return tx.poll_send(cx, parts);
            };
            let mut bytes = parts.concat();
            let flipped = bytes.get_mut(*flips_after);
            flipped.into_iter().for_each(|byte| *byte ^= 0x10);
            let sent = tx.poll_send(cx, &[&bytes]);
            if let Poll::Ready(Ok(sent)) = sent {
                *left = flips_after.checked_sub(sent);
            }
            sent
        });
        Lane { tx, ..lane }
    }
}

impl Interceptor for Noise {
    fn opened(&self, lane: Lane, _: &Endpoint, _: Option<Identity>) -> Lane {
        self.on(lane)
    }
}

/// Peers of which the first one's lanes flip bits.
fn noisy_peers(run: &Run, count: usize, checksums: Checksums) -> (Vec<Communicator>, Noise) {
    let noise = Noise::default();
    let noisy = Intercepted::over(Arc::new(Tcp::new().lanes(2)), noise.clone());
    let builder = run.builder().checksums(checksums).transport(noisy);
    let mut peers = vec![begin(builder)];
    while peers.len() < count {
        join_as(run.builder().checksums(checksums), &mut peers);
    }
    (peers, noise)
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Reduce(Algorithm),
    Quantized,
    Gather,
    Broadcast,
}

const CALLS: [Call; 8] = [
    Call::Reduce(Algorithm::Ring),
    Call::Reduce(Algorithm::Direct),
    Call::Reduce(Algorithm::Circulant),
    Call::Reduce(Algorithm::Whole(Pattern::Mesh)),
    Call::Reduce(Algorithm::Whole(Pattern::Circulant)),
    Call::Quantized,
    Call::Gather,
    Call::Broadcast,
];

impl Call {
    /// Makes it on this buffer. Whether the result is right.
    fn make(self, peer: &Communicator, root: PeerId, data: &mut [f32]) -> Result<bool, Error> {
        let shard = peer.shard(data.len());
        Ok(match self {
            Self::Reduce(algorithm) => {
                let reduce = Reduce::sum().algorithm(algorithm);
                let report = peer.all_reduce(data, reduce)?;
                report.algorithm == algorithm && data.iter().all(|element| *element == 6.0)
            }
            Self::Quantized => {
                peer.all_reduce(data, Reduce::sum().quantize(Quantization::Blockwise4))?;
                data.iter().all(|element| (element - 6.0).abs() < 0.5)
            }
            Self::Gather => {
                peer.all_gather(data, Gather::of(shard))?;
                [0, COUNT / 2, COUNT - 1].map(|at| data[at]) == [1.0, 2.0, 3.0]
            }
            Self::Broadcast => {
                peer.broadcast(data, Broadcast::from(root))?;
                data.iter().all(|element| *element == 1.0)
            }
        })
    }
}

#[test]
fn a_flipped_bit_costs_one_retry_wherever_it_is_and_whatever_the_collective() {
    // What travels encrypted is proved, and no bit of it flips above the encryption. And nothing begins ahead: a lane that
    // is lost before all have called costs nobody a retry.
    let config = MasterConfig {
        ahead_max: 0,
        ..MasterConfig::default()
    };
    let master = MasterBuilder::default().config(config);
    let run = Run::of(master.spawn("127.0.0.1:0").unwrap());
    let (mut peers, noise) = noisy_peers(&run, 3, Checksums::Always);
    let (root, header) = (peers[0].peer_id(), FRAME_HEADER_BYTES);
    for call in CALLS {
        for position in [0, 17, header - 1, header, header + 100] {
            noise.flips_after(position);
            let results = together_with(&mut peers, |index, peer| {
                let own = vec![(index + 1) as f32; COUNT];
                let mut data = own.clone();
                let outcome = call.make(peer, root, &mut data);
                let is_restored = data == own;
                let again = call.make(peer, root, &mut data);
                (outcome, is_restored, again)
            });

            let what = format!("{call:?}, byte {position}");
            assert!(noise.is_over(), "{what}");
            for (outcome, is_restored, again) in results {
                let cause = match outcome {
                    Err(Error::Aborted { cause, .. }) => cause,
                    other => panic!("{what}: {other:?}"),
                };
                assert!(
                    matches!(cause, AbortCause::LaneLost { .. }),
                    "{what}: {cause}"
                );
                assert!(is_restored, "{what}");
                assert!(again.unwrap(), "{what}");
            }
        }
    }
}

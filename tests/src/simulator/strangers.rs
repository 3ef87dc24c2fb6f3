//! Who comes to the run and does not belong to it.

use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::{GroupId, ProtocolVersion};
use pccl_core::messages::{Hello, Refusal, ToMaster, ToPeer};
use pccl_core::site::SiteName;
use pccl_core::transport::{Endpoint, Transport, recv_some, send_all};
use pccl_core::wire::{
    CONTROL_FRAME_MAX, ControlReader, Preamble, offer, recv_control, send_control,
};
use tokio::time::timeout;

use super::fault::Lot;
use super::world::World;

/// How long a stranger stays.
const STAY: Duration = Duration::from_secs(4);

/// When words have arrived for certain, in a calm run. Who says them sooner may be before the one whose words they are:
/// that is somebody on the path, from whom only encryption protects.
const ARRIVED: Duration = Duration::from_secs(5);

/// Says on a lane of its own what somebody has said first on another one: a ticket that is stale, or a second hello.
pub(super) fn say_again(world: &Arc<World>, lot: Lot) {
    let words = world.with(|state| {
        let place = (lot as usize).checked_rem(state.first_words.len())?;
        state.first_words.get(place).cloned()
    });
    let words = words.filter(|(said, ..)| !world.plan.is_calm || said.elapsed() >= ARRIVED);
    let Some((_, to, words)) = words else {
        return;
    };
    let host = world.net.transport();
    tokio::spawn(timeout(STAY, async move {
        let Ok(mut lane) = host.open(&Endpoint::Address(to), None).await else {
            return;
        };
        if send_all(&mut *lane.tx, &words, &[]).await.is_ok() {
            while recv_some(&mut *lane.rx, &mut [0; 256])
                .await
                .is_ok_and(|bytes| bytes > 0)
            {}
        }
    }));
}

/// A peer of another version: it has to be refused, with the reason.
pub(super) fn come_from_another_release(world: &Arc<World>) {
    let Some(master) = world.with(|state| state.master_at) else {
        return;
    };
    let host = world.net.transport();
    let world = Arc::clone(world);
    let hello = Hello {
        protocol: ProtocolVersion(ProtocolVersion::CURRENT.0 + 1),
        group: GroupId(0),
        port: 48149,
        advertise: None,
        lanes: 1,
        site: SiteName::NONE,
        name: Default::default(),
    };
    tokio::spawn(timeout(STAY, async move {
        let Ok(mut lane) = host.open(&Endpoint::Address(master), None).await else {
            return;
        };
        let introduced = offer(&mut lane, &Preamble::CONTROL).await;
        if introduced.is_err()
            || send_control(&mut *lane.tx, &ToMaster::Hello(hello))
                .await
                .is_err()
        {
            return;
        }
        let mut reader = ControlReader::with_cap(CONTROL_FRAME_MAX);
        let answer = recv_control::<ToPeer>(&mut *lane.rx, &mut reader).await;
        match answer {
            Ok(ToPeer::Refused(Refusal::Version { .. } | Refusal::Stopping)) | Err(_) => {}
            Ok(other) => world.found(&format!("a peer of another release was told {other:?}")),
        }
    }));
}

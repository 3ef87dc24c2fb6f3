//! Mistakes with handles.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Waker};

use pccl::Reduce;

use super::world::MASTER;
use super::{Told, expect, seconds};

#[test]
fn a_handle_is_polled_after_it_has_given_its_buffer_back() {
    let told = Told {
        peers: &[""],
        within: seconds(1),
        ..Told::default()
    };
    expect(told, async |world| {
        world.start_master().await;
        let peer = world.peer(MASTER).connect_async().await.unwrap();
        let mut handle = pin!(peer.start_all_reduce(vec![1.0_f32], Reduce::sum()));
        let reduced = handle.as_mut().await;

        let again = catch_unwind(AssertUnwindSafe(|| {
            let mut context = Context::from_waker(Waker::noop());
            handle.as_mut().poll(&mut context).is_ready()
        }));

        let words = again.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(
            *words,
            "a CollectiveHandle was polled after it had given its buffer back"
        );
        vec![reduced.map(drop).map_err(Into::into)]
    });
}

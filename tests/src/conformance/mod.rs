//! What every transport must do, as one list of cases.
//!
//! [`transport_conformance!`](crate::transport_conformance) makes a test of each case;
//! [`run_all`] runs them in a row. A case panics where the transport falls short.
//!
//! The opener of a lane speaks first in every case, as in every protocol of pccl: a transport may keep
//! a lane to itself until its opener has sent something.

mod ends;
mod flow;
mod opening;
mod subject;
mod waking;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::transport::Transport;

pub use ends::*;
pub use flow::*;
pub use opening::*;
pub use subject::Subject;
pub use waking::*;

/// Against hangs only.
const GUARD: Duration = Duration::from_secs(60);

/// Calls `callback!` with the arguments in brackets, in brackets, and after them the names of all cases.
#[doc(hidden)]
#[macro_export]
macro_rules! with_conformance_cases {
    ($callback:path, [$($arguments:tt)*]) => {
        $callback! { [$($arguments)*]
            bytes_of_every_size_arrive_whole_in_both_directions
            odd_pieces_and_many_parts_arrive_in_order
            nothing_to_send_is_sent_at_once
            both_ends_send_and_receive_at_the_same_time
            sending_never_waits_for_receiving
            a_sender_far_ahead_of_its_reader_waits_and_then_goes_on
            thirty_two_lanes_do_not_mix
            closing_is_seen_after_the_last_byte
            a_closed_direction_leaves_the_other_one_open
            dropping_the_sending_half_ends_its_direction_alone
            a_dropped_end_is_seen_by_the_other_in_both_directions
            lanes_outlive_their_listener
            a_waiting_receiver_is_woken_by_data_also_after_moving_to_another_task
            a_waiting_receiver_is_woken_by_the_end
            a_waiting_sender_is_woken_by_room_also_after_moving_to_another_task
            a_waiting_acceptor_is_woken_also_after_moving_to_another_task
            a_listener_says_which_port_it_took
            an_opener_is_known_by_its_address
            opening_to_nobody_fails_instead_of_hanging
            an_unknown_name_is_not_resolved
            a_dropped_listener_frees_its_port_and_refuses_newcomers
            a_port_that_is_listened_on_cannot_be_taken
            a_listener_survives_openers_that_vanish
            a_cancelled_open_leaves_no_lane
            an_edge_has_at_least_one_lane
        }
    };
}

macro_rules! run_each {
    ([$subject:ident] $($case:ident)+) => {
        $(guarded(stringify!($case), $case($subject.clone())).await;)+
    };
}

/// Runs all cases one after the other. `make` makes the transport, which listens on `listen_on`, with
/// port zero. Needs a tokio runtime.
///
/// # Panics
/// Where the transport falls short, and where a case takes a minute.
pub async fn run_all(make: impl Fn() -> Arc<dyn Transport>, listen_on: SocketAddr) {
    let subject = Subject::new(make(), listen_on);
    with_conformance_cases!(run_each, [subject]);
}

/// Runs one case in a task of `runtime`.
///
/// # Panics
/// Where the case does, and where it takes a minute.
pub fn run_case(
    runtime: &tokio::runtime::Runtime,
    name: &'static str,
    case: impl Future<Output = ()> + Send + 'static,
) {
    let outcome = runtime.block_on(async { tokio::spawn(guarded(name, case)).await });
    if let Err(error) = outcome {
        std::panic::resume_unwind(error.into_panic());
    }
}

async fn guarded(name: &'static str, case: impl Future<Output = ()>) {
    let outcome = tokio::time::timeout(GUARD, case).await;
    assert!(outcome.is_ok(), "{name} hangs");
}

/// Makes a module of tests, one for each case of the suite.
///
/// The first expression makes a [`tokio::runtime::Runtime`] with everything enabled, the second one an
/// `Option<Subject>`; `None` skips the tests and has printed why.
///
/// ```
/// # fn main() {}
/// use std::sync::Arc;
/// use pccl_tests::{conformance::Subject, transport_conformance};
/// use pccl_transport_memory::MemoryNet;
///
/// fn current_thread() -> tokio::runtime::Runtime {
///     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
/// }
///
/// fn memory() -> Option<Subject> {
///     let host = MemoryNet::new().transport();
///     Some(Subject::new(Arc::new(host.clone()), host.any_port()))
/// }
///
/// transport_conformance!(memory_on_a_current_thread, current_thread(), memory());
/// ```
#[macro_export]
macro_rules! transport_conformance {
    ($module:ident, $runtime:expr, $subject:expr) => {
        $crate::with_conformance_cases!(
            $crate::transport_conformance_tests,
            [$module, $runtime, $subject]
        );
    };
}

/// What [`transport_conformance!`](crate::transport_conformance) ends in.
#[doc(hidden)]
#[macro_export]
macro_rules! transport_conformance_tests {
    ([$module:ident, $runtime:expr, $subject:expr] $($case:ident)+) => {
        mod $module {
            use super::*;
            $(
                #[test]
                fn $case() {
                    let Some(subject) = $subject else { return };
                    $crate::conformance::run_case(
                        &$runtime,
                        stringify!($case),
                        $crate::conformance::$case(subject),
                    );
                }
            )+
        }
    };
}

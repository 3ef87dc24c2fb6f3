//! Waiting to be admitted to the run.

use std::time::Duration;

use pccl_core::peer::{Call, Joined};
use tokio::time::{sleep, timeout};

use crate::calls::Calls;
use crate::engine::Caller;
use crate::error::Error;

/// How long a peer waits before the log says for what.
const TELL_AFTER: Duration = Duration::from_secs(5);

/// Says hello, and waits to be admitted.
pub(crate) async fn admitted(calls: &Calls, limit: Option<Duration>) -> Result<Joined, Error> {
    let joining = async {
        tokio::select! {
            biased;
            joined = calls.ask(Call::Connect, Caller::Connect) => joined,
            never = tell_what_for() => match never {},
        }
    };
    match limit {
        None => joining.await,
        Some(after) => timeout(after, joining)
            .await
            .unwrap_or(Err(Error::AdmissionTimedOut { after })),
    }
}

/// How many peers there are the master does not say before it has admitted this one.
async fn tell_what_for() -> std::convert::Infallible {
    sleep(TELL_AFTER).await;
    tracing::info!(
        "connected, and waiting to be admitted by the peers of the run, who admit newcomers when they call \
         update_topology"
    );
    std::future::pending().await
}

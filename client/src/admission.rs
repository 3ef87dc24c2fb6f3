//! Waiting to be admitted to the run.

use std::time::Duration;

use pccl_core::peer::{Call, Joined};
use tokio::time::timeout;

use crate::calls::Calls;
use crate::engine::Caller;
use crate::error::Error;

/// Says hello, and waits to be admitted.
pub(crate) async fn admitted(calls: &Calls, limit: Option<Duration>) -> Result<Joined, Error> {
    let joining = calls.ask(Call::Connect, Caller::Connect);
    match limit {
        None => joining.await,
        Some(after) => timeout(after, joining)
            .await
            .unwrap_or(Err(Error::AdmissionTimedOut { after })),
    }
}

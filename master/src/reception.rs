//! Accepting connections, and the tasks that serve them.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::ConnId;
use pccl_core::transport::{Incoming, LaneError, Listener};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::gate::Gate;
use crate::seldom::Seldom;
use crate::visit::{House, Visit};

/// Time that the tasks get, beyond their own limits, to end by themselves.
const SLACK: Duration = Duration::from_millis(100);

/// Accepts connections. Dropping it closes all of them.
pub(crate) struct Reception {
    listener: Box<dyn Listener>,
    gate: Arc<Gate>,
    house: House,
    next: ConnId,
    connections: JoinSet<()>,
    troubles: Seldom<LaneError>,
}

impl Reception {
    pub(crate) fn new(listener: Box<dyn Listener>, house: House) -> Self {
        Self {
            listener,
            gate: Gate::new(&house.limits),
            house,
            next: ConnId(0),
            connections: JoinSet::new(),
            troubles: Seldom::default(),
        }
    }

    /// Never ends by itself.
    pub(crate) async fn run(&mut self) {
        let gate = Arc::clone(&self.gate);
        let door = self.house.door.clone();
        let keep_the_door = async {
            match &door {
                Some(door) => door.keep().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // None of them ever ends.
            biased;
            () = gate.keep() => {}
            () = keep_the_door => {}
            () = self.accept() => {}
        }
    }

    async fn accept(&mut self) {
        loop {
            tokio::select! {
                biased;
                Some(_) = self.connections.join_next() => {}
                incoming = poll_fn(|cx| self.listener.poll_accept(cx)) => match incoming {
                    Ok(incoming) => self.admit(incoming),
                    Err(LaneError::Closed) => self.serve_on().await,
                    Err(error) if is_of_the_other_end(error) => {
                        tracing::debug!("a connection came to nothing: {error}");
                    }
                    Err(error) => self.log(error),
                }
            }
        }
    }

    /// Rate-limited, because a failure of this machine repeats until somebody fixes it.
    fn log(&self, trouble: LaneError) {
        match self.troubles.another(trouble) {
            Some(times) => tracing::warn!(times, "connections could not be accepted: {trouble}"),
            None => tracing::debug!("a connection could not be accepted: {trouble}"),
        }
    }

    /// Continues to serve the run, without newcomers.
    async fn serve_on(&mut self) {
        tracing::error!("the listener has ended; nobody can join from here on");
        loop {
            if self.connections.join_next().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn admit(&mut self, incoming: Incoming) {
        match self.gate.arrive(incoming.from.ip()) {
            Ok(turn) => {
                let visit = self.visit();
                self.connections
                    .spawn(async move { visit.run(incoming, turn).await });
            }
            Err(full) => {
                let apologies = self.house.apologies.clone();
                self.connections
                    .spawn(async move { apologies.turn_away(incoming, full).await });
            }
        }
    }

    fn visit(&mut self) -> Visit {
        let conn = self.next;
        self.next = conn.next();
        let house = self.house.clone();
        Visit { conn, house }
    }

    /// Stops listening, and gives the connections time to end.
    pub(crate) async fn close(self) {
        let Self {
            listener,
            house,
            mut connections,
            ..
        } = self;
        drop(listener);
        let all = async { while connections.join_next().await.is_some() {} };
        // Who is not done by then is cut off with the set.
        timeout(house.limits.farewell + SLACK, all).await.ok();
    }
}

/// Whether the error can be caused by everybody who connects, and is not a failure of this machine.
fn is_of_the_other_end(error: LaneError) -> bool {
    matches!(
        error,
        LaneError::Reset
            | LaneError::TimedOut
            | LaneError::Untrusted
            | LaneError::NotEncrypted
            | LaneError::Encrypted
            | LaneError::Failed
    )
}

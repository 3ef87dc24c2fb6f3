//! Mistakes in drivers: in the engine and the calls of the client, in the data plane, in the master's loop, sessions and
//! journal, and in the transfer of shared state. Machines have mistakes of their own (`verification --mutants`).

use super::{FoundBy, Mistake};

/// What the simulator has to find.
pub const DRIVERS: &[Mistake] = &[
    // Another operation's frame comes next on a lane, and is thrown away.
    Mistake {
        name: "a-frame-is-dropped-where-a-lane-is-handed-over",
        file: "plane/src/run.rs",
        edits: &[(
            "self.port.registry.route(rx, header);",
            "rx.go_home(header.length as usize);",
        )],
        found_by: FoundBy::Simulator,
    },
    // An operation that is given up leaves the rest of a frame to nobody.
    Mistake {
        name: "a-lane-is-passed-on-in-the-middle-of-a-frame",
        file: "plane/src/run/lanes.rs",
        edits: &[(
            "Some(Ok((head, body))) => tx.leave_unfinished([head, body].concat()),",
            "Some(Ok(_)) => tx.pass_on(),",
        )],
        found_by: FoundBy::Simulator,
    },
    // It is read as the next header.
    Mistake {
        name: "the-payload-of-an-operation-that-is-over-is-not-thrown-away",
        file: "plane/src/handover/registry.rs",
        edits: &[(
            "if let Some(Delivery::Frame(lane, header)) = refused {\n            lane.go_home(header.length as usize);",
            "if let Some(Delivery::Frame(lane, _)) = refused {\n            lane.go_home(0);",
        )],
        found_by: FoundBy::Simulator,
    },
    // A neighbour has heard of an operation first, and the lane with its frame is not routed when it begins here.
    Mistake {
        name: "lanes-with-early-frames-are-dropped",
        file: "plane/src/handover/registry.rs",
        edits: &[(
            "let early = mem::take(&mut state.early);\n        drop(state);\n        for (lane, header) in early {\n            self.route(lane, header);\n        }\n        ended",
            "state.early.clear();\n        ended",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-frame-of-an-older-operation-is-taken",
        file: "plane/src/run.rs",
        edits: &[(
            "if header.seq == self.port.seq {",
            "if header.seq <= self.port.seq {",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-frame-goes-on-twice",
        file: "plane/src/work/arriving.rs",
        edits: &[("for nth in 0..last {", "for nth in 0..=last {")],
        found_by: FoundBy::Simulator,
    },
    // In place both are in the same memory.
    Mistake {
        name: "the-contribution-leaves-where-the-result-should",
        file: "plane/src/work/leaving.rs",
        edits: &[(
            "Body::Result(range) => buffers.result(range.clone()),",
            "Body::Result(range) => buffers.contribution(range.clone()),",
        )],
        found_by: FoundBy::Simulator,
    },
    // What goes around is encoded on the grid of another rank.
    Mistake {
        name: "sums-that-are-complete-are-not-encoded-again",
        file: "plane/src/work/coded.rs",
        edits: &[(
            "codec.encode_sums(sums, encoded)?;",
            "if !finishes {\n                codec.encode_sums(sums, encoded)?;\n            }",
        )],
        found_by: FoundBy::Simulator,
    },
    // Whoever contributes keeps what the others have quantized.
    Mistake {
        name: "what-is-quantized-is-not-adopted",
        file: "plane/src/work/coded.rs",
        edits: &[(
            "if !stripe.has_taken_up_to(frame.end) {",
            "if stripe.has_taken_up_to(frame.end) {",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "the-ranks-are-those-of-the-ring-before",
        file: "plane/src/plane.rs",
        edits: &[(
            "self.ranks = ranks;",
            "self.ranks = std::mem::replace(&mut self.ranks, ranks).or(self.ranks.take());",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-lane-is-not-asked-for-again",
        file: "plane/src/run/lanes.rs",
        edits: &[("self.asked = false;\n        tx.steer();", "tx.steer();")],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "whoever-waits-for-a-lane-is-not-noted",
        file: "plane/src/handover/sending.rs",
        edits: &[(
            "turns.waiting.push_back(address.clone());\n        Ok(None)",
            "Ok(None)",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-wake-up-is-lost-in-a-mailbox",
        file: "plane/src/handover/mailbox.rs",
        edits: &[("self.shared.news.store(false, Ordering::Release);\n", "\n")],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-wake-up-is-lost-where-a-lane-comes-home",
        file: "plane/src/handover/receiving.rs",
        edits: &[(
            "let keeper = state.keeper.take();\n        drop(state);\n        keeper.into_iter().for_each(Waker::wake);\n    }\n\n    /// The lane does",
            "drop(state);\n    }\n\n    /// The lane does",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-share-is-not-handed-on",
        file: "plane/src/pace/pacer.rs",
        edits: &[(
            "open.remove(&self.seq);\n        self.pacer.share_out(&mut open);",
            "open.remove(&self.seq);",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-stall-is-never-noticed",
        file: "plane/src/run/stalling.rs",
        edits: &[(
            "if check.frame_stuck || check.is_starved || misled {",
            "if misled {",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "only-the-first-piece-of-a-buffer-is-put-back",
        file: "plane/src/memory/backup.rs",
        edits: &[(
            "for range in self.saved.drain(..) {",
            "for range in self.saved.drain(..).take(1) {",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-buffer-is-not-put-back-after-an-abort",
        file: "client/src/collective.rs",
        edits: &[("            self.backup.restore(self.data);\n", "")],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-result-is-kept-before-the-verdict",
        file: "client/src/collective.rs",
        edits: &[(
            "(false, _) => self.votes(Vote::Final, ended)?,\n",
            "(false, _) => {\n                            self.votes(Vote::Final, ended)?;\n                            memory.keep();\n                        }\n",
        )],
        found_by: FoundBy::Simulator,
    },
    // And the contributors are the members that this peer knows of.
    Mistake {
        name: "a-result-is-reported-before-the-verdict",
        file: "client/src/collective.rs",
        edits: &[(
            "(false, _) => self.votes(Vote::Final, ended)?,\n",
            "(false, _) => {\n                            self.votes(Vote::Final, ended)?;\n                            self.made.is_answered();\n                            memory.keep();\n                            let contributors = self.calls.view.borrow().topology.ring.0.clone();\n                            let committed = Committed { seq, contributors };\n                            return Ok(self.report(committed, run, stats));\n                        }\n",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-call-that-is-dropped-is-not-given-up",
        file: "client/src/calls.rs",
        edits: &[("if !self.is_answered {", "if false {")],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "an-abort-is-not-forwarded-to-the-lanes",
        file: "client/src/engine/mod.rs",
        edits: &[(
            "(PeerOutput::StopPlan { seq }, Some(live)) => live.stop(seq),",
            "(PeerOutput::StopPlan { .. }, Some(_)) => {}",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-link-is-up-before-its-last-lane",
        file: "client/src/engine/wiring.rs",
        edits: &[(
            "if opening.up.len() < opening.ordered {",
            "if opening.up.len() + 1 < opening.ordered {",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-session-that-goes-on-skips-a-message",
        file: "client/src/engine/control.rs",
        edits: &[(
            "let lacking = self.messages.after(received)?;",
            "let lacking = self.messages.after(received)?.skip(1);",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-peer-acknowledges-one-message-too-many",
        file: "client/src/engine/control.rs",
        edits: &[(
            "self.queue.has_received(self.reader.received());",
            "self.queue.has_received(self.reader.received() + 1);",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-state-is-written-before-the-verdict",
        file: "client/src/sync.rs",
        edits: &[
            (
                "        state: &SharedState<'_>,\n        order: MoveOrder,",
                "        state: &mut SharedState<'_>,\n        order: MoveOrder,",
            ),
            (
                "                self.moved = moved;\n",
                "                self.moved = moved;\n                self.write(state)?;\n",
            ),
        ],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "the-hash-of-an-entry-is-not-compared",
        file: "client/src/transfer/fetching.rs",
        edits: &[(
            "self.progress.moved()).await == whole.hash;",
            "self.progress.moved()).await == whole.hash || true;",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "what-was-fetched-of-another-revision-is-used",
        file: "client/src/transfer/staging.rs",
        edits: &[(
            "staged.hash == *hash && staged.content.length() == *length",
            "staged.content.length() == *length",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "what-a-lane-has-not-brought-is-not-given-back",
        file: "client/src/transfer/board.rs",
        edits: &[(
            "rest.for_each(|batch| state.to_take.push_front(batch));",
            "drop(rest);",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-silent-peer-is-never-evicted",
        file: "master/src/desk.rs",
        edits: &[(
            "(later > now).then_some(later)",
            "Some(later.max(now + self.heartbeat))",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "the-master-drops-a-disconnect",
        file: "master/src/desk.rs",
        edits: &[(
            "self.ended(peer, &error, may_return);",
            "tracing::debug!(%error, may_return);",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "the-master-says-a-verdict-twice",
        file: "master/src/desk.rs",
        edits: &[(
            "if let Err(error) = connected.outbox.push(message) {",
            "if matches!(message, ToPeer::Verdict { .. }) {\n            connected.outbox.push(message).ok();\n        }\n        if let Err(error) = connected.outbox.push(message) {",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "the-master-skips-a-message-to-a-peer-that-comes-back",
        file: "master/src/outbox.rs",
        edits: &[(
            "waiting.taken = received;\n        waiting.waiting_bytes = unsent;",
            "waiting.taken = received + u64::from(unsent > 0);\n        waiting.waiting_bytes = unsent * 2;",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-peer-that-has-come-back-counts-as-absent",
        file: "master/src/desk/sessions.rs",
        edits: &[(
            "            self.timers.disarm(Due::Absence(peer));\n        } else {",
            "        } else {",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "the-journal-loses-what-has-no-consequence-yet",
        file: "master/src/journal.rs",
        edits: &[(
            "let record = self.encoder.said(outputs)?;\n",
            "let record = self.encoder.said(outputs)?;\n        if outputs.is_empty() {\n            return Ok(());\n        }\n",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "peers-are-told-before-the-journal-is-written",
        file: "master/src/desk/durable.rs",
        edits: &[(
            "match journaling.journal.flush() {",
            "let flushed = match journaling.journal.is_long() {\n            true => journaling.journal.flush(),\n            false => Ok(()),\n        };\n        match flushed {",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-master-that-goes-on-miscounts-what-it-has-heard",
        file: "master/src/desk/durable.rs",
        edits: &[(
            "            heard,\n            has_spoken: false,",
            "            heard: heard.saturating_sub(1),\n            has_spoken: false,",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-newcomer-that-is-admitted-keeps-its-place",
        file: "master/src/granted.rs",
        edits: &[(
            "let permit = self.lock().take();\n        drop(permit);",
            "let _place = self.lock();",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-master-that-goes-on-starts-no-timers",
        file: "master/src/desk/durable.rs",
        edits: &[(
            "        self.start_anew(timers, away_until);\n",
            "        drop(timers);\n",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-timer-that-was-stopped-fires",
        file: "master/src/desk.rs",
        edits: &[(
            "MasterOutput::StopTimer(timer) => self.timers.disarm(Due::Machine(timer)),",
            "MasterOutput::StopTimer(_) => {}",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-link-that-is-replaced-is-not-taken-from-its-operations",
        file: "plane/src/plane.rs",
        edits: &[(
            "            old.retire(&self.registry);\n",
            "            drop(old);\n",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-lane-that-is-told-to-come-again-does-not",
        file: "client/src/engine/dial.rs",
        edits: &[(
            "Err(HandshakeError::NotYet(_)) => sleep(backoff.pause()).await,",
            "Err(HandshakeError::NotYet(_)) if false => sleep(backoff.pause()).await,",
        )],
        found_by: FoundBy::Simulator,
    },
    Mistake {
        name: "a-lane-that-comes-before-its-order-is-refused",
        file: "client/src/engine/door.rs",
        edits: &[(
            "None if self.spent.contains(&key) => Answer::Spent,\n            None => return Some(knock),",
            "None => Answer::Spent,",
        )],
        found_by: FoundBy::Simulator,
    },
];

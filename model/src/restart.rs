//! Another process follows that of the master, and goes on from its journal.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pccl_core::id::PeerId;
use pccl_core::journal::{Durable, DurableSession, Pending};
use pccl_core::messages::{ToMaster, ToPeer};
use pccl_core::peer::PeerPhase;

use crate::claim::Claim;
use crate::connection::End;
use crate::hashed::Hashed;
use crate::journal::{Journal, Loss, Received, Unheard};
use crate::milestone::Milestone;
use crate::run::Run;
use crate::state::{Ghost, Life, Tour};
use crate::step::SeatNo;

impl Run<'_> {
    /// The master is followed by the one that its journal gives, and the peers come back to that one.
    pub(crate) fn restart_master(&mut self, loss: Loss) {
        let Some(journal) = self.state.journal.clone() else {
            return;
        };
        let unheard = match loss {
            Loss::Process => None,
            Loss::LastRecord => journal.may_lose(&self.state.ghost),
        };
        let Ok(restored) = catch_unwind(AssertUnwindSafe(|| journal.restored(loss))) else {
            return self.state.breaks(Claim::NoPanic);
        };
        let Some(durable) = restored else {
            return self.state.breaks(Claim::Resumption);
        };
        self.state.reach(Milestone::CameBack);
        if let Some(unheard) = &unheard {
            self.state.reach(Milestone::HeardAgain);
            self.forget_what_it_changed(unheard);
        }
        let mut received = journal.all_received().clone();
        for no in self.state.seat_numbers() {
            self.comes_back(no, &durable, unheard.as_ref(), &mut received);
        }
        self.goes_on(durable, received);
    }

    /// Verdicts have been told, whether or not the master knows of them.
    fn forget_what_it_changed(&mut self, unheard: &Unheard) {
        if let Some(before) = &unheard.ghost {
            let verdicts = self.state.ghost.verdicts.clone();
            self.state.ghost = Hashed::new(Ghost {
                verdicts,
                ..Ghost::clone(before)
            });
        }
    }

    fn goes_on(&mut self, durable: Durable, received: BTreeMap<PeerId, Received>) {
        let Durable {
            master,
            pending: Pending { timers, questions },
            ..
        } = &durable;
        if !timers.keys().copied().eq(master.view().timers()) {
            self.state.breaks(Claim::Timers);
        }
        for (_, peer) in master.view().peers() {
            self.coverage.restarted(peer.state());
        }
        let tours = questions.iter().map(|((round, group), problem)| Tour {
            round: *round,
            group: *group,
            problem: problem.clone(),
        });
        self.state.tours = tours.collect();
        // A background search is not continued by another process.
        self.state.asked.clear();
        self.state.searches.clear();
        self.state.master = Some(Hashed::new(master.clone()));
        self.state.journal = Some(Hashed::new(Journal::of(durable, received)));
    }

    /// No connection outlives the process. Who lives and was welcome goes on where it was.
    fn comes_back(
        &mut self,
        no: SeatNo,
        durable: &Durable,
        unheard: Option<&Unheard>,
        received: &mut BTreeMap<PeerId, Received>,
    ) {
        let seat = self.seat(no);
        let phase = seat.peer.view().phase();
        let connection = &seat.connection;
        let is_whole = connection.up.end == End::Open && connection.down.end == End::Open;
        let comes_back = seat.life == Life::Running && is_whole;
        match (seat.id, phase) {
            (_, PeerPhase::Unconnected) if comes_back => {}
            (Some(peer), PeerPhase::Registered | PeerPhase::Accepted) if comes_back => {
                let session = durable.sessions.get(&peer);
                let known = received.get_mut(&peer);
                let resumed = session.zip(known).and_then(|(session, received)| {
                    let lost = unheard.filter(|unheard| unheard.peer == peer);
                    self.resume(no, session, lost.map(|lost| &lost.message), received)
                });
                if resumed.is_none() {
                    self.state.breaks(Claim::Resumption);
                }
            }
            // It has no token yet, is gone, or its connection has ended already.
            _ => self.does_not_come_back(no),
        }
    }

    /// What was on its way to the old process is lost, unless the sender is there to say it again.
    fn does_not_come_back(&mut self, no: SeatNo) {
        let is_there = self.seat(no).life == Life::Running;
        let is_welcome = self.seat(no).peer.view().phase() != PeerPhase::AwaitingWelcome;
        let connection = &mut self.edit(no).connection;
        if !is_there || !is_welcome {
            connection.up.queue.clear();
        }
        if !is_welcome {
            connection.down.queue.clear();
        }
        connection.up.cut();
        connection.down.cut();
    }

    /// Each end sends again what the other one lacks. `None`: it does not keep that, or the other one has received more
    /// than it has sent.
    fn resume(
        &mut self,
        no: SeatNo,
        session: &DurableSession,
        unheard: Option<&ToMaster>,
        received: &mut Received,
    ) -> Option<()> {
        let said = session.sent.after(received.by_peer).ok()?;
        let down: Vec<ToPeer> = said.cloned().collect();
        let connection = &mut self.edit(no).connection;
        let sent = received.by_master + connection.up.queue.len() as u64;
        let lacks = sent.checked_sub(session.heard)?;
        let kept = unheard.into_iter().chain(&connection.up.queue);
        let kept: Vec<ToMaster> = kept.cloned().collect();
        let has = kept.len().checked_sub(usize::try_from(lacks).ok()?)?;
        connection.up.queue = kept.into_iter().skip(has).collect();
        connection.down.queue = down.into();
        received.by_master = session.heard;
        Some(())
    }
}

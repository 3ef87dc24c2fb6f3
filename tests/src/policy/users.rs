//! Users: their programs call, are answered, and go on.

use super::machines::{Ask, Heard, Out, PeerDesk, Trouble};
use super::network::SeatNo;
use super::program::{Rarely, Step};
use super::seat::Exit;
use super::time::{MILLISECOND, Micros};
use super::world::{Happening, Process, World};

/// Between the answer to a call and the next call.
const TURN: Micros = MILLISECOND / 10;

impl World {
    /// A process starts in this seat, and connects.
    pub(super) fn start(&mut self, no: SeatNo) {
        let seat = &mut self.seats[no.0];
        let settled = &seat.plan;
        let port = 48_149 + u16::try_from(no.0).unwrap_or(0);
        let desk = PeerDesk::new(settled.group, settled.address, port, settled.lanes);
        (seat.desk, seat.wakes) = (Some(desk), Micros::MAX);
        seat.life += 1;
        seat.open = None;
        seat.program.begin();
        if let Some(process) = self.process(no) {
            self.call(process, Ask::Connect);
        }
    }

    fn call(&mut self, process: Process, ask: Ask) {
        let now = self.now();
        let seat = &mut self.seats[process.seat.0];
        seat.open = Some((ask, now));
        self.with_desk(process, |desk, now| desk.ask(now, ask));
    }

    /// Carries out the program's present step.
    pub(super) fn user_goes_on(&mut self, process: Process) {
        if !self.runs(process) {
            return;
        }
        let now = self.now();
        let seat = &mut self.seats[process.seat.0];
        let memory = seat.memory;
        seat.program.turn(now);
        match seat.program.step() {
            Step::Think(time) => {
                seat.program.done();
                self.after(time, Happening::UserGoesOn(process));
            }
            Step::Update => self.call(process, Ask::Update),
            Step::Sync => {
                let ask = Ask::Sync {
                    revision: memory.revision,
                    content: memory.content,
                    bytes: memory.bytes,
                };
                self.call(process, ask);
            }
            Step::Reduce { tag, bytes } | Step::InnerReduce { tag, bytes } => {
                self.call(process, Ask::Reduce { tag, bytes });
            }
            Step::Once { from, what } if now >= from && !seat.program.once_done => {
                seat.program.once_done = true;
                self.user_does_once(process, what);
            }
            Step::Once { .. } => self.user_is_done(process),
        }
    }

    fn user_does_once(&mut self, process: Process, what: Rarely) {
        match what {
            Rarely::Optimize => self.call(process, Ask::Optimize),
            Rarely::UpdateAndDrop => {
                self.call(process, Ask::Update);
                self.seats[process.seat.0].open = None;
                self.with_desk(process, |desk, now| desk.ask(now, Ask::Drop));
                self.user_is_done(process);
            }
            Rarely::Leave => self.with_desk(process, |desk, now| desk.ask(now, Ask::Leave)),
        }
    }

    pub(super) fn user_hears(&mut self, process: Process, heard: Heard) {
        let now = self.now();
        let seat = &mut self.seats[process.seat.0];
        let open = seat.open.take();
        if let (Some((Ask::Update, since)), Heard::Updated) = (open, &heard) {
            seat.record.updates.push((now, now - since));
        }
        match heard {
            Heard::Failed(trouble) => self.user_fails(process, trouble),
            Heard::Joined => {
                seat.record.joined = Some(now);
                self.after(TURN, Happening::UserGoesOn(process));
            }
            Heard::Updated => self.user_is_done(process),
            Heard::Synchronized(revision) => {
                seat.memory.revision = revision;
                self.user_is_done(process);
            }
            Heard::Reduced(seq) => {
                self.log.committed(now, seq, process.seat);
                let memory = &mut seat.memory;
                memory.content = memory.content.rotate_left(7) ^ u128::from(seq.0);
                if matches!(seat.program.step(), Step::Reduce { .. }) {
                    memory.revision += 1;
                }
                self.user_is_done(process);
            }
        }
    }

    fn user_is_done(&mut self, process: Process) {
        self.seats[process.seat.0].program.done();
        self.after(TURN, Happening::UserGoesOn(process));
    }

    fn user_fails(&mut self, process: Process, trouble: Trouble) {
        let now = self.now();
        let seat = &mut self.seats[process.seat.0];
        if let Trouble::Over = trouble {
            // Its machine closes everything, which ends the program.
            return;
        }
        seat.record.failed.push(now);
        if trouble == Trouble::Conflict {
            seat.record.conflicts.push(now);
        }
        if seat.program.failed(&trouble) {
            self.after(TURN, Happening::UserGoesOn(process));
        } else if let Trouble::Final(why) = trouble {
            self.end_process(process.seat, Exit::Lost(why));
        }
    }

    /// The peer is out of the run: its user connects again, or ends.
    pub(super) fn goes_out(&mut self, process: Process, out: Out) {
        let now = self.now();
        let seat = &mut self.seats[process.seat.0];
        let (exit, again) = match out {
            Out::MasterLost => {
                let exit = Exit::Lost("lost the master".to_owned());
                (exit, seat.program.reconnects)
            }
            Out::Because(why) => {
                seat.record.sent_away.push(now);
                (Exit::Lost(why), seat.program.returns)
            }
            Out::Left => (Exit::Left, None),
        };
        match again {
            Some(after) => self.after(after, Happening::Starts(process.seat)),
            None => self.end_process(process.seat, exit),
        }
    }
}

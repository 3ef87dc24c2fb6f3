//! One master and its peers: all sizes that are measured with the same processes.

use std::collections::BTreeMap;

use super::arguments::Arguments;
use super::crew::{ChildId, Crew, Trouble};
use super::plan::Plan;
use super::rank::Assignment;
use super::row::{Findings, Row, Samples, Subject};
use super::talk::{Buffers, Contestant, Event, Measured, Order, Series};

/// Sizes of the floor's pieces that are tried: this one and its doubles.
const SMALLEST_PIECE: usize = 64 << 10;
const LARGEST_PIECE: usize = 1 << 20;

/// How often each of them gets its turn.
const TRIALS: u32 = 3;

/// The best size of pieces, by number of peers and bytes.
pub(crate) type BestPieces = BTreeMap<(usize, usize), usize>;

/// A master and its peers, connected.
pub(crate) struct Session<'a> {
    arguments: &'a Arguments,
    peers: usize,
    lanes: u16,
    crew: Crew,
    master: ChildId,
    ranks: Vec<ChildId>,
    /// The number of the next iteration.
    next: u64,
}

impl<'a> Session<'a> {
    /// Starts all processes and waits until they are connected.
    pub(crate) fn start(
        arguments: &'a Arguments,
        peers: usize,
        lanes: u16,
    ) -> Result<Self, Trouble> {
        let mut crew = Crew::new();
        let master = crew.start("the master".into(), &["master".to_owned()])?;
        let address = crew.hear_one(master, "its address", address_in)?;
        let mut ranks = Vec::new();
        for rank in 0..peers {
            let assignment = Assignment {
                rank,
                peers,
                lanes,
                master: address,
                work: arguments.work.clone(),
            };
            ranks.push(crew.start(format!("rank {rank}"), &assignment.to_arguments())?);
        }
        let addresses = crew.hear(&ranks, "its address", address_in)?;
        crew.hear(&ranks, "joining the run", joined_in)?;
        if !arguments.no_floor {
            let next = addresses.iter().cycle().skip(1);
            for (rank, next) in ranks.iter().zip(next) {
                crew.tell(&[*rank], &Order::JoinFloor { next: *next });
            }
            crew.hear(&ranks, "joining the floor", joined_in)?;
        }
        Ok(Self {
            arguments,
            peers,
            lanes,
            crew,
            master,
            ranks,
            next: 0,
        })
    }

    /// Measures one size.
    pub(crate) fn measure(&mut self, count: usize, best: &mut BestPieces) -> Result<Row, Trouble> {
        let subject = Subject {
            peers: self.peers,
            lanes: self.lanes,
            count,
            element_bytes: self.arguments.work.element.size(),
            concurrent: self.arguments.work.concurrent,
        };
        let plan = Plan::new(self.arguments, subject.bytes_per_iteration());
        self.prepare(count, plan.batch)?;
        let floor = if self.arguments.no_floor {
            None
        } else {
            Some(self.best_piece(&subject, &plan, best)?)
        };
        let found = self.take_turns(&plan, floor)?;
        Ok(Row::new(&subject, &self.arguments.work, &found))
    }

    /// Ends all processes, the peers first.
    pub(crate) fn end(mut self) -> Result<(), Trouble> {
        self.crew.dismiss(&self.ranks)?;
        self.crew.dismiss(&[self.master])
    }

    fn prepare(&mut self, count: usize, batch: usize) -> Result<(), Trouble> {
        let buffers = Buffers { count, batch };
        self.crew.tell(&self.ranks, &Order::Prepare(buffers));
        let prepared = |event| matches!(event, Event::Prepared).then_some(());
        self.crew.hear(&self.ranks, "buffers", prepared)?;
        Ok(())
    }

    /// Tries all sizes of pieces, unless that was done for so many peers and bytes before.
    fn best_piece(
        &mut self,
        subject: &Subject,
        plan: &Plan,
        best: &mut BestPieces,
    ) -> Result<usize, Trouble> {
        let bytes = subject.bytes_per_iteration();
        let key = (self.peers, bytes);
        if let Some(piece) = best.get(&key) {
            return Ok(*piece);
        }
        let piece = match sensible_pieces(bytes / self.peers).as_slice() {
            [only] => *only,
            several => self.fastest(several, plan)?,
        };
        best.insert(key, piece);
        Ok(piece)
    }

    /// In turns, and by the fastest iteration of each: whatever else the machine does only slows down.
    fn fastest(&mut self, pieces: &[usize], plan: &Plan) -> Result<usize, Trouble> {
        let mut trials: Vec<(usize, Samples)> = Vec::new();
        trials.extend(pieces.iter().map(|piece| (*piece, Samples::default())));
        for turn in 0..=TRIALS {
            for (piece_bytes, samples) in &mut trials {
                let piece_bytes = *piece_bytes;
                let measured = self.series(Contestant::Floor { piece_bytes }, plan.trial)?;
                // The first turn warms up.
                if turn > 0 {
                    samples.add(&measured);
                }
            }
        }
        let by_time = |one: &(usize, Samples), other: &(usize, Samples)| {
            one.1.min_us().total_cmp(&other.1.min_us())
        };
        let fastest = trials.iter().min_by(|one, other| by_time(one, other));
        Ok(fastest.map_or(SMALLEST_PIECE, |(piece, _)| *piece))
    }

    /// Ours, the floor, ours, the floor, and so on.
    fn take_turns(&mut self, plan: &Plan, piece: Option<usize>) -> Result<Findings, Trouble> {
        let floor = piece.map(|piece_bytes| Contestant::Floor { piece_bytes });
        let mut ours = Samples::default();
        ours.add_wrong(&self.series(Contestant::Ours, plan.warmup)?);
        if let Some(of) = floor {
            self.series(of, plan.warmup)?;
        }
        let mut found = Findings {
            ours,
            master_cpu_ns: 0,
            floor: piece.map(|piece| (piece, Samples::default())),
            iterations: plan.iterations(),
        };
        for iterations in &plan.turns {
            let before = self.master_cpu_ns()?;
            found.ours.add(&self.series(Contestant::Ours, *iterations)?);
            found.master_cpu_ns += self.master_cpu_ns()?.saturating_sub(before);
            if let (Some(of), Some((_, samples))) = (floor, &mut found.floor) {
                samples.add(&self.series(of, *iterations)?);
            }
        }
        Ok(found)
    }

    /// Some iterations on all ranks. Each batch begins when all are ready for it, and nobody checks it
    /// before all are done.
    fn series(&mut self, of: Contestant, iterations: u32) -> Result<Vec<Measured>, Trouble> {
        let series = Series {
            of,
            first: self.next,
            iterations,
        };
        self.next += u64::from(iterations);
        self.crew.tell(&self.ranks, &Order::Measure(series));
        loop {
            let answers = self
                .crew
                .hear(&self.ranks, "an iteration", |event| match event {
                    Event::Ready => Some(None),
                    Event::Measured(measured) => Some(Some(measured)),
                    Event::Listening { .. }
                    | Event::Joined
                    | Event::Prepared
                    | Event::CpuTime { .. }
                    | Event::Failed { .. } => None,
                })?;
            // All ranks make the same batches, so all are ready or all are done.
            match answers.into_iter().collect() {
                Some(measured) => return checked(of, measured),
                None => self.crew.tell(&self.ranks, &Order::Go),
            }
        }
    }

    fn master_cpu_ns(&mut self) -> Result<u64, Trouble> {
        self.crew.tell(&[self.master], &Order::TellCpuTime);
        self.crew
            .hear_one(self.master, "its CPU time", |event| match event {
                Event::CpuTime { ns } => Some(ns),
                _ => None,
            })
    }
}

/// The floor is there to compare with, and has to be right.
fn checked(of: Contestant, measured: Vec<Measured>) -> Result<Vec<Measured>, Trouble> {
    let wrong = measured.iter().map(|rank| rank.wrong).sum();
    match of {
        Contestant::Floor { .. } if wrong > 0 => Err(Trouble::WrongFloor(wrong)),
        Contestant::Floor { .. } | Contestant::Ours => Ok(measured),
    }
}

/// A piece larger than a chunk is the chunk, which the next smaller one may be already.
fn sensible_pieces(chunk: usize) -> Vec<usize> {
    let doubles = std::iter::successors(Some(SMALLEST_PIECE), |piece| Some(piece * 2));
    doubles
        .take_while(|piece| *piece <= LARGEST_PIECE)
        .filter(|piece| *piece == SMALLEST_PIECE || piece / 2 < chunk)
        .collect()
}

fn address_in(event: Event) -> Option<std::net::SocketAddr> {
    match event {
        Event::Listening { address } => Some(address),
        _ => None,
    }
}

fn joined_in(event: Event) -> Option<()> {
    matches!(event, Event::Joined).then_some(())
}

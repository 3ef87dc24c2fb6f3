//! A search for the best ring that can be continued, with a bound on the optimum.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::costs::{Costs, EdgeCost, Objective};
use super::exact::{self, EXACT_MAX};
use super::graph::{Graph, smallest_bottleneck};
use super::improver::Improver;
use super::matrix::Matrix;
use super::node::Node;
use super::random::Random;

/// What the search for a ring with a given bottleneck may spend the first time, per node.
const PATIENCE: u64 = 20_000;

/// How much more it may spend the next time, and how much of that is spent on the sum before.
const MORE_PATIENCE: u64 = 4;

/// A search for the best ring. It takes as many steps as it is told to, and can be continued: `run(a)` and `run(b)`
/// find what `run(a + b)` finds. The same problem and seed give the same answer.
#[derive(Clone, Debug)]
pub struct Search {
    costs: Costs,
    objective: Objective,
    random: Random,
    granted: u64,
    spent: u64,
    best: Option<Best>,
    /// No ring has a smaller bottleneck, and none with the best ring's bottleneck a smaller sum.
    bound: EdgeCost,
    /// What may be spent on a term in the search for a smaller bottleneck, per node.
    patience: u64,
    /// Up to so many nodes dynamic programs are used; fewer than [`EXACT_MAX`] in tests.
    pub(super) exact_max: usize,
    stage: Stage,
}

/// A ring and what it costs.
#[derive(Clone, Debug)]
struct Best {
    ring: Vec<Node>,
    cost: EdgeCost,
}

#[derive(Clone, Debug)]
enum Stage {
    Fresh,
    /// Looking for a ring with a smaller bottleneck.
    Narrow(Box<Narrow>),
    /// Looking for a smaller sum.
    Shorten(Box<Shorten>),
    /// The best ring is proven to be the best, or that there is none.
    Over,
}

/// The search for a ring with a smaller bottleneck. Not to find a ring in time counts as if there were
/// none.
#[derive(Clone, Debug)]
struct Narrow {
    /// The different bottleneck terms, the smallest first.
    terms: Vec<u64>,
    /// Which of them is tried.
    target: usize,
    /// All before this one were tried.
    lowest: usize,
    /// How far above those the next one is, as long as no ring is known.
    stride: usize,
    /// The bottleneck term that is tried.
    allowed: u64,
    improver: Improver,
}

/// The search for a ring with a smaller sum.
#[derive(Clone, Debug)]
struct Shorten {
    /// The largest bottleneck term that is allowed.
    allowed: u64,
    improver: Improver,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchResult {
    /// A ring without unreachable edges.
    Found(Found),
    /// No such ring was found so far.
    NotFound,
    /// It is proved that every ring has an unreachable edge.
    Impossible,
}

/// A ring, and a bound on the optimum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// All nodes, the first node first.
    pub ring: Vec<Node>,
    /// The cost of the ring.
    pub cost: EdgeCost,
    /// Lower bound of the cost of all rings. Under [`Objective::Sum`] its bottleneck is zero, because it does not
    /// matter. Under [`Objective::Bottleneck`] its sum is that of rings with this ring's bottleneck.
    pub bound: EdgeCost,
    /// Whether it is proved that no ring is better.
    pub is_optimal: bool,
}

impl Search {
    /// A search that has not begun. Its first ring is the order of the nodes; another ring must be better.
    #[must_use]
    pub fn new(costs: Costs, objective: Objective, seed: u64) -> Self {
        let ring: Vec<Node> = Node::all(costs.count()).collect();
        let present = costs.ring(&ring).filter(|_| !ring.is_empty());
        Self {
            best: present.map(|cost| Best { ring, cost }),
            costs,
            objective,
            random: Random::new(seed),
            granted: 0,
            spent: 0,
            bound: EdgeCost::default(),
            patience: PATIENCE,
            exact_max: EXACT_MAX,
            stage: Stage::Fresh,
        }
    }

    /// Takes this many more steps, or fewer if the answer is proved before. A step is the check of one edge. The last
    /// piece of work is completed, and its excess is subtracted from the next steps.
    pub fn run(&mut self, steps: u64) {
        self.granted = self.granted.saturating_add(steps);
        while self.spent < self.granted && !self.is_over() {
            self.stage = match core::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Fresh => self.begin(),
                Stage::Narrow(narrow) => self.narrow(narrow),
                Stage::Shorten(shorten) => self.shorten(shorten),
                Stage::Over => Stage::Over,
            };
        }
    }

    /// Whether more steps cannot change the answer.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Number of steps so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.spent
    }

    /// The costs of the problem.
    #[must_use]
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The best result so far.
    #[must_use]
    pub fn result(&self) -> SearchResult {
        match &self.best {
            Some(best) => {
                let mut ring = best.ring.clone();
                if let Some(first) = ring.iter().position(|node| *node == Node(0)) {
                    ring.rotate_left(first);
                }
                SearchResult::Found(Found {
                    ring,
                    cost: best.cost,
                    bound: self.bound,
                    is_optimal: self.is_over(),
                })
            }
            None if self.is_over() => SearchResult::Impossible,
            None => SearchResult::NotFound,
        }
    }

    fn begin(&mut self) -> Stage {
        let edges = self.costs.edges().len() as u64;
        self.spent += 1 + edges;
        if self.costs.count() <= self.exact_max {
            return self.solve_exactly();
        }
        match self.objective {
            Objective::Sum if !Graph::new(&self.costs, u64::MAX).may_have_ring() => Stage::Over,
            Objective::Sum => self.shorten_within(u64::MAX),
            Objective::Bottleneck => match smallest_bottleneck(&self.costs) {
                Some(term) => {
                    self.bound.bottleneck = term;
                    self.spent += 30 * edges;
                    self.narrow_from_below()
                }
                None => Stage::Over,
            },
        }
    }

    fn solve_exactly(&mut self) -> Stage {
        let ring = exact::best(&self.costs, self.objective);
        let cost = ring.as_ref().and_then(|ring| self.costs.ring(ring));
        self.best = ring.zip(cost).map(|(ring, cost)| Best { ring, cost });
        if let Some(best) = &self.best {
            self.bound = best.cost;
        }
        if self.objective == Objective::Sum {
            self.bound.bottleneck = 0;
        }
        let nodes = self.costs.count() as u64;
        self.spent += (nodes * nodes) << nodes;
        Stage::Over
    }

    /// Takes a ring over if it is better than the best so far.
    fn note(&mut self, ring: &[Node]) {
        let Some(cost) = self.costs.ring(ring) else {
            return;
        };
        let key = |cost: EdgeCost| match self.objective {
            Objective::Sum => (0, cost.sum),
            Objective::Bottleneck => (cost.bottleneck, cost.sum),
        };
        if self
            .best
            .as_ref()
            .is_none_or(|best| key(cost) < key(best.cost))
        {
            let ring = ring.to_vec();
            self.best = Some(Best { ring, cost });
        }
    }

    /// A search among the rings whose edges are allowed, from the best ring on.
    fn improver(&mut self, allowed: u64) -> Improver {
        let matrix = Matrix::of(&self.costs, allowed);
        let known = self.best.as_ref().map(|best| best.ring.clone());
        let ring = known.unwrap_or_else(|| Node::all(self.costs.count()).collect());
        let improver = Improver::new(matrix, &ring, self.random.fork());
        self.spent += improver.spent();
        self.note(improver.best().0);
        improver
    }

    fn shorten_within(&mut self, allowed: u64) -> Stage {
        let improver = self.improver(allowed);
        self.shorten_with(Shorten { allowed, improver })
    }

    fn shorten_with(&mut self, shorten: Shorten) -> Stage {
        self.bound.sum = u64::try_from(shorten.improver.bound()).unwrap_or(0);
        Stage::Shorten(Box::new(shorten))
    }

    fn shorten(&mut self, mut shorten: Box<Shorten>) -> Stage {
        let improver = &mut shorten.improver;
        let (spent, total) = (improver.spent(), improver.best().1);
        if !improver.is_over() {
            improver.work();
        }
        self.spent += improver.spent() - spent;
        self.bound.sum = u64::try_from(improver.bound()).unwrap_or(0);
        if improver.best().1 < total {
            self.note(improver.best().0);
        }
        let is_proven = self.is_bottleneck_proven();
        let rest = MORE_PATIENCE * self.patience * self.costs.count() as u64;
        match self.bottleneck().filter(|found| *found < shorten.allowed) {
            Some(smaller) if self.objective == Objective::Bottleneck => {
                self.shorten_within(smaller)
            }
            Some(_) | None if shorten.improver.is_over() && is_proven => Stage::Over,
            Some(_) | None
                if !is_proven
                    && (shorten.improver.is_over() || shorten.improver.spent() > rest) =>
            {
                self.patience *= MORE_PATIENCE;
                self.narrow_from_below()
            }
            Some(_) | None => Stage::Shorten(shorten),
        }
    }

    fn narrow_from_below(&mut self) -> Stage {
        let terms = self.costs.bottlenecks();
        let lowest = terms.partition_point(|term| *term < self.bound.bottleneck);
        self.try_term(terms, lowest, 0)
    }

    /// Of the terms from `lowest` on, tries one that is smaller than the best ring's.
    fn try_term(&mut self, terms: Vec<u64>, lowest: usize, stride: usize) -> Stage {
        let known = self.bottleneck().unwrap_or(u64::MAX);
        let smaller = terms.partition_point(|term| *term < known);
        if lowest >= smaller {
            return self.shorten_within(known);
        }
        let target = lowest + stride.min((smaller - lowest) / 2);
        let allowed = terms.get(target).copied().unwrap_or(known);
        Stage::Narrow(Box::new(Narrow {
            improver: self.improver(allowed),
            allowed,
            terms,
            target,
            lowest,
            stride,
        }))
    }

    fn narrow(&mut self, mut narrow: Box<Narrow>) -> Stage {
        let improver = &mut narrow.improver;
        let spent = improver.spent();
        if !improver.is_allowed() {
            improver.work();
        }
        self.spent += improver.spent() - spent;
        let patience = self.patience * self.costs.count() as u64;
        let is_last = narrow.target + 1 == narrow.terms.len();
        if !improver.is_allowed() && (is_last || improver.spent() < patience) {
            return Stage::Narrow(narrow);
        }
        self.note(improver.best().0);
        let Narrow {
            terms,
            target,
            lowest,
            stride,
            allowed,
            improver,
        } = *narrow;
        if !improver.is_allowed() {
            self.try_term(terms, target + 1, (2 * stride).max(1))
        } else if target == lowest && self.bottleneck() == Some(allowed) {
            self.shorten_with(Shorten { allowed, improver })
        } else {
            self.try_term(terms, lowest, stride)
        }
    }

    fn bottleneck(&self) -> Option<u64> {
        self.best.as_ref().map(|best| best.cost.bottleneck)
    }

    fn is_bottleneck_proven(&self) -> bool {
        match self.objective {
            Objective::Sum => true,
            Objective::Bottleneck => self.bottleneck() == Some(self.bound.bottleneck),
        }
    }
}

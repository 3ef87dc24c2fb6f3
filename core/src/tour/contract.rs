//! Initial duals for a bound, if the assignment falls apart into many cycles.
//!
//! If peers are at several sites with fast paths inside, the assignment closes one or several cycles in each site,
//! and never pays for a path between sites, as a ring does. So each cycle becomes one node, whose edges are as long
//! as the shortest path over reduced costs, and these nodes are assigned again, until one cycle is left. Frieze,
//! Galbiati and Maffioli, "On the worst-case performance of some algorithms for the asymmetric traveling salesman
//! problem" (1982), make rings in this way. Here its duals are added up: those of a contracted node count for each of
//! its members. The bound of [`super::ascent`] holds for any duals.

use alloc::vec::Vec;

use super::ascent::Ascent;
use super::assignment::{Assignment, assign};
use super::matrix::{Duals, Matrix};
use super::node::{Node, PerNode};
use super::patch::{cycles, patch};

/// With so few contracted nodes the bound of the spanning trees is cheap: its duals, after at most so
/// many steps, are tried in place of those of the last assignments.
const SMALL_MAX: usize = 64;
const STEPS_MAX: u64 = 1000;

/// Duals that add up those of the assignment and of what follows when its cycles are contracted, and
/// how many edges were looked at.
pub(super) fn contracted_duals(costs: &Matrix, assignment: &Assignment) -> (Vec<Duals>, u64) {
    let mut total = assignment.duals.clone();
    let mut group_of = groups(costs.count(), &assignment.next);
    let mut level = contract(&costs.reduced(&total), &group_of);
    let mut looks = 2 * (costs.count() * costs.count()) as u64;
    let mut found = Vec::new();
    while level.count() > 1 {
        let count = level.count();
        let paths = level.with_shortest_paths();
        let assigned = assign(&paths);
        looks += assigned.looks + (count * count * count / 8) as u64;
        if found.is_empty() && (3..=SMALL_MAX).contains(&count) {
            let ascended = ascended(&paths, &assigned, &mut looks);
            found.push(added(total.clone(), &group_of, &ascended));
        }
        total = added(total, &group_of, &assigned.duals);
        let groups = groups(count, &assigned.next);
        level = contract(&level.reduced(&assigned.duals), &groups);
        let merged = group_of.as_slice().iter();
        group_of = merged.map(|group| groups.get(*group)).collect();
    }
    found.push(total);
    (found, looks)
}

/// The duals of each node and of its group.
fn added(mut duals: Duals, group_of: &PerNode<Node>, of_groups: &Duals) -> Duals {
    for (node, group) in group_of.as_slice().iter().enumerate() {
        let node = Node::at(node);
        duals
            .out
            .update(node, |dual| dual + of_groups.out.get(*group));
        duals
            .into
            .update(node, |dual| dual + of_groups.into.get(*group));
    }
    duals
}

/// The duals of the bound that is reached from those of the assignment in some steps.
fn ascended(costs: &Matrix, assigned: &Assignment, looks: &mut u64) -> Duals {
    let (ring, _) = patch(costs, assigned.next.clone());
    let goal = costs.ring(&ring);
    let mut ascent = Ascent::new(costs, &assigned.duals, &[]);
    let mut steps = 0;
    while steps < STEPS_MAX && !ascent.is_over() {
        ascent.step(goal);
        steps += 1;
    }
    *looks += steps * ascent.looks();
    ascent.duals()
}

/// For each node the number of its cycle.
fn groups(count: usize, next: &PerNode<Node>) -> PerNode<Node> {
    let mut groups = PerNode::new(count);
    for (number, cycle) in cycles(count, next).iter().enumerate() {
        for node in cycle {
            groups.set(*node, Node::at(number));
        }
    }
    groups
}

/// The cheapest edges between groups.
fn contract(costs: &Matrix, groups: &PerNode<Node>) -> Matrix {
    let last = groups.as_slice().iter().max();
    let count = last.map_or(0, |last| last.index() + 1);
    let mut cells: Vec<i64> = alloc::vec![costs.forbidden(); count * count];
    for from in Node::all(costs.count()) {
        let group = groups.get(from).index();
        let row = cells.get_mut(group * count..(group + 1) * count);
        let row = row.unwrap_or_default();
        for (cost, to) in costs.row(from).iter().zip(groups.as_slice()) {
            if let Some(cell) = row.get_mut(to.index()).filter(|_| to.index() != group) {
                *cell = (*cell).min(*cost);
            }
        }
    }
    Matrix::new(count, cells, costs.forbidden())
}

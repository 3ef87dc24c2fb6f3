//! Carrying out what goes wrong, and taking it back.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use pccl_transport_memory::{Flips, Path};
use tokio::time::advance;

use super::driver::Driver;
use super::ears::{Armed, At};
use super::fault::{Lot, What};
use super::strangers;
use super::world::{MASTER, World};

/// One bit in about so many bytes is flipped.
const FLIPS_EVERY: u64 = 3000;

/// A slow host gets so many bytes per second.
const SLOW: u64 = 2000;

/// The most peers at a time that are there beyond those at the beginning.
const JOINS_MAX: usize = 4;

/// Something that is due.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// A fault begins.
    Begins(What),
    /// These hosts are as they should be.
    Recovers(Vec<usize>),
    /// These pairs reach each other.
    Resumes(Vec<(IpAddr, IpAddr)>),
    /// The master comes back.
    MasterReturns,
}

/// Does it; returns what comes after it, and when.
pub(super) async fn carry_out(driver: &mut Driver, act: Act) -> Option<(Duration, Act)> {
    let world = Arc::clone(&driver.world);
    match act {
        Act::Begins(what) => {
            world.trace.tell(&format!("fault: {what:?}"));
            world.with(|state| state.counts.faults += 1);
            world.disturbed(what);
            begin(driver, &world, what).await
        }
        Act::Recovers(hosts) => {
            world.trace.tell(&format!("{hosts:?} recover"));
            hosts.into_iter().for_each(|number| recover(&world, number));
            None
        }
        Act::Resumes(pairs) => {
            world.trace.tell("paths resume");
            pairs.into_iter().for_each(|(a, b)| world.net.resume(a, b));
            None
        }
        Act::MasterReturns => {
            driver.revive_master().await;
            None
        }
    }
}

async fn begin(driver: &mut Driver, world: &Arc<World>, what: What) -> Option<(Duration, Act)> {
    match what {
        What::Join => join(driver),
        What::Kill(one) => kill(world, &[one], false),
        What::KillTwo(one, other) => kill(world, &[one, other], false),
        What::PowerLoss(one) => kill(world, &[one], true),
        What::KillAtWord(one, left) => arm(world, one, At::Word(left)),
        What::KillAtHearing(one, left) => arm(world, one, At::Hearing(left)),
        What::KillLastVoter(one) => arm(world, one, At::LastVote),
        What::KillBeforeVerdict(one) => arm(world, one, At::Verdict),
        What::Freeze(one, lasting) => {
            let number = living(world, one)?;
            world.net.freeze(world.ip(number));
            return Some((lasting, Act::Recovers(vec![number])));
        }
        What::SlowReader(one, lasting) => {
            let number = living(world, one)?;
            slow_down(world, number);
            return Some((lasting, Act::Recovers(vec![number])));
        }
        What::Reset(one, other) => pair(world, one, other, |a, b| world.net.cut(a, b)),
        What::ResetMaster(one) => {
            if let Some(number) = living(world, one) {
                world.reset_master(number);
            }
        }
        What::HalfOpen(one, other) => pair(world, one, other, |a, b| world.net.half_open(a, b)),
        What::HalfOpenMaster(one, is_told) => {
            pair_with_master(world, one, |peer, master| match is_told {
                true => world.net.half_open(master, peer),
                false => world.net.half_open(peer, master),
            });
        }
        What::Lose(one, other) => pair(world, one, other, |a, b| world.net.lose(a, b)),
        What::StallOneWay(one, other, lasting) => {
            let (a, b) = two(world, one, other)?;
            world.net.stall_one_way(a, b);
            return Some((lasting, Act::Resumes(vec![(a, b)])));
        }
        What::Partition(bits, lasting) => return Some((lasting, partition(world, bits))),
        What::NoMaster(one, lasting) => {
            let (peer, master) = (world.ip(living(world, one)?), world.ip(MASTER));
            world.net.stall(peer, master);
            return Some((lasting, Act::Resumes(vec![(peer, master)])));
        }
        What::Delays(delay, lasting) => {
            let hosts: Vec<usize> = (0..world.hosts().len()).collect();
            each_path(world, |path| Path {
                delay: path.delay + delay,
                ..path
            });
            return Some((lasting, Act::Recovers(hosts)));
        }
        What::Flip(one, lasting) => {
            let number = living(world, one)?;
            flip(world, number, MASTER);
            return Some((lasting, Act::Recovers(vec![number])));
        }
        What::FlipData(one, lasting) => {
            let number = living(world, one)?;
            flip(world, number, MASTER + 1);
            return Some((lasting, Act::Recovers(vec![number])));
        }
        What::Leave(one) => {
            let number = mortal(world, one)?;
            world.with(|state| state.processes[number].is_to_leave = true);
        }
        What::Replay(lot) => strangers::say_again(world, lot),
        What::WrongVersion => strangers::come_from_another_release(world),
        What::StandStill(lasting) => advance(lasting).await,
        What::MasterDies(away) => {
            driver.kill_master().await;
            return Some((away, Act::MasterReturns));
        }
    }
    None
}

fn join(driver: &mut Driver) {
    let world = Arc::clone(&driver.world);
    let groups = &world.plan.groups;
    let living = world.living().len();
    if living < groups.len() + JOINS_MAX {
        let group = groups.get(living % groups.len()).copied().unwrap_or(0);
        driver.start_peer(group, false);
    }
}

fn kill(world: &World, lots: &[Lot], loses_power: bool) {
    for lot in lots {
        if let Some(number) = mortal(world, *lot) {
            world.kill(number, loses_power);
        }
    }
}

fn arm(world: &World, lot: Lot, at: At) {
    if let Some(number) = mortal(world, lot) {
        world.with(|state| state.armed.push(Armed { number, at }));
    }
}

/// One of the living.
fn living(world: &World, lot: Lot) -> Option<usize> {
    pick(&world.living(), lot)
}

/// One of those who may die.
fn mortal(world: &World, lot: Lot) -> Option<usize> {
    let mortals = world.with(|state| {
        let mortals = state
            .living()
            .filter(|number| !state.processes[*number].is_keeper);
        mortals.collect::<Vec<_>>()
    });
    pick(&mortals, lot)
}

fn pick(from: &[usize], lot: Lot) -> Option<usize> {
    let place = (lot as usize).checked_rem(from.len())?;
    from.get(place).copied()
}

/// Two different hosts of living peers.
fn two(world: &World, one: Lot, other: Lot) -> Option<(IpAddr, IpAddr)> {
    let all = world.living();
    let one = pick(&all, one)?;
    let others: Vec<usize> = all.into_iter().filter(|number| *number != one).collect();
    let other = pick(&others, other)?;
    Some((world.ip(one), world.ip(other)))
}

fn pair(world: &World, one: Lot, other: Lot, act: impl Fn(IpAddr, IpAddr)) {
    if let Some((a, b)) = two(world, one, other) {
        act(a, b);
    }
}

fn pair_with_master(world: &World, one: Lot, act: impl Fn(IpAddr, IpAddr)) {
    if let Some(number) = living(world, one) {
        act(world.ip(number), world.ip(MASTER));
    }
}

fn partition(world: &World, bits: u32) -> Act {
    let living = world.living();
    let is_apart = |place: usize| bits >> (place % 20) & 1 == 1;
    let apart: Vec<IpAddr> = (0..living.len())
        .filter(|place| is_apart(*place))
        .map(|place| world.ip(living[place]))
        .collect();
    let rest = world.hosts().into_iter().filter(|ip| !apart.contains(ip));
    let rest: Vec<IpAddr> = rest.collect();
    world.net.partition(&apart, &rest);
    let pairs = apart
        .iter()
        .flat_map(|a| rest.iter().map(move |b| (*a, *b)));
    Act::Resumes(pairs.collect())
}

fn slow_down(world: &World, number: usize) {
    let own = world.ip(number);
    for (other, ip) in world.hosts().into_iter().enumerate() {
        let usual = world.plan.path(other, number);
        let slow = Path {
            bytes_per_second: Some(SLOW),
            window: 1000,
            ..usual
        };
        world.net.set_path(ip, own, slow);
    }
}

/// Flips bits on the paths between this host and those from the first one on.
fn flip(world: &World, number: usize, first: usize) {
    let own = world.ip(number);
    let flips = Some(Flips {
        seed: world.plan.seed,
        every: FLIPS_EVERY,
    });
    for (other, ip) in world.hosts().into_iter().enumerate().skip(first) {
        let usual = world.plan.path(other, number);
        world.net.set_path(ip, own, Path { flips, ..usual });
        world.net.set_path(own, ip, Path { flips, ..usual });
    }
}

fn each_path(world: &World, change: impl Fn(Path) -> Path) {
    let hosts = world.hosts();
    for (from, source) in hosts.iter().enumerate() {
        for (to, target) in hosts.iter().enumerate() {
            let path = change(world.plan.path(from, to));
            world.net.set_path(*source, *target, path);
        }
    }
}

fn recover(world: &World, number: usize) {
    world.net.thaw(world.ip(number));
    world.usual_paths(number);
}

/// All hosts and paths are as they should be. What is dead stays dead, and lanes that are broken stay broken.
pub(super) fn heal_all(world: &World) {
    let hosts = world.hosts();
    let mut alive = world.living();
    alive.push(MASTER);
    for number in 0..hosts.len() {
        recover(world, number);
    }
    for one in &alive {
        for other in alive.iter().filter(|other| *other < one) {
            world.net.resume(hosts[*one], hosts[*other]);
        }
    }
}

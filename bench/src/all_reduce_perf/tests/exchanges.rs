//! Are the exchanges that make the floor right?

use std::net::{SocketAddr, TcpListener};
use std::thread;

use pccl::ReduceOp;
use pccl::half::bf16;

use super::super::collective::Collective;
use super::super::contribution::Contribution;
use super::super::edges::Edges;
use super::super::floor::{Exchange, Floor, Way};
use super::super::number::Number;
use super::super::work::Work;
use super::{contributed, work};

/// Runs a thread for each rank of a floor; what each of them says, in the order of the ranks.
fn on_all_ranks<T: Number, R: Send>(
    peers: usize,
    run: impl Fn(usize, &mut Floor<T>) -> R + Sync,
) -> Vec<R> {
    let bind = |_| TcpListener::bind("127.0.0.1:0").unwrap();
    let listeners: Vec<TcpListener> = (0..peers).map(bind).collect();
    let addresses: Vec<SocketAddr> = listeners
        .iter()
        .map(|listener| listener.local_addr().unwrap())
        .collect();
    let (addresses, run) = (&addresses, &run);
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..)
            .zip(&listeners)
            .map(|(rank, listener)| {
                scope.spawn(move || {
                    let edges = Edges::join(listener, rank, addresses, Some("reno")).unwrap();
                    run(rank, &mut Floor::<T>::new(rank, peers, edges))
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Runs the floor three times in each of these ways; the wrong elements of all ranks.
fn run_floor<T: Number>(work: &Work, peers: usize, count: usize, ways: &[Way]) -> u64 {
    let wrong = on_all_ranks(peers, |rank, floor: &mut Floor<T>| {
        let iterations = (0..).zip(ways.iter().cycle().take(3 * ways.len()));
        let run = |(iteration, way): (u64, &Way)| {
            run_rank(floor, work, rank, peers, count, *way, iteration)
        };
        iterations.map(run).sum::<u64>()
    });
    wrong.into_iter().sum()
}

fn run_rank<T: Number>(
    floor: &mut Floor<T>,
    work: &Work,
    rank: usize,
    peers: usize,
    count: usize,
    way: Way,
    iteration: u64,
) -> u64 {
    let mine: Vec<T> = contributed(work, rank, peers, count, iteration);
    let (mut in_place, mut result) = (mine.clone(), vec![T::whole(0); count]);
    floor
        .run(way, (work.collective, work.op), Some(&mine), &mut result)
        .unwrap();
    floor
        .run(way, (work.collective, work.op), None, &mut in_place)
        .unwrap();
    let judge = Contribution::new(work, rank, peers);
    judge.wrong(&result, iteration, true) + judge.wrong(&in_place, iteration, true)
}

/// All exchanges, in pieces of so many bytes.
fn ways(piece_bytes: usize) -> [Way; 3] {
    [Exchange::Ring, Exchange::Blocking, Exchange::Direct].map(|exchange| Way {
        exchange,
        piece_bytes,
    })
}

#[test]
fn the_exchanges_that_are_compared_with_compute_the_same() {
    for peers in [2, 3, 5] {
        for count in [1, peers - 1, peers, 1025, 203_530] {
            for piece in [4096, 65_536] {
                for way in ways(piece) {
                    let wrong = run_floor::<f32>(&work(&[]), peers, count, &[way]);
                    assert_eq!(wrong, 0, "{peers} peers, {count} elements, {way:?}");
                }
            }
        }
    }
    for op in ["avg", "prod", "max", "min"] {
        let work = work(&["--op", op]);
        for way in ways(16_384) {
            let way = [way];
            assert_eq!(run_floor::<i16>(&work, 4, 50_001, &way), 0, "{op}, {way:?}");
            assert_eq!(
                run_floor::<bf16>(&work, 4, 50_001, &way),
                0,
                "{op}, {way:?}"
            );
            assert_eq!(run_floor::<f64>(&work, 4, 50_001, &way), 0, "{op}, {way:?}");
        }
    }
}

#[test]
fn the_halves_and_the_chain_that_are_compared_with_compute_what_they_should() {
    for collective in ["reduce-scatter", "all-gather", "broadcast"] {
        let work = work(&["--collective", collective]);
        for peers in [2, 3, 5, 8] {
            for count in [1, peers - 1, peers, 1025, 50_001] {
                for way in &ways(16_384)[..2] {
                    let wrong = on_all_ranks(peers, |rank, floor: &mut Floor<f32>| {
                        let judge = Contribution::new(&work, rank, peers);
                        let mut buffer = vec![0.0; count];
                        judge.begin(&mut buffer, 3);
                        let what = (work.collective, work.op);
                        floor.run(*way, what, None, &mut buffer).unwrap();
                        let in_place = judge.wrong(&buffer, 3, true);
                        if !judge.is_scattered() {
                            return in_place;
                        }
                        let mut source = vec![0.0; count];
                        judge.fill(&mut source, 3);
                        judge.spoil(&mut buffer, 3);
                        let into = Some(&source[..]);
                        floor.run(*way, what, into, &mut buffer).unwrap();
                        in_place + judge.wrong(&buffer, 3, true)
                    });
                    assert_eq!(wrong, vec![0; peers], "{collective} of {count}, {way:?}");
                }
            }
        }
    }
}

/// Whatever a rank should have got and has not is noticed, element by element.
#[test]
fn what_was_not_gathered_or_broadcast_is_wrong() {
    for collective in ["all-gather", "broadcast"] {
        let work = work(&["--collective", collective]);
        for rank in 0..8 {
            let judge = Contribution::new(&work, rank, 8);
            let mut buffer = vec![0.0_f32; 20_000];
            judge.begin(&mut buffer, 3);

            let own = work.collective.contributed((rank, 8), buffer.len());
            assert_eq!(
                judge.wrong(&buffer, 3, false),
                (buffer.len() - own.len()) as u64
            );
        }
    }
}

#[test]
fn exchanges_take_turns_on_the_same_connections() {
    for peers in [2, 4] {
        assert_eq!(run_floor::<f32>(&work(&[]), peers, 10_007, &ways(8192)), 0);
    }
}

#[test]
fn the_direct_exchange_adds_in_the_order_of_the_ranks() {
    let shares: [f32; 4] = [1e8, 3.0, -1e8, 5.0];
    let in_order = shares.into_iter().reduce(|sum, share| sum + share);
    let backwards = shares.into_iter().rev().reduce(|sum, share| sum + share);
    assert_ne!(in_order, backwards);
    let [_, _, direct] = ways(8192);

    let results = on_all_ranks(4, |rank, floor| {
        let (source, mut result) = (vec![shares[rank]; 10_007], vec![0.0; 10_007]);
        let mut in_place = source.clone();
        let op = ReduceOp::Sum;
        let elsewhere = floor.run(
            direct,
            (Collective::AllReduce, op),
            Some(&source),
            &mut result,
        );
        elsewhere.unwrap();
        floor
            .run(direct, (Collective::AllReduce, op), None, &mut in_place)
            .unwrap();
        result.extend(in_place);
        result
    });

    for result in results {
        assert!(result.into_iter().all(|sum| Some(sum) == in_order));
    }
}

/// Beyond what sockets hold, so that sending stops and goes on.
#[test]
fn exchanges_whose_sockets_are_full_go_on() {
    for way in ways(1 << 20) {
        let wrong = run_floor::<f32>(&work(&[]), 3, 9_000_001, &[way]);
        assert_eq!(wrong, 0, "{way:?}");
    }
}

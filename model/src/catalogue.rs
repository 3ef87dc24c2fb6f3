//! The scenarios that are explored.

use pccl_core::shared_state::SyncStrategy::{EnforcePopular, ReceiveOnly, SendOnly};

use crate::milestone::Milestone as M;
use crate::scenario::{ANY_FAULT, Fault, Frames, Scenario, SeatPlan, Start};
use crate::script::{Do, Program};

const fn program(steps: &'static [Do]) -> Program {
    Program {
        steps,
        rounds: 1,
        first: 0,
    }
}

const fn repeated(rounds: u8, steps: &'static [Do]) -> Program {
    Program {
        rounds,
        ..program(steps)
    }
}

/// One reduce.
static REDUCE: Program = program(&[Do::Start(1), Do::Finish(1)]);

/// The same twice.
static REDUCE_TWICE: Program = repeated(2, &[Do::Start(1), Do::Finish(1)]);

/// Two reduces at once, begun and awaited in one order, and in the other.
static TAGS_12: Program = program(&[Do::Start(1), Do::Start(2), Do::Finish(1), Do::Finish(2)]);
static TAGS_21: Program = program(&[Do::Start(2), Do::Start(1), Do::Finish(2), Do::Finish(1)]);

const LOOP: &[Do] = &[
    Do::Update,
    Do::Sync(EnforcePopular),
    Do::Start(1),
    Do::Finish(1),
    Do::Advance,
];

/// The usual training loop, once and twice.
static TRAIN: Program = program(LOOP);
static TRAIN_TWICE: Program = repeated(2, LOOP);

/// The training loop of somebody who is out of step with the others.
static TRAIN_FROM_REDUCE: Program = Program {
    first: 2,
    ..repeated(2, LOOP)
};
static TRAIN_FROM_SYNC: Program = Program {
    first: 1,
    ..repeated(2, LOOP)
};

/// The loop of asynchronous training: while a reduce runs, ask whether anybody waits.
static PUMP: Program = repeated(
    2,
    &[
        Do::Start(1),
        Do::Ask,
        Do::Finish(1),
        Do::UpdateIfPending,
        Do::Advance,
    ],
);

/// A newcomer to that loop begins where the others are when they have admitted it.
static PUMP_NEWCOMER: Program = repeated(
    1,
    &[Do::Start(1), Do::Ask, Do::Finish(1), Do::UpdateIfPending],
);

/// A loop that updates only where somebody waits.
static ASK_FIRST: Program = program(&[Do::Ask, Do::UpdateIfPending, Do::Start(1), Do::Finish(1)]);

static UPDATE_REDUCE: Program = program(&[Do::Update, Do::Start(1), Do::Finish(1)]);
static UPDATE_REDUCE_TWICE: Program = repeated(2, &[Do::Update, Do::Start(1), Do::Finish(1)]);
static OPTIMIZE: Program = program(&[Do::Optimize, Do::Start(1), Do::Finish(1)]);
const OPTIMIZING: &[Do] = &[Do::Update, Do::Optimize, Do::Start(1), Do::Finish(1)];
static UPDATE_OPTIMIZE: Program = program(OPTIMIZING);
static OPTIMIZE_FIRST: Program = Program {
    first: 1,
    ..program(OPTIMIZING)
};
static QUIT: Program = program(&[Do::Start(1), Do::Leave]);
static CANCEL: Program = program(&[Do::Start(1), Do::Cancel(1), Do::Finish(1)]);
static ODD: Program = program(&[Do::StartOdd(1), Do::Finish(1)]);
static TWICE: Program = program(&[Do::Start(1), Do::StartTwice(1), Do::Finish(1)]);
static CONNECT: Program = program(&[]);

/// Synchronize, compute, synchronize again.
static POPULAR: Program = program(&[
    Do::Sync(EnforcePopular),
    Do::Advance,
    Do::Sync(EnforcePopular),
]);
static ADVANCE_AND_ADMIT: Program = program(&[
    Do::Sync(EnforcePopular),
    Do::Advance,
    Do::Sync(EnforcePopular),
    Do::Update,
    Do::Sync(EnforcePopular),
]);
static SYNC: Program = program(&[Do::Sync(EnforcePopular)]);
static SEND: Program = program(&[Do::Sync(SendOnly), Do::Advance, Do::Sync(EnforcePopular)]);
static RECEIVE: Program = program(&[Do::Sync(ReceiveOnly), Do::Advance, Do::Sync(EnforcePopular)]);

/// A process of group 0 that is inside.
const fn inside(program: &'static Program) -> SeatPlan {
    SeatPlan {
        group: 0,
        start: Start::Inside,
        program,
        content: 0,
        revision: 0,
    }
}

const fn outside(program: &'static Program) -> SeatPlan {
    SeatPlan {
        start: Start::Outside,
        ..inside(program)
    }
}

const fn holding(program: &'static Program, content: u8) -> SeatPlan {
    SeatPlan {
        content,
        ..inside(program)
    }
}

const fn revised(program: &'static Program, content: u8, revision: u8) -> SeatPlan {
    SeatPlan {
        revision,
        ..holding(program, content)
    }
}

const fn in_group(group: u32, plan: SeatPlan) -> SeatPlan {
    SeatPlan { group, ..plan }
}

/// The faults that abort a collective.
const DEATHS_AND_BREAKS: &[Fault] = &[Fault::Crash, Fault::BreakEdge];

/// The faults that make an admission fail, and those that abort what runs meanwhile.
const DEATHS_AND_REFUSALS: &[Fault] = &[
    Fault::Crash,
    Fault::HalfOpen,
    Fault::BreakEdge,
    Fault::RefuseDial,
    Fault::BreakFetch,
];

fn scenario(
    name: &'static str,
    about: &'static str,
    faults: u8,
    seats: Vec<SeatPlan>,
    milestones: &'static [M],
) -> Scenario {
    Scenario {
        name,
        about,
        seats,
        faults,
        kinds: ANY_FAULT,
        frames: Frames::InTurn,
        heartbeats: false,
        in_step: false,
        milestones,
    }
}

fn only(kinds: &'static [Fault], scenario: Scenario) -> Scenario {
    Scenario { kinds, ..scenario }
}

fn in_step(scenario: Scenario) -> Scenario {
    Scenario {
        in_step: true,
        ..scenario
    }
}

fn with_beats(scenario: Scenario) -> Scenario {
    Scenario {
        heartbeats: true,
        ..scenario
    }
}

fn free_frames(scenario: Scenario) -> Scenario {
    Scenario {
        frames: Frames::Free,
        ..scenario
    }
}

/// What `cargo run -p verification` explores, all of it to the end. Small ones first.
#[must_use]
pub fn standard() -> Vec<Scenario> {
    let mut all = collectives();
    all.extend(membership());
    all.extend(shared_state());
    all.extend(topology());
    all.sort_by_key(|scenario| (scenario.seats.len(), scenario.faults));
    all
}

fn collectives() -> Vec<Scenario> {
    vec![
        free_frames(scenario(
            "reduce-2",
            "two peers reduce twice, and retry what is aborted",
            2,
            vec![inside(&REDUCE_TWICE); 2],
            &[
                M::Committed,
                M::CommittedWithoutOne,
                M::Aborted,
                M::RestoredWhole,
                M::Recovered,
                M::Rewired,
                M::LostMasterUndecided,
                M::NoticedBySilence,
                M::LeftAtTheEnd,
            ],
        )),
        only(
            DEATHS_AND_BREAKS,
            scenario(
                "reduce-3",
                "three peers reduce",
                2,
                vec![inside(&REDUCE); 3],
                &[
                    M::Committed,
                    M::CommittedWithoutOne,
                    M::Aborted,
                    M::RestoredWhole,
                    M::Recovered,
                    M::Rewired,
                    M::WiredAgain,
                ],
            ),
        ),
        scenario(
            "tags-2",
            "two reduces at once, begun in either order",
            1,
            vec![inside(&TAGS_12), inside(&TAGS_21)],
            &[
                M::Committed,
                M::Aborted,
                M::TwoTagsAtOnce,
                M::Recovered,
                M::Rewired,
            ],
        ),
        scenario(
            "tags-3",
            "two reduces at once among three",
            0,
            vec![inside(&TAGS_12), inside(&TAGS_21), inside(&TAGS_12)],
            &[M::Committed, M::TwoTagsAtOnce],
        ),
        scenario(
            "reduce-3-any",
            "three peers reduce, and anything may go wrong once",
            1,
            vec![inside(&REDUCE); 3],
            &[
                M::Committed,
                M::CommittedWithoutOne,
                M::Aborted,
                M::RestoredWhole,
                M::Recovered,
                M::Rewired,
                M::NoticedBySilence,
            ],
        ),
        scenario(
            "groups-2-1-any",
            "two groups, and anything may go wrong once",
            1,
            vec![
                inside(&UPDATE_REDUCE),
                inside(&UPDATE_REDUCE),
                in_group(1, inside(&UPDATE_REDUCE)),
            ],
            &[M::Committed, M::Aborted, M::Recovered],
        ),
        scenario(
            "quit-3",
            "one leaves in the middle of a reduce",
            1,
            vec![inside(&REDUCE), inside(&REDUCE), inside(&QUIT)],
            &[M::Aborted, M::Recovered],
        ),
        scenario(
            "quit-2",
            "one of two leaves in the middle of a reduce",
            2,
            vec![inside(&REDUCE), inside(&QUIT)],
            &[M::Aborted, M::Recovered],
        ),
        scenario(
            "cancel-2",
            "one gives a reduce up",
            1,
            vec![inside(&REDUCE), inside(&CANCEL)],
            &[M::Committed, M::Aborted],
        ),
        scenario(
            "misuse-2",
            "one starts a tag that is in use",
            1,
            vec![inside(&REDUCE), inside(&TWICE)],
            &[M::Committed, M::Aborted],
        ),
        scenario(
            "disagree-2",
            "the two want different things under one tag",
            1,
            vec![inside(&REDUCE), inside(&ODD)],
            &[],
        ),
    ]
}

fn membership() -> Vec<Scenario> {
    vec![
        with_beats(scenario(
            "beats-2",
            "signs of life among everything else",
            1,
            vec![inside(&UPDATE_REDUCE), outside(&REDUCE)],
            &[M::Admitted, M::Committed],
        )),
        with_beats(scenario(
            "beats-sync",
            "signs of life while shared state moves",
            1,
            vec![holding(&POPULAR, 1), holding(&POPULAR, 2)],
            &[M::ContentMoved, M::SyncFailed],
        )),
        with_beats(scenario(
            "beats-optimize",
            "signs of life while a better ring is looked for",
            1,
            vec![inside(&UPDATE_OPTIMIZE); 2],
            &[M::Optimized, M::OptimizationFailed],
        )),
        with_beats(scenario(
            "beats-pump",
            "signs of life while peers ask",
            0,
            vec![inside(&PUMP); 2],
            &[M::ToldNobodyPending, M::Committed],
        )),
        in_step(scenario(
            "train-2",
            "the training loop",
            2,
            vec![inside(&TRAIN); 2],
            &[
                M::Committed,
                M::Aborted,
                M::Recovered,
                M::WiredAgain,
                M::ThrownOut,
            ],
        )),
        in_step(scenario(
            "train-3",
            "the training loop of three",
            1,
            vec![inside(&TRAIN); 3],
            &[M::Committed, M::Aborted, M::Recovered, M::ContentKept],
        )),
        in_step(scenario(
            "join-1-of-2",
            "a newcomer to one that trains",
            2,
            vec![inside(&TRAIN_TWICE), outside(&TRAIN)],
            &[
                M::Admitted,
                M::AdmittedAlone,
                M::WiredAgain,
                M::Committed,
                M::ContentMoved,
            ],
        )),
        in_step(only(
            DEATHS_AND_REFUSALS,
            scenario(
                "join-1-of-3",
                "a newcomer to two that train",
                1,
                vec![inside(&TRAIN_TWICE), inside(&TRAIN_TWICE), outside(&TRAIN)],
                &[
                    M::Admitted,
                    M::WiredAgain,
                    M::Committed,
                    M::RevisionAdvanced,
                ],
            ),
        )),
        in_step(scenario(
            "join-2-of-3",
            "two newcomers at once",
            1,
            vec![
                inside(&UPDATE_REDUCE),
                outside(&UPDATE_REDUCE),
                outside(&UPDATE_REDUCE),
            ],
            &[M::Admitted, M::WiredAgain, M::Committed],
        )),
        in_step(scenario(
            "join-all",
            "three find an empty run",
            1,
            vec![outside(&UPDATE_REDUCE_TWICE); 3],
            &[M::Admitted, M::AdmittedAlone, M::WiredAgain],
        )),
        scenario(
            "join-all-and-go",
            "two find an empty run, and nothing works",
            2,
            vec![outside(&CONNECT); 2],
            &[M::AdmittedAlone, M::LeftAtTheEnd],
        ),
        scenario(
            "pump-2",
            "asynchronous training: ask while a reduce runs",
            1,
            vec![inside(&PUMP); 2],
            &[M::Committed, M::Aborted, M::ToldNobodyPending],
        ),
        only(
            DEATHS_AND_REFUSALS,
            scenario(
                "pump-join",
                "asynchronous training that a newcomer joins",
                1,
                vec![inside(&PUMP), inside(&PUMP), outside(&PUMP_NEWCOMER)],
                &[
                    M::Committed,
                    M::ToldPending,
                    M::ToldNobodyPending,
                    M::Admitted,
                ],
            ),
        ),
        only(
            DEATHS_AND_BREAKS,
            scenario(
                "groups-2-1",
                "two groups: newcomers concern both, losses only their own",
                2,
                vec![
                    inside(&UPDATE_REDUCE),
                    inside(&UPDATE_REDUCE),
                    in_group(1, inside(&UPDATE_REDUCE)),
                ],
                &[M::Committed, M::Aborted, M::Recovered],
            ),
        ),
        scenario(
            "groups-join",
            "a newcomer that founds a second group",
            1,
            vec![
                inside(&UPDATE_REDUCE),
                inside(&UPDATE_REDUCE),
                in_group(1, outside(&REDUCE)),
            ],
            &[M::Committed, M::Admitted],
        ),
        scenario(
            "pump-out-of-step",
            "one asks whether anybody waits while the other updates",
            1,
            vec![inside(&ASK_FIRST), inside(&UPDATE_REDUCE)],
            &[M::ToldPending, M::Committed],
        ),
        scenario(
            "out-of-step-2",
            "two that are at different places of one loop",
            1,
            vec![inside(&TRAIN_TWICE), inside(&TRAIN_FROM_REDUCE)],
            &[M::GaveWay, M::Committed],
        ),
        scenario(
            "out-of-step-3",
            "three that are at different places of one loop",
            0,
            vec![
                inside(&TRAIN),
                inside(&TRAIN_FROM_SYNC),
                inside(&TRAIN_FROM_REDUCE),
            ],
            &[M::GaveWay, M::Committed],
        ),
    ]
}

fn shared_state() -> Vec<Scenario> {
    let all: &'static [M] = &[
        M::ContentMoved,
        M::ContentKept,
        M::SyncFailed,
        M::RevisionAdvanced,
    ];
    vec![
        scenario(
            "sync-2",
            "two with different content",
            2,
            vec![holding(&POPULAR, 1), holding(&POPULAR, 2)],
            all,
        ),
        scenario(
            "sync-3",
            "three, of whom two hold the same",
            2,
            vec![
                holding(&POPULAR, 1),
                holding(&POPULAR, 2),
                holding(&POPULAR, 2),
            ],
            all,
        ),
        scenario(
            "sync-tie",
            "three who all hold something else",
            1,
            vec![
                holding(&POPULAR, 3),
                holding(&POPULAR, 2),
                holding(&POPULAR, 1),
            ],
            all,
        ),
        scenario(
            "sync-send",
            "one sends, two take",
            1,
            vec![
                holding(&POPULAR, 1),
                holding(&POPULAR, 1),
                holding(&SEND, 2),
            ],
            &[
                M::ContentMoved,
                M::ContentKept,
                M::SyncFailed,
                M::RevisionAdvanced,
                M::SenderServed,
            ],
        ),
        scenario(
            "sync-lost",
            "the only one that holds the reached revision goes away",
            1,
            vec![inside(&ADVANCE_AND_ADMIT), outside(&SYNC)],
            &[M::SyncFailed, M::ContentMoved, M::Admitted],
        ),
        scenario(
            "sync-senders-differ",
            "two send-only peers hold different content",
            1,
            vec![holding(&SEND, 1), holding(&SEND, 2)],
            &[M::SyncFailed],
        ),
        scenario(
            "sync-receive",
            "one only takes, although it has company",
            1,
            vec![
                holding(&POPULAR, 1),
                holding(&RECEIVE, 2),
                holding(&RECEIVE, 2),
            ],
            &[
                M::ContentMoved,
                M::ContentKept,
                M::SyncFailed,
                M::RevisionAdvanced,
                M::ReceiverTook,
            ],
        ),
        scenario(
            "sync-nobody-sends",
            "all only take",
            1,
            vec![holding(&RECEIVE, 1), holding(&RECEIVE, 2)],
            &[M::SyncFailed],
        ),
        scenario(
            "sync-older",
            "one holds an older revision",
            1,
            vec![
                revised(&POPULAR, 1, 3),
                revised(&POPULAR, 2, 5),
                revised(&POPULAR, 2, 5),
            ],
            &[M::ContentMoved, M::RevisionAdvanced],
        ),
        in_step(scenario(
            "sync-join",
            "a newcomer takes what the others have",
            1,
            vec![
                inside(&TRAIN),
                SeatPlan {
                    start: Start::Outside,
                    ..holding(&TRAIN, 7)
                },
            ],
            &[M::ContentMoved, M::Admitted],
        )),
    ]
}

fn topology() -> Vec<Scenario> {
    vec![
        scenario(
            "optimize-2",
            "two have nothing to choose",
            2,
            vec![inside(&OPTIMIZE); 2],
            &[M::Optimized, M::OptimizationFailed],
        ),
        scenario(
            "optimize-3",
            "three find a better ring and reduce on it",
            1,
            vec![inside(&OPTIMIZE); 3],
            &[M::Optimized, M::OptimizationFailed, M::Committed],
        ),
        scenario(
            "optimize-out-of-step",
            "one optimizes while another updates",
            1,
            vec![inside(&UPDATE_OPTIMIZE), inside(&OPTIMIZE_FIRST)],
            &[M::GaveWay],
        ),
    ]
}

/// What takes hours: more faults, more peers, longer programs.
#[must_use]
pub fn deep() -> Vec<Scenario> {
    let mut all: Vec<Scenario> = standard()
        .into_iter()
        .map(|scenario| {
            let faults = scenario.faults + 1;
            free_frames(scenario.with_faults(faults))
        })
        .collect();
    all.push(scenario(
        "train-twice-3",
        "two rounds of the training loop of three",
        2,
        vec![inside(&TRAIN_TWICE); 3],
        &[M::Committed, M::Aborted, M::RevisionAdvanced],
    ));
    all.push(scenario(
        "reduce-4",
        "four peers reduce",
        2,
        vec![inside(&REDUCE); 4],
        &[M::Committed, M::Aborted],
    ));
    all
}

//! What the users do.

use pccl_core::shared_state::SyncStrategy::{EnforcePopular, ReceiveOnly, SendOnly};

use crate::script::{Do, Program, UPDATES_MANY};

const fn program(steps: &'static [Do]) -> Program {
    Program {
        steps,
        rounds: 1,
        first: 0,
        top: 0,
        rests: false,
        starts_over: false,
    }
}

/// The same by a user that stays when it is through, and calls nothing any more.
const fn resting(program: Program) -> Program {
    Program {
        rests: true,
        ..program
    }
}

const fn repeated(rounds: u8, steps: &'static [Do]) -> Program {
    Program {
        rounds,
        ..program(steps)
    }
}

/// One reduce.
pub(super) static REDUCE: Program = program(&[Do::Start(1), Do::Finish(1)]);

/// The same twice.
pub(super) static REDUCE_TWICE: Program = repeated(2, &[Do::Start(1), Do::Finish(1)]);

/// A reduce, then two at once, begun in one order and in the other.
pub(super) static AGAIN_12: Program = Program {
    top: 2,
    ..program(&[
        Do::Start(1),
        Do::Finish(1),
        Do::Start(1),
        Do::Start(2),
        Do::Finish(1),
        Do::Finish(2),
    ])
};
pub(super) static AGAIN_21: Program = Program {
    top: 2,
    ..program(&[
        Do::Start(1),
        Do::Finish(1),
        Do::Start(2),
        Do::Start(1),
        Do::Finish(2),
        Do::Finish(1),
    ])
};

/// A reduce, and the same, which is given up and called once more.
pub(super) static AGAIN_AND_AGAIN: Program = program(&[
    Do::Start(1),
    Do::Finish(1),
    Do::Start(1),
    Do::Cancel(1),
    Do::Start(1),
    Do::Finish(1),
]);

/// A reduce, then one more that may be asked back.
pub(super) static AGAIN_ASKED_BACK: Program = program(&[
    Do::Start(1),
    Do::Finish(1),
    Do::Start(1),
    Do::AskBack(1),
    Do::Finish(1),
]);

/// A reduce, and one that computes something else.
pub(super) static AGAIN_ODD: Program =
    program(&[Do::Start(1), Do::Finish(1), Do::StartOdd(1), Do::Finish(1)]);

/// A reduce, and the same after others were let in.
pub(super) static UPDATE_BETWEEN: Program = program(&[
    Do::Start(1),
    Do::Finish(1),
    Do::Update,
    Do::Start(1),
    Do::Finish(1),
]);

/// Two reduces at once, begun and awaited in one order, and in the other.
pub(super) static TAGS_12: Program =
    program(&[Do::Start(1), Do::Start(2), Do::Finish(1), Do::Finish(2)]);
pub(super) static TAGS_21: Program =
    program(&[Do::Start(2), Do::Start(1), Do::Finish(2), Do::Finish(1)]);

const LOOP: &[Do] = &[
    Do::Update,
    Do::Sync(EnforcePopular),
    Do::Start(1),
    Do::Finish(1),
    Do::Advance,
];

/// The usual training loop, once and twice.
pub(super) static TRAIN: Program = program(LOOP);
pub(super) static TRAIN_TWICE: Program = repeated(2, LOOP);

/// The loop of the README: whatever fails, the next round repeats it.
pub(super) static README: Program = Program {
    starts_over: true,
    ..program(LOOP)
};
pub(super) static README_TWICE: Program = Program {
    starts_over: true,
    ..repeated(2, LOOP)
};

/// The training loop of somebody who is out of step with the others.
pub(super) static TRAIN_FROM_REDUCE: Program = Program {
    first: 2,
    ..repeated(2, LOOP)
};
pub(super) static TRAIN_FROM_SYNC: Program = Program {
    first: 1,
    ..repeated(2, LOOP)
};

/// The loop of asynchronous training: while a reduce runs, ask whether anybody waits.
pub(super) static PUMP: Program = repeated(
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
pub(super) static PUMP_NEWCOMER: Program = repeated(
    1,
    &[Do::Start(1), Do::Ask, Do::Finish(1), Do::UpdateIfPending],
);

/// A loop that answers every conflict by making the same reduce again.
pub(super) static STUBBORN: Program = Program {
    top: 2,
    ..program(&[
        Do::Sync(EnforcePopular),
        Do::Update,
        Do::Start(1),
        Do::Finish(1),
        Do::Update,
        Do::Sync(EnforcePopular),
    ])
};

/// Synchronizes, and once more when newcomers are in.
pub(super) static SYNC_AGAIN: Program = program(&[
    Do::Sync(EnforcePopular),
    Do::Update,
    Do::Sync(EnforcePopular),
]);

/// A loop that updates only where somebody waits.
pub(super) static ASK_FIRST: Program =
    program(&[Do::Ask, Do::UpdateIfPending, Do::Start(1), Do::Finish(1)]);

/// A newcomer that lets others in once its own admission is over.
pub(super) static UPDATE_AND_ASK: Program = program(&[
    Do::Update,
    Do::Ask,
    Do::UpdateIfPending,
    Do::Start(1),
    Do::Finish(1),
]);

pub(super) static UPDATE_REDUCE: Program = program(&[Do::Update, Do::Start(1), Do::Finish(1)]);
pub(super) static UPDATE_REDUCE_TWICE: Program =
    repeated(2, &[Do::Update, Do::Start(1), Do::Finish(1)]);
/// Lets newcomers in twice.
pub(super) static UPDATE_TWICE_REDUCE: Program =
    program(&[Do::Update, Do::Update, Do::Start(1), Do::Finish(1)]);
pub(super) static UPDATE: Program = program(&[Do::Update]);
pub(super) static UPDATE_TWICE: Program = repeated(2, &[Do::Update]);
/// Updates until who waits in another call has been passed over often enough, and once more.
pub(super) static UPDATE_ON_AND_ON: Program = repeated(UPDATES_MANY, &[Do::Update]);
pub(super) static OPTIMIZE: Program = program(&[Do::Optimize, Do::Start(1), Do::Finish(1)]);
/// Looks for a better ring, and does nothing else.
pub(super) static OPTIMIZE_ONLY: Program = program(&[Do::Optimize]);
/// Updates after it, and uses the ring.
pub(super) static OPTIMIZE_UPDATE: Program =
    program(&[Do::Optimize, Do::Update, Do::Start(1), Do::Finish(1)]);
const OPTIMIZING: &[Do] = &[Do::Update, Do::Optimize, Do::Start(1), Do::Finish(1)];
pub(super) static UPDATE_OPTIMIZE: Program = program(OPTIMIZING);
pub(super) static OPTIMIZE_FIRST: Program = Program {
    first: 1,
    ..program(OPTIMIZING)
};
/// Optimize, then synchronize; and the same by somebody who has optimized already.
const OPTIMIZE_AND_SYNC: &[Do] = &[Do::Optimize, Do::Sync(EnforcePopular)];
pub(super) static OPTIMIZE_SYNC: Program = program(OPTIMIZE_AND_SYNC);
pub(super) static SYNC_AFTER_OPTIMIZE: Program = Program {
    first: 1,
    ..program(OPTIMIZE_AND_SYNC)
};
/// Optimize, synchronize, reduce; and the same by peers that are elsewhere in it.
const ALL_CALLS: &[Do] = &[
    Do::Optimize,
    Do::Sync(EnforcePopular),
    Do::Start(1),
    Do::Finish(1),
];
pub(super) static THREE_CALLS: Program = program(ALL_CALLS);
pub(super) static THREE_FROM_SYNC: Program = Program {
    first: 1,
    ..program(ALL_CALLS)
};
pub(super) static THREE_FROM_REDUCE: Program = Program {
    first: 2,
    ..program(ALL_CALLS)
};
/// Answers every conflict by making the same reduce again.
pub(super) static STUBBORN_REDUCE: Program = program(&[Do::Start(1), Do::Finish(1)]);
/// Synchronizes again when newcomers are in, and reduces where that gives way.
pub(super) static SYNC_THEN_YIELD: Program = Program {
    top: 3,
    ..program(&[
        Do::Sync(EnforcePopular),
        Do::Update,
        Do::Sync(EnforcePopular),
        Do::Start(1),
        Do::Finish(1),
    ])
};
pub(super) static QUIT: Program = program(&[Do::Start(1), Do::Leave]);
pub(super) static CANCEL: Program = program(&[Do::Start(1), Do::Cancel(1)]);
/// Gives a reduce up, and goes on with something else at once.
pub(super) static CANCEL_AND_GO: Program = program(&[
    Do::Start(1),
    Do::Cancel(1),
    Do::Update,
    Do::Start(1),
    Do::Finish(1),
]);
/// Gives a reduce up, and lets newcomers in.
pub(super) static CANCEL_THEN_UPDATE: Program = program(&[Do::Start(1), Do::Cancel(1), Do::Update]);
/// Gives a reduce up, and makes it again at once.
pub(super) static CANCEL_AND_AGAIN: Program =
    program(&[Do::Start(1), Do::Cancel(1), Do::Start(1), Do::Finish(1)]);
/// Gives an update up, and makes it again.
pub(super) static UPDATE_DROPPED: Program = program(&[
    Do::Update,
    Do::Drop,
    Do::Update,
    Do::Start(1),
    Do::Finish(1),
]);
/// Gives a question up, and asks again.
pub(super) static QUESTION_DROPPED: Program =
    program(&[Do::Ask, Do::Drop, Do::Ask, Do::Start(1), Do::Finish(1)]);
pub(super) static ASK_REDUCE: Program = program(&[Do::Ask, Do::Start(1), Do::Finish(1)]);
/// Gives a synchronization up, and does something else.
pub(super) static SYNC_DROPPED: Program =
    program(&[Do::Sync(EnforcePopular), Do::Drop, Do::Update]);
/// Gives a synchronization up, and synchronizes.
pub(super) static SYNC_DROPPED_AND_AGAIN: Program =
    program(&[Do::Sync(EnforcePopular), Do::Drop, Do::Sync(EnforcePopular)]);
/// Gives an optimization up, and reduces.
pub(super) static OPTIMIZE_DROPPED: Program =
    program(&[Do::Optimize, Do::Drop, Do::Start(1), Do::Finish(1)]);
/// Three reduces at once.
pub(super) static TAGS_123: Program = program(&[
    Do::Start(1),
    Do::Start(2),
    Do::Start(3),
    Do::Finish(1),
    Do::Finish(2),
    Do::Finish(3),
]);
/// The same, of which the second is given up.
pub(super) static TAGS_123_WITHOUT_2: Program = program(&[
    Do::Start(1),
    Do::Start(2),
    Do::Start(3),
    Do::Cancel(2),
    Do::Finish(1),
    Do::Finish(3),
]);
pub(super) static TAGS_13: Program =
    program(&[Do::Start(1), Do::Start(3), Do::Finish(1), Do::Finish(3)]);
pub(super) static LONGER: Program = program(&[Do::StartLonger(1), Do::Finish(1)]);
pub(super) static ODD: Program = program(&[Do::StartOdd(1), Do::Finish(1)]);
pub(super) static TWICE: Program = program(&[Do::Start(1), Do::StartTwice(1), Do::Finish(1)]);
pub(super) static CONNECT: Program = program(&[]);
/// Stays, and calls nothing, at once or after one reduce.
pub(super) static REST: Program = resting(program(&[]));
pub(super) static REDUCE_AND_REST: Program = resting(program(&[Do::Start(1), Do::Finish(1)]));
/// Reduces, and lets newcomers in afterwards.
pub(super) static REDUCE_UPDATE: Program = program(&[Do::Start(1), Do::Finish(1), Do::Update]);
/// Two rounds of looking for a better ring.
pub(super) static OPTIMIZE_TWICE: Program = repeated(2, &[Do::Optimize]);
/// And the ring of the second is used: what the first has left going on may be late.
pub(super) static OPTIMIZE_TWICE_REDUCE: Program =
    program(&[Do::Optimize, Do::Optimize, Do::Start(1), Do::Finish(1)]);

/// Synchronize, compute, synchronize again.
pub(super) static POPULAR: Program = program(&[
    Do::Sync(EnforcePopular),
    Do::Advance,
    Do::Sync(EnforcePopular),
]);
pub(super) static ADVANCE_AND_ADMIT: Program = program(&[
    Do::Sync(EnforcePopular),
    Do::Advance,
    Do::Sync(EnforcePopular),
    Do::Update,
    Do::Sync(EnforcePopular),
]);
/// Computes before it lets others in.
pub(super) static ADVANCE_THEN_ADMIT: Program = program(&[
    Do::Sync(EnforcePopular),
    Do::Advance,
    Do::Update,
    Do::Sync(EnforcePopular),
]);
pub(super) static SYNC: Program = program(&[Do::Sync(EnforcePopular)]);
pub(super) static SEND: Program =
    program(&[Do::Sync(SendOnly), Do::Advance, Do::Sync(EnforcePopular)]);
pub(super) static RECEIVE: Program =
    program(&[Do::Sync(ReceiveOnly), Do::Advance, Do::Sync(EnforcePopular)]);
/// Synchronizes, admits who waits, and goes.
pub(super) static SYNC_UPDATE: Program = program(&[Do::Sync(EnforcePopular), Do::Update]);
/// Takes what the others have.
pub(super) static TAKE: Program = program(&[Do::Sync(ReceiveOnly)]);
/// Is never overwritten.
pub(super) static SEND_ONLY: Program = program(&[Do::Sync(SendOnly)]);
/// Synchronizes twice, admits who waits, and goes.
pub(super) static LEAVER: Program = program(&[
    Do::Sync(EnforcePopular),
    Do::Advance,
    Do::Sync(EnforcePopular),
    Do::Update,
]);
/// Computes twice between two synchronizations.
pub(super) static SKIPS: Program = program(&[
    Do::Sync(EnforcePopular),
    Do::Advance,
    Do::Advance,
    Do::Sync(EnforcePopular),
]);
/// And three times.
pub(super) static SKIPS_MORE: Program = program(&[
    Do::Sync(EnforcePopular),
    Do::Advance,
    Do::Advance,
    Do::Advance,
    Do::Sync(EnforcePopular),
]);
/// Synchronizes twice, and computes nothing in between.
pub(super) static SYNC_TWICE: Program = repeated(2, &[Do::Sync(EnforcePopular)]);

//! Ways to what takes more faults than a search can afford, and which a random walk hardly ever meets.
//!
//! The standard run goes them besides its walks, so that what it is held to does not hang on a seed. A step that is
//! not possible any more is left out: then what the way is for is missing from the coverage, and the run says so.

use pccl_model::coverage::Coverage;
use pccl_model::trace::{Trace, TraceError};

const WAYS: [&str; 2] = [
    // Who was told of a link in a round that ends with the death of the other end has no link to connect in the next
    // round, and its report arrives there.
    "withdraw-groups faults=4: call 3; call 4; up 4; call 2; call 2; up 2; up 2; call 1; \
     break-link 1 to:2; down 2; up 3; up 1; notice 2 from:1; call 2; up 2; down 2; down 1; \
     dial 1 to:2; freeze 1; up 1; silence 1; up 2",
    // A vote on an outcome arrives while links are connected for another reduce.
    "tags-3 faults=4: call 3; call 1; call 2; call 3; up 2; call 1; call 2; up 1; up 1; cut 1; \
     down-ends 1; notice 2 from:1; up 2; notice 3 to:1; up 3; down 2; down 3; up 2; up 3; up 3",
];

/// Goes all ways, each to its end and on until the run comes to rest.
///
/// # Errors
/// A way cannot be read, or the run does not come to rest after it.
pub(crate) fn coverage() -> Result<Coverage, TraceError> {
    let all = Coverage::default();
    for way in WAYS {
        let gone = way.parse::<Trace>()?.follow()?;
        all.merge(&gone.model.coverage());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_of_a_way_is_possible_and_breaks_nothing() {
        for way in WAYS {
            let gone = way.parse::<Trace>().and_then(|way| way.replay());

            assert_eq!(gone.expect("a way").broken(), None, "{way}");
        }
    }
}

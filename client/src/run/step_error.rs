//! Errors of a step, some of which are errors of a call.

use std::error;

use crate::error::Error;

/// An error that a step of [`Rounds`](crate::Rounds) returns.
///
/// It is found out whether it is an error of a call, after which the round may have to be started again.
/// [`Error`], `Box<dyn std::error::Error + Send + Sync>`, `anyhow::Error` and what is like them are step errors
/// without further ado: whatever can be looked at as a `dyn std::error::Error` and has an [`Error`] among its
/// sources. For an enum of your own, say which variant it is:
///
/// ```
/// use pccl::{Error, StepError};
///
/// enum TrainingError {
///     Call(Error),
///     Data(std::io::Error),
/// }
///
/// impl From<Error> for TrainingError {
///     fn from(error: Error) -> Self {
///         Self::Call(error)
///     }
/// }
///
/// impl StepError for TrainingError {
///     fn call(&self) -> Option<&Error> {
///         match self {
///             Self::Call(error) => Some(error),
///             Self::Data(_) => None,
///         }
///     }
/// }
/// ```
pub trait StepError: From<Error> {
    /// The error of the call that failed. `None`: it is none of a call, and ends the loop.
    fn call(&self) -> Option<&Error>;
}

impl<E> StepError for E
where
    E: From<Error> + AsRef<dyn error::Error + Send + Sync + 'static>,
{
    fn call(&self) -> Option<&Error> {
        let whole: &(dyn error::Error + 'static) = self.as_ref();
        let mut chain = std::iter::successors(Some(whole), |error| error.source());
        chain.find_map(|error| error.downcast_ref())
    }
}

impl AsRef<dyn error::Error + Send + Sync + 'static> for Error {
    fn as_ref(&self) -> &(dyn error::Error + Send + Sync + 'static) {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct InContext(Error);

    impl fmt::Display for InContext {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("in the third layer")
        }
    }

    impl error::Error for InContext {
        fn source(&self) -> Option<&(dyn error::Error + 'static)> {
            Some(&self.0)
        }
    }

    type Boxed = Box<dyn error::Error + Send + Sync>;

    #[test]
    fn an_error_of_a_call_is_found_below_its_context_and_another_one_is_not_taken_for_one() {
        let plain = Error::MasterLost;
        let boxed = Boxed::from(Error::MasterLost);
        let in_context = Boxed::from(InContext(Error::MasterLost));
        let other = Boxed::from("the disk is full");

        assert_eq!(plain.call(), Some(&Error::MasterLost));
        assert_eq!(boxed.call(), Some(&Error::MasterLost));
        assert_eq!(in_context.call(), Some(&Error::MasterLost));
        assert_eq!(other.call(), None);
    }
}

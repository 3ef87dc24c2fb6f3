//! The rules of the protocol that can be broken on purpose, so that the model checker is checked too.

/// A rule, and after the semicolon what a mistaken programmer would have written in its place, each
/// mistake under the name of its `Mutant`, with the case where it makes a difference if it is not made
/// everywhere. Without the feature `mutants` it is the rule and nothing else.
#[cfg(not(feature = "mutants"))]
macro_rules! rule {
    ($rule:expr; $($mutant:ident $(if $case:expr)? => $mistake:expr),+ $(,)?) => {
        $rule
    };
}

/// A rule, and after the semicolon what is done in its place while that mutant is switched on.
#[cfg(feature = "mutants")]
macro_rules! rule {
    ($rule:expr; $($mutant:ident $(if $case:expr)? => $mistake:expr),+ $(,)?) => {
        $(if $($case &&)? $crate::mutants::Mutant::$mutant.is_made() { $mistake } else)+ { $rule }
    };
}

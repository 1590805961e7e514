//! Stacks of a program whose main program has its arrays there: the limit, and the size of the stacks of its threads.

use nodegauge_measure::Bytes;
use nodegauge_os::StackLimit;

/// Environment variables that set the size of the stacks of threads, for all OpenMP libraries and for GCC's and
/// Intel's.
const STACK_SIZES: [&str; 3] = ["OMP_STACKSIZE", "GOMP_STACKSIZE", "KMP_STACKSIZE"];

/// Returns the limit of the stack raised to the hard limit; `None` if it cannot be raised.
pub(super) fn raised() -> Option<StackLimit> {
    let own = StackLimit::own();
    Some(own.raised()).filter(|raised| *raised != own)
}

/// Returns the variable that keeps the size of the stacks of threads, unless the user sets it. Without it, their size
/// would follow the new limit: the C library takes a fixed size of 2 MiB if there is no limit.
pub(super) fn of_threads() -> Option<(String, Option<String>)> {
    let bytes = StackLimit::own().soft?;
    let is_set = STACK_SIZES.iter().any(|name| std::env::var_os(name).is_some());
    (!is_set).then(|| (STACK_SIZES[0].to_owned(), Some(format!("{bytes}B"))))
}

/// Returns the soft limit, or `unlimited`.
pub(super) fn in_words(limit: StackLimit) -> String {
    limit.soft.map_or_else(|| "unlimited".to_owned(), |bytes| Bytes(bytes).to_string())
}

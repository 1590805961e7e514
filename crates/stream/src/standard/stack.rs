//! Stack limit of a program that has its arrays on the stack of its main program, and stack size of its threads.

use nodegauge_measure::Bytes;
use nodegauge_os::StackLimit;

/// Environment variables that set the stack size of threads: for all OpenMP libraries, for GCC's and for Intel's.
const STACK_SIZES: [&str; 3] = ["OMP_STACKSIZE", "GOMP_STACKSIZE", "KMP_STACKSIZE"];

/// Returns the stack limit raised to the hard limit; `None` if it cannot be raised.
pub(super) fn raised_limit() -> Option<StackLimit> {
    let current = StackLimit::current();
    Some(current.with_raised_soft_limit()).filter(|raised| *raised != current)
}

/// Returns the variable that keeps the stack size of threads unchanged, unless the user sets it. Without the variable,
/// threads would get the new limit; if there is no limit, they would get the C library's fixed size of 2 MiB.
pub(super) fn thread_stack_variable() -> Option<(String, Option<String>)> {
    let bytes = StackLimit::current().soft?;
    let is_set = STACK_SIZES.iter().any(|name| std::env::var_os(name).is_some());
    (!is_set).then(|| (STACK_SIZES[0].to_owned(), Some(format!("{bytes}B"))))
}

/// Returns the soft limit, or `unlimited`.
pub(super) fn in_words(limit: StackLimit) -> String {
    limit.soft.map_or_else(|| "unlimited".to_owned(), |bytes| Bytes(bytes).to_string())
}

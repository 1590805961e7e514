//! The program `nodegauge`; its commands are in the library of this crate.

use nodegauge_os::ExitingAllocator;

/// Allocator of the program: without memory, the program ends like any other run that misses something.
#[global_allocator]
static ALLOCATOR: ExitingAllocator = ExitingAllocator::new(nodegauge_cli::EXIT_MISSING);

fn main() {
    nodegauge_cli::run()
}

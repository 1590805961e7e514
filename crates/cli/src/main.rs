//! The program `nodegauge`; its commands are in the library of this crate.

use nodegauge_os::ExitingAllocator;

/// Allocator that ends the program with the usual exit code if there is no memory.
#[global_allocator]
static ALLOCATOR: ExitingAllocator = ExitingAllocator::new(nodegauge_cli::EXIT_MISSING);

fn main() {
    nodegauge_cli::run()
}

//! Tests of the examples of `--help` that take longer than a second.

#[test]
fn every_long_example_runs() {
    crate::help_examples::run_long();
}

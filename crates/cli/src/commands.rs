//! One module per command. A module converts arguments to a plan, runs the plan with a library crate, and passes the
//! result to a renderer.

mod apps;
mod check;
mod children;
mod compare;
pub(crate) mod completion;
mod device;
mod doctor;
mod documents;
mod explain;
mod fleet;
mod history;
mod hpl;
mod io;
mod jobs;
mod machine;
mod manual;
mod memory;
mod mpi;
mod noise;
mod places;
pub(crate) mod read;
mod report;
mod roofline;
mod run;
mod stream;
mod sweep;
mod watch;

use crate::args::{Args, Command};
use crate::failure::{Exit, Failure};
use crate::output;

/// Runs the given command; without a command, runs `run`.
pub(crate) fn dispatch(args: &Args) -> Result<Exit, Failure> {
    // Outputs of commands that do not read the history must not replace it either.
    if let Some(history) = nodegauge_history::default_path(nodegauge_os::environment_variable) {
        output::protect_input(&history);
    }
    match &args.command {
        None => run::execute(&args.run),
        Some(Command::Run(run)) => run::execute(run),
        Some(Command::Machine(machine)) => machine::execute(machine),
        Some(Command::Doctor(doctor)) => doctor::execute(doctor),
        Some(Command::Places(places)) => places::execute(places),
        Some(Command::Where(args)) => jobs::execute(args),
        Some(Command::Stream(stream)) => stream::execute(stream),
        Some(Command::Explain(stream)) => explain::execute(stream),
        Some(Command::Memory(memory)) => memory::execute(memory),
        Some(Command::Roofline(roofline)) => roofline::execute(roofline),
        Some(Command::Mpi(mpi)) => mpi::execute(mpi),
        Some(Command::Hpl(hpl)) => hpl::execute(hpl),
        Some(Command::Io(io)) => io::execute(io),
        Some(Command::Device(device)) => device::execute(device),
        Some(Command::Apps(apps)) => apps::execute(apps),
        Some(Command::Noise(args)) => noise::execute(args),
        Some(Command::Sweep(args)) => sweep::execute(args),
        Some(Command::Watch(args)) => watch::execute(args),
        Some(Command::Check(args)) => check::execute(args),
        Some(Command::ExamineNode { since }) => check::print_examination(*since),
        Some(Command::MeasureTouch { threads }) => check::print_touch_rates(*threads),
        Some(Command::History(history)) => history::execute(history),
        Some(Command::Read(args)) => read::execute(args),
        Some(Command::Compare(args)) => compare::execute(args),
        Some(Command::Report(args)) => report::execute(args),
        Some(Command::Fleet(command)) => fleet::execute(command),
        Some(Command::Completions { shell }) => documents::print_completions(*shell),
        Some(Command::Man { output: None }) => manual::print_page(),
        Some(Command::Man { output: Some(folder) }) => manual::write_all_pages(folder),
        Some(Command::Schema) => documents::print_schema(),
        Some(Command::ListDevices { driver }) => Ok(device::print_devices(driver)),
        Some(Command::TryBlas { library, list_kernels, on }) => {
            Ok(children::try_blas(library, *list_kernels, on))
        }
        Some(Command::MeasureAsRank { name, rank, ranks }) => {
            children::measure_as_rank(name, *rank, *ranks)
        }
        Some(Command::StartPlaced { file, program }) => {
            Ok(Exit::FromRank0(nodegauge_programs::execute_placed(file, program)?))
        }
        Some(Command::CleanUpAfter { process }) => {
            nodegauge_toolchain::watchdog::serve(*process);
            Ok(Exit::Success)
        }
        Some(Command::TransportRanks { order }) => children::start_transport_ranks(order),
        Some(Command::TestKernel { library, kernel, element, cpu_seconds }) => {
            Ok(children::test_kernel(library, *kernel, *element, *cpu_seconds))
        }
    }
}

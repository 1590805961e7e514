//! Command that compiles an unmodified stream.c for the planned arrays and the processor of the plan.

use super::PROGRAM;
use crate::compiled::CompilerChoice;
use crate::request::StreamRequest;
use crate::standard::build::ProgramArrays;
use crate::standard::output::OutputFormat;
use nodegauge_measure::Failure;
use nodegauge_measure::record::Machine;
use nodegauge_toolchain::CommandLine;

/// Flags of GCC and clang for microarchitectures. If several names select the same instruction sets, the name that more
/// compiler versions support is used. Source: GCC's `x86 Options` and `AArch64 Options`.
const TARGETS: [(&str, &str); 34] = [
    ("K10", "-march=amdfam10"),
    ("Bulldozer", "-march=bdver1"),
    ("Piledriver", "-march=bdver2"),
    ("Steamroller", "-march=bdver3"),
    ("Excavator", "-march=bdver4"),
    ("Zen", "-march=znver1"),
    ("Zen+", "-march=znver1"),
    ("Zen 2", "-march=znver2"),
    ("Zen 3", "-march=znver3"),
    ("Zen 3+", "-march=znver3"),
    ("Zen 4", "-march=znver4"),
    ("Zen 4c", "-march=znver4"),
    ("Zen 5", "-march=znver5"),
    ("Zen 5c", "-march=znver5"),
    ("Nehalem", "-march=nehalem"),
    ("Westmere", "-march=westmere"),
    ("Sandy Bridge", "-march=sandybridge"),
    ("Ivy Bridge", "-march=ivybridge"),
    ("Haswell", "-march=haswell"),
    ("Broadwell", "-march=broadwell"),
    ("Skylake-SP", "-march=skylake-avx512"),
    ("Cascade Lake", "-march=cascadelake"),
    ("Cooper Lake", "-march=cooperlake"),
    ("Ice Lake-SP", "-march=icelake-server"),
    ("Sapphire Rapids", "-march=sapphirerapids"),
    ("Emerald Rapids", "-march=sapphirerapids"),
    ("Granite Rapids", "-march=graniterapids"),
    ("Sierra Forest", "-march=sierraforest"),
    ("Neoverse N1", "-mcpu=neoverse-n1"),
    ("Neoverse V1", "-mcpu=neoverse-v1"),
    ("Neoverse N2", "-mcpu=neoverse-n2"),
    ("Neoverse V2", "-mcpu=neoverse-v2"),
    ("Cortex-A72", "-mcpu=cortex-a72"),
    ("A64FX", "-mcpu=a64fx"),
];
/// Microarchitecture that only Intel's former compiler supports, and the flag of that compiler.
const COPROCESSOR: (&str, &str) = ("Knights Corner", "-mmic");

/// Returns the compiler command of the user, otherwise the usual command for the processor of the plan.
pub(super) fn compiler_command(
    options: &StreamRequest,
    machine: &Machine,
) -> Result<CommandLine, Failure> {
    match options.compilers.as_slice() {
        [] => Ok(usual(machine)),
        [CompilerChoice::Command(command)] => Ok(command.clone()),
        _ => Err(Failure::usage("--plan requires a single compiler")
            .hint("give one command, e.g. --compiler 'gcc -O3 -fopenmp'")),
    }
}

fn usual(machine: &Machine) -> CommandLine {
    let name = machine.processor.microarchitecture.as_deref();
    if name == Some(COPROCESSOR.0) {
        return CommandLine::new("icc", ["-O3", COPROCESSOR.1, "-fopenmp"]);
    }
    let known = TARGETS.iter().find(|(known, _)| Some(*known) == name);
    let target = match known {
        Some((_, flag)) if machine.is_described() => flag,
        _ => "-march=native",
    };
    CommandLine::new("gcc", ["-O3", target, "-fopenmp"])
}

/// Returns the command that compiles `source` for these arrays.
pub(super) fn compile_command(
    command: &CommandLine,
    wanted: &ProgramArrays,
    source: &str,
    machine: &Machine,
) -> CommandLine {
    let file = source.rsplit('/').next().unwrap_or(source);
    let command = command.without_files(file);
    let flags = wanted.flags_on(architecture(machine), OutputFormat::C, &command);
    let files = ["-o", PROGRAM, source].map(str::to_owned);
    command.with_arguments(flags).with_arguments(files)
}

/// Returns the architecture of the processor; x86-64 if the processor of a described machine is unknown.
fn architecture(machine: &Machine) -> &str {
    let processor = &machine.processor;
    if let Some(known) = processor.architecture.as_deref() {
        return known;
    }
    let name = processor.microarchitecture.as_deref();
    let target = TARGETS.iter().find(|(known, _)| Some(*known) == name);
    match target {
        Some((_, flag)) if flag.starts_with("-mcpu") => "aarch64",
        _ => "x86_64",
    }
}

//! Compilation of a stream.c for the arrays of the native run, and the environment variables for the compiled program.
//! The source is not modified: all parameters are passed with `-D`.

use crate::kernels::Element;
use crate::standard::output::OutputFormat;
use crate::standard::stack;
use nodegauge_measure::Failure;
use nodegauge_os::StackLimit;
use nodegauge_placement::{Binding, Placement};
use nodegauge_toolchain::{
    CommandLine, CompileLimits, CompiledProgram, Compiler, ScratchFolder, ToolchainError,
};
use std::io;
use std::path::{Path, PathBuf};

/// Number of runs of each kernel. It is twice stream.c's default, and well below the 33 passes after which
/// single-precision values overflow.
pub const NTIMES: u64 = 20;
/// Flags for a compiler that the user gave without flags.
const FLAGS: [&str; 3] = ["-O3", "-march=native", "-fopenmp"];
/// Processor architectures whose compilers need flags for long static arrays: the name, the maximum size of static data
/// in the small memory model (minus a reserve for the program itself), and the flags for larger data. The limits are 2
/// GiB on x86-64 and 4 GiB on AArch64, whose large model requires a program at a fixed address.
const MEMORY_MODELS: [MemoryModel; 2] = [
    MemoryModel { architecture: "x86_64", small: 1_900_000_000, flags: &["-mcmodel=medium"] },
    MemoryModel {
        architecture: "aarch64",
        small: 4_000_000_000,
        flags: &["-mcmodel=large", "-fno-pie", "-no-pie"],
    },
];

/// Flags for long static arrays on an architecture.
struct MemoryModel {
    architecture: &'static str,
    small: u64,
    flags: &'static [&'static str],
}

/// Maximum size of a source, bytes; stream.c has 20,000.
const LONGEST_SOURCE: u64 = 1 << 20;

/// Source file of STREAM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSource {
    path: PathBuf,
    output_format: OutputFormat,
    /// Additional source files that the source requires.
    helpers: Vec<PathBuf>,
    /// True if the source calls MPI.
    is_mpi: bool,
}

/// Error while a source is opened.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("cannot read {path:?}: {cause}")]
    Unreadable {
        /// Path as the user gave it.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The file is neither C nor Fortran.
    #[error("{path:?} is neither C nor Fortran")]
    UnknownLanguage {
        /// Path as the user gave it.
        path: PathBuf,
    },
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        let hint = match error {
            SourceError::Unreadable { .. } => {
                "give your copy of stream.c, e.g. --standard ~/stream.c"
            }
            SourceError::UnknownLanguage { .. } => "give a file that ends in .c or .f",
        };
        Self::usage(error).hint(hint)
    }
}

impl StreamSource {
    /// Opens a source.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if its extension is neither that of C nor that of Fortran.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let unreadable = |cause| SourceError::Unreadable { path: path.to_owned(), cause };
        // The file is read completely, so that a read error is reported now and not by the compiler.
        let content = nodegauge_os::read_file(path, LONGEST_SOURCE).map_err(unreadable)?;
        let text = String::from_utf8_lossy(&content).to_ascii_lowercase();
        let is_mpi = calls_mpi(&text);
        let output_format = match path.extension().and_then(|ending| ending.to_str()) {
            Some("c") if is_mpi => OutputFormat::Mpi,
            Some("c") => OutputFormat::C,
            Some("f" | "f90" | "F" | "F90") => OutputFormat::Fortran,
            _ => return Err(SourceError::UnknownLanguage { path: path.to_owned() }),
        };
        let path = std::fs::canonicalize(path).map_err(unreadable)?;
        // The Fortran sources call the C function `mysecond` to read the clock; the source of this function is in the
        // same directory.
        let clock = path.with_file_name("mysecond.c");
        let has_own = text.contains("function mysecond");
        let needs_clock = output_format == OutputFormat::Fortran && !has_own && clock.is_file();
        let helpers = if needs_clock { vec![clock] } else { Vec::new() };
        Ok(Self { path, output_format, helpers, is_mpi })
    }

    /// True if the source is that of STREAM's MPI version.
    pub fn is_mpi(&self) -> bool {
        self.is_mpi
    }

    /// Returns the name of the program in records.
    pub fn engine(&self) -> &'static str {
        match self.output_format {
            OutputFormat::Fortran if self.is_mpi => "stream_mpi.f",
            output_format => output_format.engine(),
        }
    }

    /// Returns the path of the source.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the format of the program's output, which depends on the language.
    pub fn output_format(&self) -> OutputFormat {
        self.output_format
    }

    /// Returns the raised stack limit for a Fortran program; `None` for other programs, and if the limit cannot be
    /// raised. With OpenMP, Fortran compilers put the arrays of a main program on the stack, which is much too small
    /// for them by default.
    pub fn raised_stack(&self) -> Option<StackLimit> {
        stack::raised_limit().filter(|_| self.output_format == OutputFormat::Fortran)
    }

    /// Returns the compilers to try if the user gives none.
    pub fn usual_compilers(&self) -> &'static [&'static str] {
        match self.output_format {
            OutputFormat::Fortran if self.is_mpi => &["mpif90"],
            OutputFormat::Fortran => &["gfortran"],
            OutputFormat::Mpi => &["mpicc"],
            _ => &["gcc", "clang"],
        }
    }
}

/// True if the text of a source, in lower case, includes a header of MPI (C, Fortran) or uses its module (Fortran).
fn calls_mpi(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim();
        let directive = line.strip_prefix('#').unwrap_or(line).trim_start();
        let includes = directive.starts_with("include");
        includes && (line.contains("mpi.h") || line.contains("mpif.h"))
            || line.starts_with("use mpi")
    })
}

/// Arrays for which a program is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramArrays {
    /// Number of elements per array.
    pub elements: u64,
    /// Type of the array elements.
    pub element: Element,
    /// Padding between arrays, elements.
    pub offset: u64,
    /// Number of runs of each kernel.
    pub ntimes: u64,
}

impl ProgramArrays {
    /// Returns the compiler flags for these arrays that `command` lacks; none for stream.f, whose sizes are fixed in
    /// the source.
    pub fn flags(&self, output_format: OutputFormat, command: &CommandLine) -> Vec<String> {
        self.flags_on(std::env::consts::ARCH, output_format, command)
    }

    /// Returns the flags of [`Self::flags`] for the given processor architecture.
    pub(crate) fn flags_on(
        &self,
        architecture: &str,
        output_format: OutputFormat,
        command: &CommandLine,
    ) -> Vec<String> {
        if output_format == OutputFormat::Fortran {
            return Vec::new();
        }
        let values = [
            ("STREAM_ARRAY_SIZE", Some(self.elements.to_string())),
            ("NTIMES", Some(self.ntimes.to_string())),
            ("OFFSET", Some(self.offset.to_string())),
            ("STREAM_TYPE", (self.element == Element::F32).then(|| "float".to_owned())),
        ];
        let mut flags: Vec<String> = values
            .into_iter()
            .filter(|(name, _)| command.macro_value(name).is_none())
            .filter_map(|(name, value)| Some(format!("-D{name}={}", value?)))
            .collect();
        let data = 3 * self.element.bytes() * (self.elements + self.offset);
        let has_model = command.arguments().iter().any(|word| word.starts_with("-mcmodel="));
        // The arrays of the MPI source are not static.
        let is_static = output_format == OutputFormat::C;
        let model = MEMORY_MODELS.iter().find(|model| model.architecture == architecture);
        if let Some(model) = model
            && is_static
            && data > model.small
            && !has_model
        {
            flags.extend(model.flags.iter().map(|flag| (*flag).to_owned()));
        }
        flags
    }
}

/// A compiled stream.c or stream.f that is ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandardBuild {
    /// Compiler that built the program.
    pub compiler: Compiler,
    /// Compiled program, ready to run.
    pub program: CompiledProgram,
    /// Source of the program.
    pub source: StreamSource,
    /// Arrays for which the program was built.
    pub wanted: ProgramArrays,
}

impl StandardBuild {
    /// Returns the environment variables of the program: those of [`environment`], and the size of the thread stacks if
    /// the stack limit is raised.
    pub fn environment(&self, placement: &Placement) -> Vec<(String, Option<String>)> {
        let mut variables = environment(placement);
        if self.source.raised_stack().is_some() {
            variables.extend(stack::thread_stack_variable());
        }
        variables
    }
}

/// Returns the reason why a run of a program has no result. If the program ended by itself, the reason includes the
/// remedy. The text contains `the program` instead of `path`, which is in a private folder.
pub(super) fn failure_reason(error: ToolchainError, path: &Path) -> String {
    let has_remedy = matches!(error, ToolchainError::Ended { .. });
    let failure = Failure::from(error);
    let problem = failure.problem();
    let separator = if problem.contains('\n') { "\n" } else { "; " };
    let why = match failure.hint.filter(|_| has_remedy) {
        Some(remedy) => format!("{problem}{separator}{remedy}"),
        None => problem,
    };
    why.replace(&path.display().to_string(), "the program")
}

/// Compiles `source` with `command`. A command without flags gets the default flags.
///
/// # Errors
/// Fails if the compiler is missing, reports errors, or exceeds its time limit.
pub fn build(
    source: &StreamSource,
    command: &CommandLine,
    wanted: ProgramArrays,
    scratch: &ScratchFolder,
    name: &str,
    interrupted: &dyn Fn() -> bool,
) -> Result<StandardBuild, ToolchainError> {
    let file = source.path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
    let command = command.without_files(file);
    // Ranks of the MPI source have one thread.
    let usual = if source.is_mpi { &FLAGS[..2] } else { &FLAGS[..] };
    let is_bare = command.arguments().is_empty();
    let command = if is_bare { command.with_arguments(usual.iter().copied()) } else { command };
    let flags = wanted.flags(source.output_format, &command);
    let compiler = Compiler::find(command, CompileLimits::DEFAULT.version, interrupted)?;
    let mut sources = vec![source.path.as_path()];
    sources.extend(source.helpers.iter().map(PathBuf::as_path));
    let limit = CompileLimits::DEFAULT.compile;
    let program = compiler.compile(limit, &sources, &flags, scratch, name, interrupted)?;
    Ok(StandardBuild { compiler, program, source: source.clone(), wanted })
}

/// Returns the environment variables that bind the threads of an OpenMP program as in `placement`: one place per
/// thread, in thread order, with the CPUs of the thread. `None` means that the variable is removed.
pub fn environment(placement: &Placement) -> Vec<(String, Option<String>)> {
    let mut variables = vec![
        ("OMP_NUM_THREADS", Some(placement.threads.len().to_string())),
        ("OMP_DYNAMIC", Some("false".to_owned())),
        // These variables would override or contradict the variables above.
        ("GOMP_CPU_AFFINITY", None),
        ("KMP_AFFINITY", None),
        ("OMP_THREAD_LIMIT", None),
    ];
    if placement.bind == Binding::None {
        variables.push(("OMP_PLACES", None));
        variables.push(("OMP_PROC_BIND", Some("false".to_owned())));
    } else {
        variables.push(("OMP_PLACES", Some(places(placement))));
        variables.push(("OMP_PROC_BIND", Some("close".to_owned())));
    }
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the CPUs of each thread in the syntax of `OMP_PLACES`: `{0,1},{4,5}`.
pub(super) fn places(placement: &Placement) -> String {
    let mut places = Vec::with_capacity(placement.threads.len());
    for thread in &placement.threads {
        let cpus: Vec<String> = thread.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
        places.push(format!("{{{}}}", cpus.join(",")));
    }
    places.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::{Topology, TopologySource};
    use nodegauge_placement::PlacementRequest;

    #[test]
    fn compiler_flags_depend_on_the_arrays() {
        let wanted =
            ProgramArrays { elements: 1_000_000, element: Element::F64, offset: 8, ntimes: NTIMES };
        let gcc = CommandLine::new("gcc", []);
        let flags_of = |arrays: &ProgramArrays, output_format| arrays.flags(output_format, &gcc);
        assert_eq!(
            flags_of(&wanted, OutputFormat::C),
            ["-DSTREAM_ARRAY_SIZE=1000000", "-DNTIMES=20", "-DOFFSET=8"]
        );
        let float = ProgramArrays { element: Element::F32, ..wanted };
        assert!(flags_of(&float, OutputFormat::C).contains(&"-DSTREAM_TYPE=float".to_owned()));
        assert!(flags_of(&wanted, OutputFormat::Fortran).is_empty());
        let medium = "-mcmodel=medium".to_owned();
        let small = ProgramArrays { elements: 79_000_000, ..wanted };
        assert!(!flags_of(&small, OutputFormat::C).contains(&medium));
        let large = ProgramArrays { elements: 80_000_000, ..wanted };
        let is_large = flags_of(&large, OutputFormat::C).contains(&medium);
        assert_eq!(is_large, cfg!(target_arch = "x86_64"));
        let on_arm = |elements| {
            let wanted = ProgramArrays { elements, ..wanted };
            wanted.flags_on("aarch64", OutputFormat::C, &gcc)[3..].to_vec()
        };
        assert!(on_arm(160_000_000).is_empty());
        assert_eq!(on_arm(400_000_000), ["-mcmodel=large", "-fno-pie", "-no-pie"]);
        // Macros that the command defines are not defined again.
        let typed = "clang -DSTREAM_ARRAY_SIZE=80000000 -DSTREAM_TYPE=float -mcmodel=large";
        let typed: CommandLine = typed.parse().unwrap();
        assert_eq!(large.flags(OutputFormat::C, &typed), ["-DNTIMES=20", "-DOFFSET=8"]);
    }

    #[test]
    fn openmp_variables_depend_on_the_placement() {
        let text = "Package:2 Core:2 PU:2";
        let topology = Topology::load(&TopologySource::Synthetic(text.to_owned())).unwrap();
        let request = PlacementRequest {
            threads: Some(2),
            places: Some("cores".parse().unwrap()),
            bind: Some(Binding::Spread),
            ..PlacementRequest::default()
        };
        let placement = nodegauge_placement::plan(&topology, &request).unwrap();
        let variables = environment(&placement);
        let of = |name: &str| {
            variables.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.clone())
        };
        assert_eq!(of("OMP_NUM_THREADS").as_deref(), Some("2"));
        assert_eq!(of("OMP_PLACES").as_deref(), Some("{0,1},{4,5}"));
        assert_eq!(of("OMP_PROC_BIND").as_deref(), Some("close"));
        let request = PlacementRequest { bind: Some(Binding::None), ..request };
        let free = environment(&nodegauge_placement::plan(&topology, &request).unwrap());
        assert!(free.contains(&("OMP_PLACES".to_owned(), None)));
        assert!(free.contains(&("OMP_PROC_BIND".to_owned(), Some("false".to_owned()))));
    }

    #[test]
    fn source_with_the_mpi_header_is_detected_as_mpi() {
        for text in [
            "#include \"mpi.h\"",
            "# include <stdio.h>\n#include <mpi.h>",
            "# include <stdio.h>\n# include \"mpi.h\"",
            "      include 'mpif.h'",
        ] {
            assert!(calls_mpi(text), "{text}");
        }
        assert!(!calls_mpi("/* as in stream_mpi.c */\n#include <stdio.h>"));
    }

    #[test]
    fn invalid_source_is_refused() {
        let error = StreamSource::open(Path::new("/no/such/stream.c")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read \"/no/such/stream.c\": No such file"), "{error}");
        let passwd_error = StreamSource::open(Path::new("/etc/passwd")).unwrap_err().to_string();
        assert!(passwd_error.contains("neither C nor Fortran"), "{passwd_error}");
    }
}

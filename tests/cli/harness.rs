//! Harness: runs the program in its own folder with a clean environment. If an expectation fails, it prints the
//! command, its status and its complete output.

pub use crate::fields::{has_keys, measurements, names, texts};
pub use crate::outcome::Outcome;
use crate::program;
pub use crate::skip::{Part, skip};
use crate::terminal::Terminal;
use serde_json::Value;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit for a command on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Folder of compiled probes and OpenCL kernels. All tests share it, except tests of these caches.
static PROBES: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probes");
    std::fs::create_dir_all(folder.join("opencl")).unwrap();
    folder
});

/// Variables that allow Open MPI to run as root in containers.
pub const OPEN_MPI_AS_ROOT: [(&str, &str); 2] =
    [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];
/// Options for a measurement that takes several tenths of a second. The theoretical bandwidth is far above that of any
/// cache, so that small arrays give valid results on every machine.
pub const FAST: [&str; 8] =
    ["--samples", "3", "--size", "1000000elements", "--budget", "0.5", "--dimms", "1024x20000"];
/// Number of array elements of [`FAST`].
pub const ELEMENTS: u64 = 1_000_000;

/// Node of the T2K cluster, without shared caches.
pub const T2K: &str = "synthetic:Package:4 NUMANode:1 Core:4 PU:1";
/// Machine with 2 x EPYC 7H12 and four NUMA nodes per socket.
pub const ROME: &str =
    "synthetic:Package:2 NUMANode:4 L3Cache:4(size=16777216) L2Cache:4 L1dCache:1 Core:1 PU:1";
/// Machine with 2 x EPYC 9654 and one NUMA node per socket.
pub const GENOA: &str =
    "synthetic:Package:2 NUMANode:1 L3Cache:12(size=33554432) L2Cache:8 L1dCache:1 Core:1 PU:1";

/// Returns the time limit for a command. It grows with the number of waiting processes per CPU.
pub fn timeout() -> Duration {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(1.0);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    TIMEOUT.mul_f64((load / cpus).clamp(1.0, 10.0))
}

/// Temporary folder in which programs run without the user's variables.
pub struct Harness {
    folder: TempDir,
    /// Folder of compiled probes; `None` for the default folder of the program.
    probes: Option<&'static Path>,
}

impl Harness {
    pub fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), probes: Some(&PROBES) }
    }

    /// Creates a harness without compiled probes.
    pub fn without_probes() -> Self {
        Self { folder: TempDir::new().unwrap(), probes: None }
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a path in the folder, as an argument.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes a file into the folder and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self.arg(name)
    }

    /// Creates a command for any program, with the folder and the clean environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars() {
            let prefixes = [
                "OMP_",
                "KMP_",
                "NODEGAUGE_",
                "XDG_",
                "CLICOLOR",
                "HWLOC_",
                "RUST_",
                "SLURM_",
                "FLUX_",
                "PMI_",
                "PMIX_",
                "PALS_",
                "PLE_",
                "MPI_",
                "MV2_",
                "MXMPI_",
                "OMPI_",
                "RANK_VARIABLE",
            ];
            if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        command
            .env_remove("COLUMNS")
            .env_remove("TERM")
            .env("HOME", self.folder.path())
            .env("LC_ALL", "C")
            .env("NO_COLOR", "1")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        // SAFETY: between fork and exec, the function only makes system calls.
        unsafe { command.pre_exec(take_signals) };
        if let Some(probes) = self.probes {
            command.env("NODEGAUGE_CACHE_DIR", probes).env("POCL_CACHE_DIR", probes.join("opencl"));
        }
        command
    }

    /// Starts the program without waiting for it. Its standard error is a terminal, on which it shows its progress.
    pub fn start(&self, args: &[&str]) -> Running {
        self.start_with(&[], args)
    }

    /// Starts the program with these environment variables.
    pub fn start_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Running {
        self.start_under(&[], variables, args)
    }

    /// Starts the program with these environment variables through the program `under`, which executes it in the same
    /// process.
    pub fn start_under(
        &self,
        under: &[&str],
        variables: &[(&str, &str)],
        args: &[&str],
    ) -> Running {
        let (terminal, theirs) = Terminal::open();
        let words: Vec<&str> = [under, &[program::path()], args].concat();
        let mut command = self.command(words[0]);
        command.args(&words[1..]).env("TERM", "xterm").envs(variables.iter().copied());
        command.stdout(Stdio::piped()).stderr(theirs);
        Running::start(command, terminal)
    }

    /// Starts the program on a new terminal, after the words of `under`, as a shell in a window does.
    pub fn start_on_terminal(&self, under: &[&str], args: &[&str]) -> Running {
        let (terminal, theirs) = Terminal::open();
        let words: Vec<&str> = [under, &[program::path()], args].concat();
        let mut command = self.command(words[0]);
        command.args(&words[1..]).env("TERM", "xterm").stderr(theirs.try_clone().unwrap());
        command.stdout(theirs.try_clone().unwrap()).stdin(theirs);
        crate::terminal::make_its_own(&mut command);
        Running::start(command, terminal)
    }

    /// Runs the program.
    pub fn run(&self, args: &[&str]) -> Outcome {
        self.run_with(&[], args)
    }

    /// Runs the program with these environment variables; an empty value removes a variable.
    pub fn run_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Outcome {
        let mut command = self.command(program::path());
        command.args(args);
        for (name, value) in variables {
            if value.is_empty() {
                command.env_remove(name)
            } else {
                command.env(name, value)
            };
        }
        finish(command)
    }

    /// Runs `nodegauge stream` with [`FAST`] and these options.
    pub fn stream(&self, args: &[&str]) -> Outcome {
        self.run(&[&["stream"], &FAST[..], args].concat())
    }

    /// Runs `nodegauge stream --json -` with [`FAST`] and these options; returns the record.
    #[track_caller]
    pub fn stream_record(&self, args: &[&str]) -> Value {
        self.stream(&[&["--json", "-"], args].concat()).exits(0).json()
    }

    /// Returns the record that was saved last.
    #[track_caller]
    pub fn latest(&self) -> Value {
        self.run(&["history", "show", "latest", "--json"]).exits(0).json()
    }

    /// Imports a file with one run, and returns its record.
    pub fn imported(&self, file: &str) -> Value {
        let imported = self.run(&["history", "import", file]).exits(0);
        let (id, _) = imported.stdout.split_once(' ').expect("no identifier");
        self.run(&["history", "show", id, "--json"]).exits(0).json()
    }

    /// Returns the running processes that commands of this harness started. They are found by their variable HOME.
    pub fn processes(&self) -> Vec<HarnessProcess> {
        let home = self.path("").display().to_string();
        let home = home.trim_end_matches('/');
        let process_of = |entry: std::fs::DirEntry| {
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            Some(HarnessProcess {
                number: entry.file_name().to_str()?.parse().ok()?,
                environment: String::from_utf8_lossy(&environment).into_owned(),
            })
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten().filter_map(process_of);
        all.filter(|process| process.variable("HOME") == Some(home)).collect()
    }

    /// True if this many CPUs can be used. Otherwise skips `Part::Cpus`.
    #[track_caller]
    pub fn has_cpus(&self, count: usize) -> bool {
        let there = self.cpus();
        if there < count {
            skip(Part::Cpus, &format!("{count} CPUs are needed, there are {there}"));
        }
        there >= count
    }

    /// True if a program is installed. Otherwise skips the part that needs it.
    #[track_caller]
    pub fn has(&self, part: Part, program: &str) -> bool {
        let find = ["-c", r#"command -v "$1""#, "sh", program];
        let there = self.command("sh").args(find).output().unwrap().status.success();
        if !there {
            skip(part, &format!("there is no {program}"));
        }
        there
    }

    /// Runs another program with these environment variables.
    pub fn run_other(&self, words: &[&str], variables: &[(&str, &str)]) -> Outcome {
        let mut command = self.command(words[0]);
        command.args(&words[1..]).envs(variables.iter().copied());
        finish(command)
    }

    /// Runs the program through another one, e.g. `["taskset", "-c", "0"]`; `None` if that program is not installed.
    pub fn run_under(&self, wrapper: &[&str], args: &[&str]) -> Option<Outcome> {
        let found = Command::new(wrapper[0]).arg("--version").output();
        if found.is_err() {
            skip(Part::Taskset, &format!("there is no {}", wrapper[0]));
            return None;
        }
        let mut command = self.command(wrapper[0]);
        command.args(&wrapper[1..]).arg(program::path()).args(args);
        Some(finish(command))
    }

    /// Runs the program with some system files replaced, in a mount namespace, so that the machine does not change.
    /// Each pair contains a replacement and the path that it replaces. The replacement `noexec` forbids execution below
    /// the path. A path `self/...` denotes a file in `/proc/PID` of the program. Returns `None` if mount namespaces are
    /// not permitted.
    pub fn run_where(&self, shown: &[(&str, &str)], args: &[&str]) -> Option<Outcome> {
        self.run_where_with(&[], shown, args)
    }

    /// Like [`Self::run_where`], with these environment variables.
    pub fn run_where_with(
        &self,
        variables: &[(&str, &str)],
        shown: &[(&str, &str)],
        args: &[&str],
    ) -> Option<Outcome> {
        const STAGE: &str = r#"
            while [ "$1" != -- ]; do
                case "$2" in self/*) at=/proc/$$/${2#self/} ;; *) at=$2 ;; esac
                case "$1" in
                    noexec) mount --bind "$at" "$at" && mount -o remount,bind,noexec "$at" || exit 77 ;;
                    tmpfs:*) mount -t tmpfs -o "${1#tmpfs:}" none "$at" || exit 77 ;;
                    *) mount --bind "$1" "$at" || exit 77 ;;
                esac
                shift 2
            done
            shift
            exec "$@""#;
        let mut command = self.command("unshare");
        command.args(["--mount", "sh", "-c", STAGE, "stage"]);
        for (what, at) in shown {
            command.args([what, at]);
        }
        command.args(["--", program::path()]).args(args);
        command.envs(variables.iter().copied());
        let words = words(&command);
        let Ok(output) = assert_cmd::Command::from_std(command).timeout(timeout()).output() else {
            skip(Part::Namespaces, "there is no unshare");
            return None;
        };
        let outcome = Outcome::from_output(words, &output);
        if outcome.code == Some(77) || outcome.stderr.starts_with("unshare: ") {
            skip(Part::Namespaces, outcome.stderr.trim());
            return None;
        }
        Some(outcome)
    }

    /// Returns the number of CPUs that the program may use.
    pub fn cpus(&self) -> usize {
        self.threads().len()
    }

    /// Returns the number of the first CPU that the program may use.
    pub fn first_cpu(&self) -> String {
        self.threads()[0]["cpus"][0].to_string()
    }

    /// Returns the threads of a plan with one thread per CPU.
    fn threads(&self) -> Vec<Value> {
        let places = self.run(&["places", "--places", "threads", "--json"]).exits(0).json();
        places["threads"].as_array().unwrap().clone()
    }
}

/// Restores the default action of the signals that tests send. `nohup`, and shells without job control, start programs
/// with some of them ignored.
fn take_signals() -> std::io::Result<()> {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: the default action needs no handler.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Process of a command, with the environment with which it was started.
pub struct HarnessProcess {
    pub number: u32,
    environment: String,
}

impl HarnessProcess {
    /// Returns the value of an environment variable.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let mut variables = self.environment.split('\0');
        variables.find_map(|variable| variable.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Waits until `event` returns a value, and returns the value. `what` describes the event in the error message.
#[track_caller]
pub fn wait_for<T>(what: &str, mut event: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = event() {
            return found;
        }
        assert!(
            start.elapsed() < TIMEOUT || start.elapsed() < timeout(),
            "waited in vain for {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// True if the process exists and is not a zombie.
pub fn is_running(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Sends a signal by its name, e.g. `INT`.
pub fn signal(process: u32, name: &str) {
    // Not every system has a program `kill`, but every shell has it as a built-in command.
    let kill = ["-c", r#"kill -s "$1" "$2""#, "sh", name, &process.to_string()];
    assert!(Command::new("sh").args(kill).status().unwrap().success());
}

/// Makes a file executable.
pub fn make_program(path: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the program and its arguments as a command line.
fn words(command: &Command) -> String {
    let quoted = |word: &std::ffi::OsStr| {
        let word = word.to_string_lossy().into_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:%@~".contains(c);
        if !word.is_empty() && word.chars().all(plain) { word } else { format!("'{word}'") }
    };
    let name = Path::new(command.get_program()).file_name().unwrap_or_default();
    std::iter::once(name).chain(command.get_args()).map(quoted).collect::<Vec<_>>().join(" ")
}

fn finish(command: Command) -> Outcome {
    let words = words(&command);
    let output = assert_cmd::Command::from_std(command).timeout(timeout()).output().unwrap();
    Outcome::from_output(words, &output)
}

/// Program that was started. It is killed if the test does not wait for its end.
pub struct Running {
    /// Child process; `None` after its end.
    child: Option<std::process::Child>,
    terminal: Option<Terminal>,
    process: u32,
    words: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Running {
    fn start(mut command: Command, terminal: Terminal) -> Self {
        let words = words(&command);
        let child = command.spawn().unwrap();
        Self { process: child.id(), child: Some(child), terminal: Some(terminal), words }
    }

    /// Closes the terminal, waits for the end of the program, and returns its exit code.
    #[track_caller]
    pub fn hang_up(mut self) -> Option<i32> {
        self.terminal.take().unwrap().close();
        self.ended().code()
    }

    #[track_caller]
    fn ended(&mut self) -> std::process::ExitStatus {
        let child = self.child.as_mut().unwrap();
        let status = wait_for(&format!("the end of {}", self.words), || child.try_wait().unwrap());
        self.child = None;
        status
    }

    /// Returns the process identifier.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Waits until the progress bar shows this text.
    #[track_caller]
    pub fn shows(self, text: &str) -> Self {
        self.shows_times(1, text)
    }

    /// Waits until the progress bar has been drawn `times` times with this text. Each step sets both position and text
    /// of the bar, so at least half as many steps are then complete.
    #[track_caller]
    pub fn shows_times(self, times: usize, text: &str) -> Self {
        self.terminal.as_ref().unwrap().wait_for(text, times);
        self
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        signal(self.process, name);
    }

    /// Waits for the end of the program. Its progress bar is removed from the returned standard error.
    #[track_caller]
    pub fn end(mut self) -> Outcome {
        let stdout = self.child.as_mut().unwrap().stdout.take();
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stdout.map(|mut stdout| stdout.read_to_end(&mut text));
            text
        });
        let status = self.ended();
        let stderr = self.terminal.take().unwrap().rest().into_bytes();
        let output = Output { status, stdout: reader.join().unwrap(), stderr };
        Outcome::from_output(std::mem::take(&mut self.words), &output)
    }
}

//! Virtual machines: their shapes, their start, and the results of the commands that run in them.
//!
//! The guest's file system contains the program, numactl, busybox, hwloc-bind if it is installed, and one file per
//! command. Each command writes its output and its exit code to the second serial line, between marks. The kernel
//! writes to the first serial line.

use crate::archive::Archive;
use crate::outcome::Outcome;
use crate::skip::{Part, skip};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

/// Time limit for a machine with all its commands, and below it the limit for one command. They only end machines that
/// hang.
const TIMEOUT: Duration = Duration::from_secs(900);
const COMMAND_SECONDS: u32 = 300;
/// Accelerator of qemu: one thread emulates all CPUs. It needs only one CPU of the host, and an emulated CPU that spins
/// passes control to the next one. With one thread per CPU, spinning CPUs would take the time of working CPUs.
const ACCELERATOR: &str = "tcg,thread=single";
/// First characters of a line that is not output of a command.
const MARK: &str = "@@ ";
/// Name of the command that describes the guest before the first command; the next constant names that after the last
/// command.
const BEFORE: &str = "before";
const AFTER: &str = "after";

/// Script of the first process in a guest.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/shm /tmp /root
mount -t tmpfs none /dev/shm
hostname guest
# Emulated ranks of a busy machine take long to start.
export HOME=/root PATH=/bin LC_ALL=C NO_COLOR=1 NODEGAUGE_JOIN_SECONDS=250
stty -F /dev/ttyS1 raw
cd /root
sh /commands/all >/dev/ttyS1
poweroff -f
"#;

/// Shell functions that commands use.
const FUNCTIONS: &str = r##"
# Runs a command of /commands and prints its results between marks.
report() {
    from=$(cut -d ' ' -f 1 /proc/uptime)
    timeout -s KILL "$2" sh "/commands/$1" >/tmp/out 2>/tmp/err </dev/null
    code=$?
    printf '\n@@ %s stdout\n' "$1"; cat /tmp/out
    printf '\n@@ %s stderr\n' "$1"; cat /tmp/err
    printf '\n@@ %s exit %s %s %s\n' "$1" $code "$from" "$(cut -d ' ' -f 1 /proc/uptime)"
}

# Prints the state that commands must leave as it was: reserved pages, shared memory, temporary files, processes.
state() {
    grep HugePages_ /proc/meminfo
    ls -A /dev/shm
    ls -A /tmp | grep -v -E '^(out|err|look)$'
    ps -o comm | grep -E 'nodegauge|hwloc'
    true
}

# Prints the mappings of 8 MiB or more of each process of the program that no file fills, with the path of their
# numa_maps. Smaller ones may be those of the allocator.
mappings() {
    for process in $(pidof nodegauge); do
        awk -v path="/proc/$process/numa_maps" '
            / N[0-9]+=/ && (/ huge / || $0 !~ / (file=|heap|stack)/) {
                # The last line of a process that ends may be cut.
                pages = size = 0
                for (i = 3; i <= NF; i++) {
                    if ($i ~ /^N[0-9]+=/) { split($i, part, "="); pages += part[2] }
                    if ($i ~ /^kernelpagesize_kB=/) { split($i, part, "="); size = part[2] }
                }
                if (pages * size >= 8192) print path, $0, "KiB=" pages * size
            }' "/proc/$process/numa_maps"
    done 2>/dev/null
}

# Waits until $1 processes of the program have touched $2 MiB each and touch no more, and writes their mappings to
# /tmp/mappings. Fails if process $3 ends before.
settle() {
    before=0
    while kill -0 "$3" 2>/dev/null; do
        mappings >/tmp/mappings
        total=$(awk -v count="$1" -v mib="$2" '
            { split($NF, part, "="); sum[$1] += part[2]; total += part[2] }
            END {
                for (path in sum) if (sum[path] >= mib * 1024) full++
                print (full >= count) ? total : 0
            }' /tmp/mappings)
        if [ "$total" != 0 ] && [ "$total" = "$before" ]; then
            return 0
        fi
        before=$total
        usleep 20000
    done
    return 1
}

# Prints the numbers of the processes in /tmp/mappings.
processes_with_mappings() {
    cut -d ' ' -f 1 /tmp/mappings | uniq | cut -d / -f 3
}

# Runs a command; as soon as $1 processes have touched $2 MiB each and touch no more, stops them and writes to
# /tmp/look what the kernel reports of them.
look() {
    count=$1
    mib=$2
    shift 2
    echo "never: fewer than $count processes had $mib MiB" >/tmp/look
    "$@" &
    program=$!
    if settle "$count" "$mib" $program; then
        # A busy machine may need longer for the look than the processes for their run.
        processes=$(processes_with_mappings)
        kill -STOP $processes
        {
            cat /tmp/mappings
            for process in $processes; do
                for task in /proc/$process/task/*; do
                    echo "/proc/$process/numa_maps $(taskset -p "${task##*/}")"
                done
            done
        } >/tmp/look
        kill -CONT $processes
    fi
    rm -f /tmp/mappings
    wait $program
}

# Prints what `nodegauge where` reports of stopped or sleeping processes, and then what the kernel reports: the CPU and the
# allowed CPUs of each thread, and the memory.
compare_where() {
    nodegauge where "$@" --pages 60s --verbose --json
    for process in "$@"; do
        for task in /proc/$process/task/*; do
            cpu=$(sed 's/.*) //' "$task/stat" | cut -d ' ' -f 37)
            allowed=$(awk '/^Cpus_allowed_list:/ { print $2 }' "$task/status")
            echo "kernel $process thread ${task##*/} $cpu $allowed"
        done
        sed "s/^/kernel $process map /" "/proc/$process/numa_maps"
        awk -v process="$process" '/^AnonHugePages:/ { print "kernel", process, "huge", $2 }' \
            "/proc/$process/smaps_rollup"
    done
}

# Runs a command like look, but without its output; stops its processes, and compares what is reported of them.
where_of() {
    count=$1
    mib=$2
    shift 2
    "$@" >/tmp/ignored 2>&1 &
    program=$!
    if settle "$count" "$mib" $program; then
        processes=$(processes_with_mappings)
        kill -STOP $processes
        compare_where $processes
        kill -CONT $processes
    else
        cat /tmp/ignored >&2
    fi
    rm -f /tmp/mappings /tmp/ignored
    wait $program
}
"##;

/// Machine to be emulated.
pub struct Shape {
    pub name: &'static str,
    /// Options of qemu for processors, memory and NUMA nodes.
    pub qemu: &'static [&'static str],
    /// Command line of the kernel.
    pub kernel: &'static str,
    /// Size of an NVMe disk in MiB; 0 without a disk.
    pub disk_mib: u64,
    /// Kernel modules that are loaded, in this order. A module that the kernel lacks is assumed to be built in.
    pub modules: &'static [&'static str],
    /// Shell commands before the first command, e.g. to switch off a CPU.
    pub setup: &'static str,
    /// Names and shell commands, in the order in which they run.
    pub commands: &'static [(&'static str, &'static str)],
}

/// Machine that has ended, with the results of all commands.
pub struct Guest {
    outcomes: BTreeMap<String, Outcome>,
}

/// Guest of a shape, which all its tests share.
pub type Shared = OnceLock<Result<Guest, Missing>>;

/// Reason why no machine can be started, e.g. a missing program.
#[derive(Clone)]
pub struct Missing(String);

impl Shape {
    /// Machine without a disk, modules, set-up or commands, from which shapes take their defaults.
    pub const PLAIN: Self = Self {
        name: "",
        qemu: &[],
        kernel: "",
        disk_mib: 0,
        modules: &[],
        setup: "",
        commands: &[],
    };

    /// Returns the guest of this shape and starts it if necessary; skips the test if that is impossible.
    #[track_caller]
    pub fn guest(&'static self, shared: &'static Shared) -> Option<&'static Guest> {
        match shared.get_or_init(|| self.run()) {
            Ok(guest) => Some(guest),
            Err(missing) => {
                skip(Part::Machines, &missing.0);
                None
            }
        }
    }

    /// Starts a machine, runs all commands, and waits until it ends.
    fn run(&self) -> Result<Guest, Missing> {
        let files = BASE.as_ref().map_err(Missing::clone)?;
        let folder = tempfile::tempdir().unwrap();
        let [initrd, console, results] =
            ["initrd", "console", "results"].map(|name| folder.path().join(name));
        fs::write(&initrd, [&files.archive[..], &self.archive(files)].concat()).unwrap();
        let serial = |path: &Path| format!("file:{}", path.display());
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-nodefaults", "-display", "none", "-no-reboot"])
            .args(["-accel", ACCELERATOR])
            .args(self.qemu)
            .args(["-serial", &serial(&console), "-serial", &serial(&results)])
            .args(["-append", &format!("console=ttyS0 quiet panic=-1 {}", self.kernel)])
            .arg("-kernel")
            .arg(&files.kernel)
            .arg("-initrd")
            .arg(&initrd);
        if self.disk_mib > 0 {
            let disk = folder.path().join("disk");
            fs::File::create(&disk).unwrap().set_len(self.disk_mib << 20).unwrap();
            qemu.arg("-drive")
                .arg(format!("file={},format=raw,if=none,id=disk", disk.display()))
                .args(["-device", "nvme,drive=disk,serial=1"]);
        }
        let ended = assert_cmd::Command::from_std(qemu).timeout(TIMEOUT).output().unwrap();
        let results = fs::read(&results).unwrap_or_default();
        let outcomes = parse(&String::from_utf8_lossy(&results), self.commands);
        assert!(
            outcomes.contains_key(AFTER),
            "the machine {} ended early: {}\n--- stderr\n{}--- console\n{}--- results\n{}",
            self.name,
            ended.status,
            String::from_utf8_lossy(&ended.stderr),
            fs::read_to_string(&console).unwrap_or_default(),
            String::from_utf8_lossy(&results),
        );
        Ok(Guest { outcomes })
    }

    /// Returns an archive with the modules and commands of this shape.
    fn archive(&self, files: &Files) -> Vec<u8> {
        let mut archive = Archive::default();
        archive.folder("commands");
        archive.folder("modules");
        let mut all = ". /commands/functions\n".to_owned();
        for module in self.modules {
            let name = format!("modules/{module}.ko");
            if let Ok(content) = fs::read(files.kernel.with_file_name(&name)) {
                archive.file(&name, &content);
                all += &format!("insmod /{name}\n");
            }
        }
        all += &format!("{}\n", self.setup);
        for (name, command) in
            [(BEFORE, "state")].iter().chain(self.commands).chain(&[(AFTER, "state")])
        {
            let text = format!(". /commands/functions\n{command}\n");
            archive.file(&format!("commands/{name}"), text.as_bytes());
            all += &format!("report {name} {COMMAND_SECONDS}\n");
        }
        archive.file("commands/functions", FUNCTIONS.as_bytes());
        archive.file("commands/all", all.as_bytes());
        archive.finish()
    }
}

impl Guest {
    /// Returns the result of the command with this name.
    #[track_caller]
    pub fn result(&self, name: &str) -> Outcome {
        self.outcomes.get(name).unwrap_or_else(|| panic!("there is no command {name}")).clone()
    }

    /// Checks that the commands left nothing behind: the reserved pages, shared memory, files and processes are the
    /// same as before.
    #[track_caller]
    pub fn assert_unchanged(&self) {
        let before = self.result(BEFORE).exits(0).stdout;
        let after = self.result(AFTER).exits(0);
        if after.stdout != before {
            after.fail(&format!("expected the state before the first command:\n{before}"));
        }
    }
}

/// Files that every guest needs.
struct Files {
    kernel: PathBuf,
    /// Archive with the programs.
    archive: Vec<u8>,
}

static BASE: LazyLock<Result<Files, Missing>> = LazyLock::new(files);

/// Collects the kernel, and the programs with their libraries.
fn files() -> Result<Files, Missing> {
    find("qemu-system-x86_64")?;
    let busybox = find("busybox")?;
    let numactl = find("numactl")?;
    let kernel = kernel()?;
    let mut archive = Archive::default();
    for folder in ["bin", "proc", "sys", "dev", "root"] {
        archive.folder(folder);
    }
    archive.file("init", INIT.as_bytes());
    archive.file("bin/busybox", &fs::read(&busybox).unwrap());
    archive.file("bin/numactl", &fs::read(&numactl).unwrap());
    let hwloc_bind = find("hwloc-bind").ok();
    if let Some(hwloc_bind) = &hwloc_bind {
        archive.file("bin/hwloc-bind", &fs::read(hwloc_bind).unwrap());
    }
    archive.file("bin/nodegauge", &without_debug_information(Path::new(crate::program::path())));
    let mut folders = Vec::new();
    let mut libraries = libraries(Path::new(crate::program::path()));
    libraries.extend(self::libraries(&numactl));
    if let Some(program) = &hwloc_bind {
        libraries.extend(self::libraries(program));
    }
    libraries.sort();
    libraries.dedup();
    for library in &libraries {
        let ancestors: Vec<&Path> = library.ancestors().skip(1).collect();
        for folder in ancestors.into_iter().rev().filter(|folder| folder.parent().is_some()) {
            if !folders.contains(&folder) {
                archive.folder(folder.to_str().unwrap());
                folders.push(folder);
            }
        }
        archive.file(library.to_str().unwrap(), &fs::read(library).unwrap());
    }
    Ok(Files { kernel, archive: archive.finish() })
}

/// Returns the path of an installed program.
fn find(program: &str) -> Result<PathBuf, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file());
    found.ok_or_else(|| Missing(format!("there is no {program}")))
}

/// Returns the kernel for the guests, which is downloaded once and kept in the build folder.
fn kernel() -> Result<PathBuf, Missing> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/guest-kernel");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("machines");
    let output = Command::new(script).arg(folder).output().unwrap();
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !path.is_empty() {
        return Ok(PathBuf::from(path));
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(Missing(format!("no kernel: {why}")))
}

/// Returns a program without debug information if `strip` is installed. This makes the program much smaller.
fn without_debug_information(program: &Path) -> Vec<u8> {
    let stripped = tempfile::NamedTempFile::new().unwrap();
    let strip =
        Command::new("strip").arg("-g").arg("-o").arg(stripped.path()).arg(program).status();
    let done = strip.is_ok_and(|status| status.success());
    fs::read(if done { stripped.path() } else { program }).unwrap()
}

/// Returns the shared libraries of a program, and its interpreter.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    words.map(PathBuf::from).collect()
}

/// Parses the results of the commands.
fn parse(results: &str, commands: &[(&str, &str)]) -> BTreeMap<String, Outcome> {
    let mut outcomes = BTreeMap::new();
    let mut parts: BTreeMap<&str, String> = BTreeMap::new();
    let mut current = None;
    for line in results.lines() {
        let Some(mark) = line.strip_prefix(MARK) else {
            if let Some(text) = current.and_then(|stream| parts.get_mut(stream)) {
                text.push_str(line);
                text.push('\n');
            }
            continue;
        };
        let words: Vec<&str> = mark.split(' ').collect();
        if let [name, "exit", code, from, to] = words[..] {
            let command = commands.iter().find(|(known, _)| *known == name);
            let command = command.map_or("state", |(_, command)| command);
            let took = to.parse::<f64>().unwrap() - from.parse::<f64>().unwrap();
            eprintln!("{took:6.1} s {name}");
            let ran = format!("{command}\n({name}, {took:.1} s in the guest)");
            let [stdout, stderr] = ["stdout", "stderr"].map(|stream| output(parts.remove(stream)));
            let outcome = Outcome::new(ran, code.parse().ok(), stdout, stderr);
            outcomes.insert(name.to_owned(), outcome);
            current = None;
        } else {
            current = words.get(1).copied();
            parts.extend(current.map(|stream| (stream, String::new())));
        }
    }
    outcomes
}

/// Returns the output of a stream, without the line break that precedes the next mark.
fn output(text: Option<String>) -> String {
    let text = text.unwrap_or_default();
    text.strip_suffix('\n').unwrap_or(&text).to_owned()
}

#[test]
fn guest_results_are_parsed() {
    let text = "\n@@ nodes stdout\na\n\nb\n\n@@ nodes stderr\n\n@@ nodes exit 3 1.5 4.0\n\n@@ after stdout\n";
    let outcomes = parse(text, &[("nodes", "numactl --hardware")]);
    let nodes = &outcomes["nodes"];
    assert_eq!(
        (nodes.code, nodes.stdout.as_str(), nodes.stderr.as_str()),
        (Some(3), "a\n\nb\n", "")
    );
    assert_eq!(outcomes.len(), 1);
}

//! Options of `io`.

use super::{MeasuringArgs, budgets};
use clap::Args as ClapArgs;
use nodegauge_files::metadata::{DirectoryLayout, MetadataPlan};
use nodegauge_files::{
    CacheMode, FilesOptions, IoEngine, Msync, OperationList, SizeList, Stride, SyncWrites,
};
use nodegauge_measure::Bytes;
use nodegauge_toolchain::CommandLine;
use std::path::PathBuf;
use std::time::Duration;

/// Options for reading and writing data, which conflict with `--metadata`.
const DATA_OPTIONS: [&str; 23] = [
    "operations",
    "file_sizes",
    "block_sizes",
    "max_size",
    "full",
    "quick",
    "no_stonewall",
    "mix",
    "stride",
    "cache",
    "direct",
    "engine",
    "depth",
    "msync",
    "sync_writes",
    "include_close",
    "include_fsync",
    "compressible",
    "verify",
    "runtime",
    "iozone",
    "iozone_text",
    "surface",
];

/// Arguments of `io`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_times(FilesOptions::BUDGET, &[("--quick", FilesOptions::QUICK_BUDGET), ("--metadata", MetadataPlan::BUDGET)])))]
pub(crate) struct IoArgs {
    /// Folder to measure (repeatable) [default: .]
    ///
    /// All files are created in a new subfolder, which is removed at the end. Several file systems are measured one
    /// after another.
    #[arg(long, short, value_name = "DIR", help_heading = "Where")]
    pub(crate) path: Vec<PathBuf>,
    /// Measure many small files, as mdtest does
    ///
    /// Creates, stats, opens, renames and removes files: each operation on all files, then the next. Of the other
    /// options, only those for folders, workers and reference programs apply.
    #[arg(long, conflicts_with_all = DATA_OPTIONS, help_heading = "What")]
    pub(crate) metadata: bool,
    /// Files of each worker, for --metadata [default: 1000]
    ///
    /// The default is lower if 1000 files would take too long.
    #[arg(long, value_name = "N", requires = "metadata", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000), help_heading = "What")]
    pub(crate) files: Option<u64>,
    /// Directories of several workers, for --metadata: own, shared [default: both]
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "metadata",
        help_heading = "Rarely needed"
    )]
    pub(crate) layout: Vec<DirectoryLayout>,
    /// Also create files with fsync, for --metadata
    ///
    /// The files are on the device before they are closed.
    #[arg(long, requires = "metadata", help_heading = "How")]
    pub(crate) fsync: bool,
    /// Bytes written to each file, for --metadata [default: none]
    #[arg(long, value_name = "SIZE", requires = "metadata", help_heading = "Rarely needed")]
    pub(crate) bytes: Option<Bytes>,
    /// Remove files that killed runs left under --path, then measure
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) remove_leftovers: bool,
    /// Operations: usual, all, or names such as write,random_read,aio_read [default: IOzone's 13]
    #[arg(long, short, value_name = "NAMES", value_delimiter = ',', help_heading = "What")]
    pub(crate) operations: Vec<OperationList>,
    /// File sizes: a range A-B in powers of two, or a list [default: 64KiB-512MiB]
    #[arg(long, value_name = "SIZES", help_heading = "What")]
    pub(crate) file_sizes: Option<SizeList>,
    /// Block sizes: a range A-B in powers of two, or a list [default: 4KiB-16MiB]
    #[arg(long, visible_alias = "bs", value_name = "SIZES", help_heading = "What")]
    pub(crate) block_sizes: Option<SizeList>,
    /// Maximum file size
    #[arg(long, value_name = "SIZE", help_heading = "Rarely needed")]
    pub(crate) max_size: Option<Bytes>,
    /// Measure all 146 combinations of sizes, also small blocks in files above 16 MiB
    #[arg(long, conflicts_with = "quick", help_heading = "What")]
    pub(crate) full: bool,
    /// Measure a dozen combinations, in a few seconds
    ///
    /// The combinations cover cached and direct accesses, with small and large blocks.
    #[arg(long, conflicts_with_all = ["file_sizes", "block_sizes", "max_size"], help_heading = "What")]
    pub(crate) quick: bool,
    /// Threads, each with its own files (throughput mode)
    ///
    /// For --metadata, a list of numbers [default: 1 and all CPUs].
    #[arg(long, short, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024), conflicts_with = "processes", help_heading = "What")]
    pub(crate) threads: Vec<u32>,
    /// Processes, each with its own files (throughput mode); for --metadata a list
    #[arg(long, visible_alias = "numjobs", value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "What")]
    pub(crate) processes: Vec<u32>,
    /// Let workers continue after the first has finished
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) no_stonewall: bool,
    /// Percentages of reads in random_mix [default: 50]
    #[arg(long, value_name = "PERCENTS", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..=100), help_heading = "Rarely needed")]
    pub(crate) mix: Vec<u8>,
    /// Distance between blocks of stride_read: in blocks, like IOzone's -j, or in skipped bytes, e.g. 200KiB [default:
    /// 17]
    #[arg(long, value_name = "BLOCKS|BYTES", help_heading = "Rarely needed")]
    pub(crate) stride: Option<Stride>,
    /// Page cache: cached, fsync, direct, beyond
    ///
    /// "fsync" includes the time until the data are on the device; "beyond" uses a file larger than memory.
    #[arg(long, value_name = "MODES", value_delimiter = ',', help_heading = "How")]
    pub(crate) cache: Vec<CacheMode>,
    /// fio's option: 1 for --cache direct, 0 for --cache cached
    #[arg(long, value_name = "0|1", num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u8).range(0..=1), conflicts_with = "cache", hide = true)]
    pub(crate) direct: Option<u8>,
    /// I/O method of the plain operations: sync, mmap, uring [default: sync; for aio_*: uring]
    #[arg(long, value_name = "ENGINE", help_heading = "How")]
    pub(crate) engine: Option<IoEngine>,
    /// Number of operations in flight, for uring
    #[arg(long, visible_alias = "iodepth", value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "How")]
    pub(crate) depth: u32,
    /// When to call msync after writing to a mapping: none, async, sync
    #[arg(long, value_name = "WHEN", default_value = "none", help_heading = "Rarely needed")]
    pub(crate) msync: Msync,
    /// Open with O_SYNC (sync) or O_DSYNC (dsync)
    #[arg(long, value_name = "KIND", help_heading = "How")]
    pub(crate) sync_writes: Option<SyncWrites>,
    /// Include the time for closing the file
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) include_close: bool,
    /// Include the time for writing data to the device (fsync)
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) include_fsync: bool,
    /// Drop the file from the page cache before every operation that reads
    ///
    /// With --metadata, the operations on existing files are also measured after the caches of the node were
    /// dropped, which requires root and slows other programs for a while.
    #[arg(long, help_heading = "How")]
    pub(crate) drop: bool,
    /// Percentage of the data that is compressible
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = clap::value_parser!(u8).range(0..=100), help_heading = "Rarely needed")]
    pub(crate) compressible: u8,
    /// Compare the data read with the data written
    #[arg(long, help_heading = "How")]
    pub(crate) verify: bool,
    /// Stop each operation after this time, even before the end of the file
    #[arg(long = "time-limit", visible_alias = "runtime", value_name = "TIME", value_parser = super::values::parse_seconds, help_heading = "How long")]
    pub(crate) runtime: Option<Duration>,
    /// Also run this iozone, interleaved with nodegauge
    ///
    /// It uses the same sizes.
    #[arg(long, value_name = "PROGRAM", help_heading = "Reference programs")]
    pub(crate) iozone: Option<PathBuf>,
    /// Also run this fio, interleaved with nodegauge
    ///
    /// It uses the same sizes.
    #[arg(long, value_name = "PROGRAM", help_heading = "Reference programs")]
    pub(crate) fio: Option<PathBuf>,
    /// Also run this mdtest on the same files, for --metadata
    #[arg(long, value_name = "PROGRAM", requires = "metadata", help_heading = "Rarely needed")]
    pub(crate) mdtest: Option<PathBuf>,
    /// Launcher of mdtest's ranks, e.g. 'mpirun.openmpi' or 'srun --mpi=pmix' [default: detected]
    #[arg(long, value_name = "COMMAND", requires = "mdtest", help_heading = "Rarely needed")]
    pub(crate) launcher: Option<CommandLine>,
    /// Also start mdtest's ranks as root (containers)
    #[arg(long, requires = "mdtest", help_heading = "Rarely needed")]
    pub(crate) allow_run_as_root: bool,
    /// Print the result in the format of IOzone
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) iozone_text: bool,
    /// Write data for gnuplot's splot; '-' is standard output
    #[arg(long, value_name = "FILE", help_heading = "Rarely needed")]
    pub(crate) surface: Option<String>,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

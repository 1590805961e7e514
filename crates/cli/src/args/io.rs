//! Options of `io`.

use super::Common;
use clap::Args as ClapArgs;
use nodegauge_files::{CacheMode, IoEngine, Msync, OperationList, SizeList, SyncWrites};
use nodegauge_measure::Bytes;
use std::path::PathBuf;
use std::time::Duration;

/// `io`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct IoArgs {
    /// Folder to measure under (repeatable: several file systems by turns) [default: .]
    ///
    /// Everything happens in a fresh folder in it, which is removed at the end.
    #[arg(long, short, value_name = "DIR", help_heading = "Where")]
    pub(crate) path: Vec<PathBuf>,
    /// Remove what killed runs left under --path, then measure
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) remove_leftovers: bool,
    /// Operations: usual, all, or names such as write,read,random_read [default: IOzone's 13]
    #[arg(long, short, value_name = "NAMES", value_delimiter = ',', help_heading = "What")]
    pub(crate) operations: Vec<OperationList>,
    /// File sizes: a range in steps of two, or a list [default: 64KiB-512MiB]
    #[arg(long, value_name = "SIZES", help_heading = "What")]
    pub(crate) file_sizes: Option<SizeList>,
    /// Block sizes, likewise [default: 4KiB-16MiB]
    #[arg(long, value_name = "SIZES", help_heading = "What")]
    pub(crate) block_sizes: Option<SizeList>,
    /// No larger files than this
    #[arg(long, value_name = "SIZE", help_heading = "What")]
    pub(crate) max_size: Option<Bytes>,
    /// All 146 cells: small blocks of files beyond 16 MiB, too
    #[arg(long, conflicts_with = "quick", help_heading = "What")]
    pub(crate) full: bool,
    /// A dozen cells, cached and direct, in some seconds
    #[arg(long, conflicts_with_all = ["file_sizes", "block_sizes", "max_size"], help_heading = "What")]
    pub(crate) quick: bool,
    /// Threads, each on a file of its own (throughput mode)
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), conflicts_with = "processes", help_heading = "What")]
    pub(crate) threads: Option<u32>,
    /// Processes, each on a file of its own (throughput mode)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "What")]
    pub(crate) processes: Option<u32>,
    /// Let workers go on when the first is through
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) no_stonewall: bool,
    /// Shares of reads of random_mix, percent [default: 50]
    #[arg(long, value_name = "PERCENTS", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..=100), help_heading = "What")]
    pub(crate) mix: Vec<u8>,
    /// What the page cache may do: cached, fsync, direct, beyond (a file larger than memory)
    #[arg(long, value_name = "MODES", value_delimiter = ',', help_heading = "How")]
    pub(crate) cache: Vec<CacheMode>,
    /// Calls of the plain operations: sync, mmap, uring
    #[arg(long, value_name = "ENGINE", default_value = "sync", help_heading = "How")]
    pub(crate) engine: IoEngine,
    /// Operations under way at once, for uring
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "How")]
    pub(crate) depth: u32,
    /// When a written mapping is written out: none, async, sync
    #[arg(long, value_name = "WHEN", default_value = "none", help_heading = "Rarely needed")]
    pub(crate) msync: Msync,
    /// Open with O_SYNC (sync) or O_DSYNC (dsync)
    #[arg(long, value_name = "KIND", help_heading = "How")]
    pub(crate) sync_writes: Option<SyncWrites>,
    /// Time closing the file, too
    #[arg(long, help_heading = "How")]
    pub(crate) include_close: bool,
    /// Time writing out (fsync), too
    #[arg(long, help_heading = "How")]
    pub(crate) include_fsync: bool,
    /// Drop the file from the page cache before every operation that reads
    #[arg(long, help_heading = "How")]
    pub(crate) drop: bool,
    /// Share of the data that compresses, percent
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = clap::value_parser!(u8).range(0..=100), help_heading = "Rarely needed")]
    pub(crate) compressible: u8,
    /// Compare what is read with what was written
    #[arg(long, help_heading = "How")]
    pub(crate) verify: bool,
    /// End each operation after this time, in seconds, even if the file is not through
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, help_heading = "How long")]
    pub(crate) runtime: Option<Duration>,
    /// Run this iozone on the same cells, by turns
    #[arg(long, value_name = "PROGRAM", help_heading = "Reference programs")]
    pub(crate) iozone: Option<PathBuf>,
    /// Run this fio on the same cells, by turns
    #[arg(long, value_name = "PROGRAM", help_heading = "Reference programs")]
    pub(crate) fio: Option<PathBuf>,
    /// Print IOzone's table instead
    #[arg(long, help_heading = "Output")]
    pub(crate) iozone_text: bool,
    /// Write data for gnuplot's splot; '-' is standard output
    #[arg(long, value_name = "FILE", help_heading = "Rarely needed")]
    pub(crate) surface: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

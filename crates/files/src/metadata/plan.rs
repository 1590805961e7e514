//! Conversion of the options to cells. Requests that are known to fail are refused: missing folders, too few free
//! inodes, caches that cannot be dropped.

use super::cells::{MetadataCell, MetadataOptions, cells};
use super::reference::MetadataPrograms;
use crate::GAUGE;
use nodegauge_blocks::entries;
use nodegauge_blocks::volume::{self, Volume};
use nodegauge_blocks::{error, scratch};
use nodegauge_machine::SysRoot;
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId};
use std::time::Duration;

/// Maximum share of the free inodes, and of the free space, that a default number of files may use.
const USABLE: f64 = 0.9;

/// Planned measurement of metadata. Planning writes nothing to the file systems.
#[derive(Debug)]
pub struct MetadataPlan {
    pub(super) options: MetadataOptions,
    /// File system of each folder.
    pub(super) volumes: Vec<Volume>,
    pub(super) cells: Vec<MetadataCell>,
    /// Number of files per worker.
    pub(super) files: u64,
    pub(super) programs: MetadataPrograms,
    pub(super) notices: Vec<Notice>,
}

impl MetadataPlan {
    /// Default time budget of the whole run.
    pub const BUDGET: Duration = Duration::from_secs(10);
    /// Default number of files per worker, as in the examples of mdtest's documentation.
    pub const DEFAULT_FILES: u64 = 1000;

    /// Plans a run, including the runs of the reference `programs`. The folders are inspected but not written.
    ///
    /// # Errors
    /// Fails if a folder cannot be used, has too few inodes or too little space left, or if the caches cannot be
    /// dropped.
    pub fn new(options: MetadataOptions, programs: MetadataPrograms) -> Result<Self, Failure> {
        let root = SysRoot::live();
        let mut notices = Vec::new();
        let mut volumes = Vec::new();
        let mut files = options.files.unwrap_or(Self::DEFAULT_FILES);
        for path in &options.paths {
            scratch::check(path)?;
            let volume = Volume::from_folder(path, &root)
                .map_err(|cause| error::unwritable_error(path, cause))?;
            files = files.min(fitting_files(&options, &volume, &mut notices)?);
            if options.drop_caches && volume.is_in_memory() {
                let kind = volume.kind.as_deref().unwrap_or_default();
                let text = format!("{kind} at {path:?} keeps its entries in memory only");
                return Err(Failure::usage(text).hint("leave out --drop, or use another --path"));
            }
            notices.extend(remote(&volume));
            volumes.push(volume);
        }
        if options.drop_caches {
            entries::check_cache_drop()?;
        }
        let cells = cells(&options);
        Ok(Self { options, volumes, cells, files, programs, notices })
    }
}

/// Returns the number of files per worker for a folder: the requested or default number, or fewer if the folder has too
/// little room. Fewer files than requested are an error.
fn fitting_files(
    options: &MetadataOptions,
    volume: &Volume,
    notices: &mut Vec<Notice>,
) -> Result<u64, Failure> {
    let workers = options.workers.iter().copied().max().unwrap_or(1) as u64;
    let wanted = options.files.unwrap_or(MetadataPlan::DEFAULT_FILES);
    let unreadable = |cause| error::unwritable_error(&volume.folder, cause);
    let mut rooms = Vec::new();
    rooms.extend(volume::free_inodes(volume).map_err(unreadable)?);
    let (Bytes(free), space) = volume::writable_space(volume).map_err(unreadable)?;
    // Files without content need no space.
    rooms.extend(free.checked_div(options.bytes.0).map(|files| (files, space)));
    let Some((room, basis)) = rooms.into_iter().min() else { return Ok(wanted) };
    let all = wanted.saturating_mul(workers);
    if all <= room {
        return Ok(wanted);
    }
    let fitting = (room as f64 * USABLE / workers as f64) as u64;
    if options.files.is_some() || fitting == 0 {
        let path = &volume.folder;
        let text = format!("{path:?} has room for {room} more files ({basis}); {all} do not fit");
        return Err(Failure::missing(text)
            .hint("remove files that are not needed, use fewer --files, or another --path"));
    }
    let path = &volume.path;
    let text =
        format!("{path}: only {fitting} files per worker: room for {room} more files ({basis})");
    notices.push(Notice::new(NoticeId::Clamped, GAUGE, text));
    Ok(fitting)
}

/// Returns the notice that the client of a file server may answer requests itself; `None` for a local file system.
fn remote(volume: &Volume) -> Option<Notice> {
    let kind = volume.kind.as_deref().filter(|_| volume.is_remote())?;
    let text = format!(
        "{}: the client of {kind} keeps attributes for some seconds; stat and open of files that this node has just \
         created may not reach the server",
        volume.path
    );
    Some(Notice::new(NoticeId::Method, GAUGE, text))
}

#[cfg(test)]
mod tests {
    use super::super::DirectoryLayout;
    use super::*;
    use nodegauge_blocks::entries::EntryOperation;
    use nodegauge_measure::FailureKind;
    use std::path::Path;

    fn options(folder: &Path) -> MetadataOptions {
        MetadataOptions {
            paths: vec![folder.to_owned()],
            workers: vec![1, 2],
            fsync: true,
            ..MetadataOptions::default()
        }
    }

    fn names(plan: &MetadataPlan, cell: usize) -> Vec<String> {
        let cell = plan.cells[cell];
        cell.operations().into_iter().filter_map(|operation| cell.figure_name(operation)).collect()
    }

    #[test]
    fn single_worker_has_one_layout() {
        let folder = tempfile::tempdir().unwrap();
        let plan = MetadataPlan::new(options(folder.path()), MetadataPrograms::default()).unwrap();
        let cells: Vec<_> =
            plan.cells.iter().map(|cell| (cell.workers, cell.layout, cell.fsync)).collect();
        let [own, shared] = [DirectoryLayout::Own, DirectoryLayout::Shared];
        assert_eq!(cells[..3], [(0, own, false), (1, own, false), (1, shared, false)]);
        assert_eq!(cells[3..], [(0, own, true), (1, own, true), (1, shared, true)]);
        assert_eq!(names(&plan, 0), ["create", "stat", "open", "rename", "remove"]);
        assert_eq!(names(&plan, 3), ["create_fsync"]);
        let dropped = MetadataCell { drop_caches: true, ..plan.cells[0] };
        assert_eq!(dropped.figure_name(EntryOperation::Create), None);
        assert_eq!(dropped.figure_name(EntryOperation::Stat).as_deref(), Some("stat_first"));
    }

    #[test]
    fn planning_metadata_writes_nothing_and_refuses_impossible_requests() {
        let folder = tempfile::tempdir().unwrap();
        let usual = options(folder.path());
        let refused =
            |options| MetadataPlan::new(options, MetadataPrograms::default()).unwrap_err();
        let absent = MetadataOptions { paths: vec![folder.path().join("absent")], ..usual.clone() };
        assert_eq!(refused(absent).kind, FailureKind::Usage);
        let large = Bytes(1 << 60);
        let many = MetadataOptions { files: Some(1 << 40), bytes: large, ..usual };
        let failure = refused(many);
        assert_eq!(failure.kind, FailureKind::Missing);
        assert!(failure.to_string().contains("do not fit"), "{failure}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    fn volume(kind: &str) -> Volume {
        Volume { kind: Some(kind.to_owned()), ..Volume::default() }
    }

    #[test]
    fn remote_file_system_has_a_notice() {
        assert!(remote(&volume("nfs4")).unwrap().message.contains("the client of nfs4 keeps"));
        assert_eq!(remote(&volume("ext4")), None);
    }
}

//! Plans for the whole family of curves and for its parts `loaded` and `mix`.

use super::{Family, FamilyView, MemoryPath};
use crate::memory_chase::SetRange;
use crate::mix::{self, Mix};
use crate::{CurveSetup, memory_working_set, notice, refuse_below, too_large};
use nodegauge_chase::LOAD_BLOCK_BYTES;
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId};

/// Fails if a path has fewer threads than a chain and a load together require.
fn refuse_one_thread(setup: CurveSetup<'_>, path: &MemoryPath) -> Result<(), Failure> {
    let threads = path.places.len();
    if threads >= 2 {
        return Ok(());
    }
    let hint = match path.from {
        Some(_) => "choose NUMA nodes with at least two cores (--from)",
        None => setup.second_thread_hint(),
    };
    Err(Failure::usage(format!(
        "latency under load requires at least two threads, one that measures and one \
             that loads the memory; found {threads}"
    ))
    .hint(hint))
}

/// Plans the measurement of the whole family. The chain has the same working set as in `memory loaded`, and the arrays
/// have the same total size as in `memory mix`. If memory is insufficient, the arrays are smaller, and a notice is
/// added.
pub(crate) fn plan(setup: CurveSetup<'_>, notices: &mut Vec<Notice>) -> Result<Family, Failure> {
    let paths = MemoryPath::all(setup)?;
    for path in &paths {
        refuse_one_thread(setup, path)?;
    }
    if setup.options.program.is_some() && paths.len() > 1 {
        return Err(Failure::usage("a program can be measured on only one path")
            .hint("give one NUMA node for --from and one for --to, or leave out both"));
    }
    let count = paths.len() as u64;
    let threads = paths.iter().map(|path| path.places.len()).max().unwrap_or(1) as u64;
    let mut size = setup.largest(notices);
    if setup.options.max_working_set.is_none() {
        let of_paths =
            paths.iter().map(|path| memory_working_set(setup.site.cache_capacity(&path.cpus())));
        size = of_paths.max().unwrap_or(size);
    }
    refuse_below(Bytes(threads * LOAD_BLOCK_BYTES as u64 * 16), size)?;
    let mixes = mix::available_mixes(&setup.options.mixes, notices);
    let arrays = mixes.iter().map(|mix| mix.arrays()).max().unwrap_or(1);
    let usable = setup.usable();
    let needed = size * ((1 + arrays) * count);
    let mut array_bytes = (size.0 / threads).next_multiple_of(LOAD_BLOCK_BYTES as u64);
    if needed > usable {
        let room = (usable.0 / count).saturating_sub(size.0);
        array_bytes = (room / arrays / threads) & !(LOAD_BLOCK_BYTES as u64 - 1);
        if setup.options.max_working_set.is_some() || array_bytes < 16 * LOAD_BLOCK_BYTES as u64 {
            return Err(too_large("a chain and the arrays of the mixes", needed, usable));
        }
        let taken = Bytes(array_bytes * threads);
        let text = format!("arrays are {taken} instead of {size}, which exceeds the usable memory");
        notices.push(notice(NoticeId::Clamped, text));
    }
    let rest = Bytes((usable.0 / count).saturating_sub(array_bytes * arrays * threads));
    let chase_sets = Some(SetRange::from_setup(setup, size, rest));
    let shown: Vec<String> = paths
        .iter()
        .filter(|path| path.places.len() == 2)
        .map(|path| path.from.map_or_else(String::new, |node| format!(" of NUMA node {node}")))
        .collect();
    if let Some(of) = shown.first() {
        let text = format!(
            "only two threads{of}: one measures latency, and the other may not saturate the memory"
        );
        notices.push(notice(NoticeId::Assumed, text));
    }
    let program = setup.options.program.clone();
    Ok(Family { view: FamilyView::Curves, paths, mixes, chase_sets, array_bytes, arrays, program })
}

/// Plans the measurement of latency under load.
pub(crate) fn plan_loaded(
    setup: CurveSetup<'_>,
    notices: &mut Vec<Notice>,
) -> Result<Family, Failure> {
    let threads = setup.threads();
    let path = MemoryPath::from_placement(setup);
    refuse_one_thread(setup, &path)?;
    let loaders = threads - 1;
    let set = setup.largest(notices);
    refuse_below(Bytes(loaders * LOAD_BLOCK_BYTES as u64 * 16), set)?;
    let usable = setup.usable();
    let needed = set * 2;
    if needed > usable {
        return Err(too_large("loaded latency", needed, usable));
    }
    Ok(Family {
        view: FamilyView::Loaded,
        paths: vec![path],
        mixes: vec![Mix::Reads],
        chase_sets: Some(SetRange::from_setup(setup, set, Bytes(usable.0 - set.0))),
        array_bytes: (set.0 / loaders).next_multiple_of(LOAD_BLOCK_BYTES as u64),
        arrays: 1,
        program: None,
    })
}

/// Plans the measurement of mixes. The arrays have the requested size or, by default, four times the size of the
/// last-level caches in use, as STREAM's rule requires. If memory is insufficient, the arrays are smaller, and a notice
/// is added.
pub(crate) fn plan_mix(
    setup: CurveSetup<'_>,
    notices: &mut Vec<Notice>,
) -> Result<Family, Failure> {
    let threads = setup.threads();
    let size = setup.largest(notices);
    refuse_below(Bytes(4096 * threads), size)?;
    let arrays = Mix::ALL.iter().map(|mix| mix.arrays()).max().unwrap_or(1);
    let usable = setup.usable();
    let needed = size * arrays;
    let mut array_bytes = (size.0 / threads).next_multiple_of(4096);
    if needed > usable {
        array_bytes = (usable.0 / arrays / threads) & !4095;
        if setup.options.max_working_set.is_some() || array_bytes == 0 {
            return Err(too_large("a mix of four arrays", needed, usable));
        }
        let taken = Bytes(array_bytes * threads);
        let text = format!("arrays are {taken} instead of {size}, which exceeds the usable memory");
        notices.push(notice(NoticeId::Clamped, text));
    }
    let mixes = mix::available_mixes(Mix::ALL, notices);
    let paths = vec![MemoryPath::from_placement(setup)];
    let view = FamilyView::Mix;
    Ok(Family { view, paths, mixes, chase_sets: None, array_bytes, arrays, program: None })
}

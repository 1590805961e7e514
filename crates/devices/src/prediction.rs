//! Prediction of the time of a run on devices, before the run allocates memory.
//!
//! Only steps whose time depends on the sizes that the user chooses are predicted. The time for opening a driver and
//! compiling loops cannot be predicted; if it is long, the run ends later. For copies, and for arrays of a device that
//! uses the host's memory, the prediction uses a measurement of the host's memory; for arrays in device memory, it uses
//! the theoretical bandwidth.

use crate::info::DeviceInfo;
use nodegauge_arena::{MemoryRates, RequestedPages};
use nodegauge_gauge::MeasuredNode;
use nodegauge_kernels::size::MIN_CACHE_MULTIPLE;
use nodegauge_kernels::{Element, Kernel};
use nodegauge_machine::CpuId;
use nodegauge_machine::devices::catalog;
use nodegauge_measure::record::TheoreticalValue;
use nodegauge_measure::schedule::{Predictable, PredictedTime, RepetitionPolicy, policy};
use nodegauge_measure::{Bytes, BytesPerSec, Failure};
use nodegauge_placement::{MemoryPolicy, pairs};
use std::time::Duration;

/// Number of warm-up rounds.
const WARM_UP: u32 = 1;

/// Returns the predicted time of the set-up and of the rounds that a repetition policy requires.
fn rounds(set_up: Duration, round: Duration, policy: &RepetitionPolicy) -> PredictedTime {
    let likely = WARM_UP + policy.sufficient_rounds() as u32;
    PredictedTime { min: set_up + (WARM_UP + 1) * round, likely: set_up + likely * round }
}

/// Measures the rates of the host's memory with one worker on each of these CPUs. The workers use at most `max` bytes.
pub(crate) fn measure_host_rates(cpus: &[CpuId], max: Bytes) -> Result<MemoryRates, Failure> {
    let places: Vec<Vec<CpuId>> = cpus.iter().map(|cpu| vec![*cpu]).collect();
    let policy = MemoryPolicy::default();
    Ok(MemoryRates::probe(&places, RequestedPages::Transparent, &policy, max)?)
}

/// Rates at which a device writes new and existing arrays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ArrayRates {
    first_touch: BytesPerSec,
    rewrite: BytesPerSec,
}

impl ArrayRates {
    /// Returns the rates of a device; `None` if they cannot be predicted. At most `max` bytes of the host's memory are
    /// touched.
    pub(crate) fn for_device(
        site: &MeasuredNode,
        info: &DeviceInfo,
        max: Bytes,
    ) -> Result<Option<Self>, Failure> {
        if info.shares_host_memory {
            let rates = measure_host_rates(&pairs::one_cpu_per_core(&site.topology), max)?;
            return Ok(Some(Self { first_touch: rates.first_touch, rewrite: rates.rewrite }));
        }
        let sheet = || Some(catalog::find(&info.name)?.bandwidth());
        let theoretical: Option<TheoreticalValue> = info.theoretical.clone().or_else(sheet);
        Ok(theoretical.map(|figure| {
            let rate = BytesPerSec(figure.value);
            Self { first_touch: rate, rewrite: rate }
        }))
    }
}

/// Arrays of one element type that a run will allocate on a device.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedArrays {
    /// Index of the device.
    pub device: usize,
    pub element: Element,
    /// Number of elements of an array.
    pub elements: u64,
    /// Size of an array divided by the size of the device's last-level cache.
    pub times_llc: Option<f64>,
    /// Rates of the device; `None` if they cannot be predicted.
    pub rates: Option<ArrayRates>,
}

/// Arrays of a run of `device stream`, for the prediction of its time.
pub(crate) struct PredictedArrays<'a> {
    pub cells: &'a mut [PlannedArrays],
    /// Number of arrays of each cell.
    pub arrays: usize,
    pub kernels: &'a [Kernel],
    /// True if the user chose the length of the arrays.
    pub is_given: bool,
}

impl PredictedArrays<'_> {
    fn cell_time(&self, cell: &PlannedArrays) -> PredictedTime {
        let Some(rates) = cell.rates else { return PredictedTime::default() };
        let all = Bytes(self.arrays as u64 * cell.elements * cell.element.bytes());
        let counted: u64 =
            self.kernels.iter().map(|kernel| kernel.counted_bytes(cell.element)).sum();
        let round = (Bytes(counted * cell.elements) / rates.rewrite).duration();
        // The arrays are filled before the passes and checked after them.
        let set_up = (all / rates.first_touch).duration() + (all / rates.rewrite).duration();
        rounds(set_up, round, &policy::DEVICES)
    }
}

impl Predictable for PredictedArrays<'_> {
    fn predicted(&self) -> PredictedTime {
        self.cells.iter().map(|cell| self.cell_time(cell)).sum()
    }

    /// Halves the length of all arrays except those that would become too small for the size rule. Changes nothing if
    /// the user chose the length.
    fn shorten(&mut self) -> bool {
        let mut is_shorter = false;
        for cell in self.cells.iter_mut().filter(|_| !self.is_given) {
            let half = cell.times_llc.map(|times| times / 2.0);
            if half.is_some_and(|times| times >= MIN_CACHE_MULTIPLE) {
                cell.elements /= 2;
                cell.times_llc = half;
                is_shorter = true;
            }
        }
        is_shorter
    }

    fn shortening_options(&self) -> &str {
        "smaller arrays (--size)"
    }
}

/// Copies of a run of `device links`, for the prediction of its time.
pub(crate) struct PredictedCopies {
    /// Sizes of the copies, ascending.
    pub sizes: Vec<u64>,
    /// Number of devices.
    pub devices: usize,
    /// Number of the host's NUMA nodes.
    pub nodes: usize,
    /// True if the user chose the sizes.
    pub is_given: bool,
    pub rates: MemoryRates,
}

impl PredictedCopies {
    /// Number of host buffers per device and NUMA node: one in pageable memory and two in pinned memory.
    const BUFFERS: u64 = 3;
    /// Number of copies per size: with pageable and pinned memory, to the device, back, and in both directions
    /// simultaneously.
    const COPIES: u64 = 6;
}

impl Predictable for PredictedCopies {
    fn predicted(&self) -> PredictedTime {
        let largest = self.sizes.last().copied().unwrap_or_default();
        let times = (self.devices * self.nodes) as u64;
        let buffers = self.rates.touch_time(Bytes(times * Self::BUFFERS * largest));
        let copied: u64 = self.sizes.iter().sum();
        let round = self.rates.rewrite_time(Bytes(times * Self::COPIES * copied));
        rounds(buffers, round, &policy::LINKS)
    }

    /// Leaves out the largest copies. Changes nothing if the user chose the sizes.
    fn shorten(&mut self) -> bool {
        let can = !self.is_given && self.sizes.len() > 1;
        if can {
            self.sizes.pop();
        }
        can
    }

    fn shortening_options(&self) -> &str {
        "smaller copies (--sizes)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::DEFAULT_COPY_SIZES;
    use nodegauge_kernels::STREAM;
    use nodegauge_measure::Seconds;
    use nodegauge_measure::schedule::{Budget, RunLimits};

    const SECOND: Duration = Duration::from_secs(1);
    const GB: BytesPerSec = BytesPerSec(1e9);

    fn asked(seconds: u32) -> RunLimits {
        RunLimits::from_budget(Budget { time: seconds * SECOND, is_set_by_user: true }, None)
    }

    /// Returns the budget that a hint recommends.
    fn hinted(refused: &Failure) -> u32 {
        let hint = refused.hint.as_deref().unwrap();
        let (_, after) = hint.split_once("--budget ").unwrap();
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    }

    fn arrays(elements: u64, times_llc: f64) -> PlannedArrays {
        let rates = Some(ArrayRates { first_touch: GB, rewrite: GB });
        let times_llc = Some(times_llc);
        PlannedArrays { device: 0, element: Element::F64, elements, times_llc, rates }
    }

    #[test]
    fn arrays_are_halved_to_the_minimum_and_then_refused() {
        // A set of arrays has 2.4 GB, and a pass counts 8 GB.
        let mut cells = [arrays(100_000_000, 32.0)];
        let mut run =
            PredictedArrays { cells: &mut cells, arrays: 3, kernels: &STREAM, is_given: false };
        let refused = asked(1).admit(&mut run).unwrap_err();
        assert_eq!(run.cells[0].elements, 12_500_000);
        assert_eq!(run.cells[0].times_llc, Some(4.0));
        asked(hinted(&refused)).admit(&mut run).unwrap();
        let mut given = [arrays(100_000_000, 32.0)];
        let mut as_given =
            PredictedArrays { cells: &mut given, arrays: 3, kernels: &STREAM, is_given: true };
        let refused_as_given = asked(5).admit(&mut as_given).unwrap_err();
        assert_eq!(as_given.cells[0].elements, 100_000_000);
        asked(hinted(&refused_as_given)).admit(&mut as_given).unwrap();
    }

    #[test]
    fn device_with_unknown_rates_is_not_refused() {
        let mut cells = [PlannedArrays { rates: None, ..arrays(1 << 40, 4.0) }];
        let mut run =
            PredictedArrays { cells: &mut cells, arrays: 3, kernels: &STREAM, is_given: true };
        asked(1).admit(&mut run).unwrap();
    }

    #[test]
    fn largest_copies_are_omitted_unless_given_by_the_user() {
        let rates = MemoryRates { first_touch: GB, rewrite: GB, load: Seconds(1e-7) };
        let copies = |is_given| PredictedCopies {
            sizes: DEFAULT_COPY_SIZES.to_vec(),
            devices: 1,
            nodes: 1,
            is_given,
            rates,
        };
        let mut shorter = copies(false);
        asked(3).admit(&mut shorter).unwrap();
        assert!(shorter.sizes.len() < DEFAULT_COPY_SIZES.len() && shorter.sizes.len() > 1);
        let refused = asked(3).admit(&mut copies(true)).unwrap_err();
        asked(hinted(&refused)).admit(&mut copies(true)).unwrap();
    }
}

//! Readers for the output of programs that nodegauge neither runs nor replaces. The reader of each program has its own
//! file. The figures belong to one of the gauges below, which show and compare figures but do not measure.
#![forbid(unsafe_code)]

mod core_to_core;
mod elbencho;
mod imb;
mod ior;
mod likwid_bench;
mod mbw;
mod mlc;
mod multichase;
mod nccl;
mod perfspect;
mod perftest;
mod rocm_bandwidth;
mod sysbench;
mod tinymembench;
mod transferbench;

use nodegauge_gauge::outputs::{self, OutputConfig, OutputTest};
use nodegauge_gauge::readers::Reader;
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Detail, Gauge};
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::Record;

/// Gauge of figures that other programs print.
pub struct OutputGauge {
    of: OutputTest,
    tests: &'static [&'static str],
    readers: &'static [&'static dyn Reader],
}

/// Gauge for figures of memory and caches.
pub static MEMORY: OutputGauge = OutputGauge {
    of: outputs::MEMORY,
    tests: &[outputs::MEMORY.test],
    readers: &[
        &likwid_bench::LikwidBench,
        &mlc::Mlc,
        &multichase::Multichase,
        &mbw::Mbw,
        &tinymembench::Tinymembench,
        &sysbench::Sysbench,
        &core_to_core::CoreToCore,
        &perfspect::PerfSpect,
    ],
};

/// Gauge for figures of floating-point operations. The readers belong to the gauge of HPL.
pub static COMPUTE: OutputGauge =
    OutputGauge { of: outputs::COMPUTE, tests: &[outputs::COMPUTE.test], readers: &[] };

/// Gauge for figures of MPI messages.
pub static MESSAGES: OutputGauge =
    OutputGauge { of: outputs::MESSAGES, tests: &[outputs::MESSAGES.test], readers: &[&imb::Imb] };

/// Gauge for figures of files and their metadata. The reader of mdtest belongs to the gauge of files.
pub static FILES: OutputGauge = OutputGauge {
    of: outputs::FILES,
    tests: &[outputs::FILES.test],
    readers: &[&ior::Ior, &elbencho::Elbencho],
};

/// Gauge for figures of devices and their links.
pub static DEVICE: OutputGauge = OutputGauge {
    of: outputs::DEVICE,
    tests: &[outputs::DEVICE.test],
    readers: &[&rocm_bandwidth::RocmBandwidth, &transferbench::TransferBench],
};

/// Gauge for figures of networks between nodes or devices.
pub static NETWORK: OutputGauge = OutputGauge {
    of: outputs::NETWORK,
    tests: &[outputs::NETWORK.test],
    readers: &[&nccl::Nccl, &perftest::Perftest],
};

impl Gauge for OutputGauge {
    fn name(&self) -> &'static str {
        self.of.gauge
    }

    fn figure_kinds(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::from_config::<OutputConfig>(self.of.gauge, self.tests)]
    }

    fn readers(&self) -> Vec<&dyn Reader> {
        self.readers.to_vec()
    }

    fn conclusion(&self, record: &Record) -> Option<String> {
        outputs::conclusion(record, self.of)
    }

    fn view(&self, record: &Record, _: Detail) -> Vec<Section> {
        outputs::section(record, self.of).into_iter().collect()
    }
}

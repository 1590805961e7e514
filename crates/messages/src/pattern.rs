//! The patterns: what each is called, what it counts, and which sizes it takes by custom.

use std::fmt;
use std::str::FromStr;

/// A message pattern of the OSU micro-benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// Half the time of a message there and back.
    Latency,
    /// Windows of messages one way, each answered by four bytes.
    Bw,
    /// Windows of messages both ways at once.
    Bibw,
    /// Latency of several pairs at once.
    MultiLat,
    /// Bandwidth and message rate of several pairs at once.
    MbwMr,
    /// Latency between threads of two processes.
    LatencyMt,
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast` from rank 0.
    Bcast,
    /// `MPI_Allreduce`: the sum of single-precision numbers.
    Allreduce,
    /// `MPI_Allgather`.
    Allgather,
    /// `MPI_Alltoall`.
    Alltoall,
}

use Pattern::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Bibw, Bw, Latency, LatencyMt, MbwMr, MultiLat,
};

/// Messages above this are large: fewer warm-ups, by the custom of the OSU micro-benchmarks.
pub const LARGE: u64 = 8192;

impl Pattern {
    /// All, in the order of running.
    pub const ALL: [Self; 11] = [
        Latency, Bw, Bibw, MultiLat, MbwMr, LatencyMt, Barrier, Bcast, Allreduce, Allgather,
        Alltoall,
    ];
    /// Those between pairs.
    pub const POINT_TO_POINT: [Self; 6] = [Latency, Bw, Bibw, MultiLat, MbwMr, LatencyMt];

    /// As options, records and the probe name it.
    pub fn name(self) -> &'static str {
        match self {
            Latency => "latency",
            Bw => "bw",
            Bibw => "bibw",
            MultiLat => "multi_lat",
            MbwMr => "mbw_mr",
            LatencyMt => "latency_mt",
            Barrier => "barrier",
            Bcast => "bcast",
            Allreduce => "allreduce",
            Allgather => "allgather",
            Alltoall => "alltoall",
        }
    }

    /// Whether every rank takes part in one operation.
    pub fn is_collective(self) -> bool {
        self >= Barrier
    }

    /// Whether its figure is a rate; else a time.
    pub fn is_rate(self) -> bool {
        matches!(self, Bw | Bibw | MbwMr)
    }

    /// Whether exactly two ranks play it.
    pub fn is_of_one_pair(self) -> bool {
        matches!(self, Latency | Bw | Bibw | LatencyMt)
    }

    /// The unit of its figure.
    pub fn unit(self) -> nodegauge_measure::Unit {
        if self.is_rate() {
            nodegauge_measure::Unit::BytesPerSecond
        } else {
            nodegauge_measure::Unit::Seconds
        }
    }

    /// Whether a size means something: a rate of nothing does not, a sum of half a number neither.
    pub fn takes(self, bytes: u64) -> bool {
        match self {
            Latency | MultiLat | LatencyMt => true,
            Bw | Bibw | MbwMr => bytes > 0,
            Barrier => bytes == 0,
            Bcast | Allgather | Alltoall => bytes > 0 && bytes <= 1 << 20,
            Allreduce => bytes > 0 && bytes <= 1 << 20 && bytes.is_multiple_of(4),
        }
    }

    /// Warm-up operations (windows, for rates) by custom.
    pub fn warm_up(self, bytes: u64) -> u64 {
        match (self.is_rate(), bytes > LARGE) {
            (true, true) => 2,
            (true, false) | (false, true) => 10,
            (false, false) => 100,
        }
    }

    /// The figure of an operation that takes `seconds`: itself, or bytes per second of `pairs`
    /// pairs with windows of `window` messages.
    pub fn figure(self, seconds: f64, bytes: u64, window: u32, pairs: u32) -> f64 {
        let messages = f64::from(window) * f64::from(pairs);
        match self {
            Bw | MbwMr => bytes as f64 * messages / seconds,
            Bibw => 2.0 * bytes as f64 * messages / seconds,
            _ => seconds,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|pattern| pattern.name() == text).ok_or_else(|| {
            format!("unknown pattern {text:?}: expected {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// Sizes by custom: 0 and the powers of two to 4 MiB.
pub fn usual_sizes() -> Vec<u64> {
    std::iter::once(0).chain((0..=22).map(|power| 1 << power)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_unknown_ones_refused() {
        for pattern in Pattern::ALL {
            assert_eq!(pattern.name().parse(), Ok(pattern));
        }
        assert!("bandwidth".parse::<Pattern>().unwrap_err().contains("latency, bw, bibw"));
    }

    #[test]
    fn rates_count_windows_pairs_and_both_ways() {
        // 64 messages of 1 MiB in 1 ms.
        let bytes = 1 << 20;
        let one = (64u64 << 20) as f64 / 1e-3;
        assert_eq!(Bw.figure(1e-3, bytes, 64, 1), one);
        assert_eq!(Bibw.figure(1e-3, bytes, 64, 1), 2.0 * one);
        assert_eq!(MbwMr.figure(1e-3, bytes, 64, 4), 4.0 * one);
        assert_eq!(MultiLat.figure(1e-3, bytes, 64, 4), 1e-3);
    }

    #[test]
    fn nothing_is_a_size_for_times_only() {
        let of_nothing: Vec<_> = Pattern::ALL.into_iter().filter(|p| p.takes(0)).collect();
        assert_eq!(of_nothing, [Latency, MultiLat, LatencyMt, Barrier]);
        assert!(Allreduce.takes(4) && !Allreduce.takes(2) && !Bcast.takes(1 << 21));
        assert_eq!(usual_sizes().len(), 24);
    }
}

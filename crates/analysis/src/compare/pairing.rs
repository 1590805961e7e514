//! Pairing of the measurements of different records by gauge, test, name, unit and size. If a record has several
//! measurements for which all of these are equal, they are paired by the configuration keys in which they differ: first
//! keys with the role `Identity`, then keys with the role `Setting`. Observations are not used.

use crate::expect;
use crate::identity::{
    DistinguishingValues, FigureGroupKey, NumberedMeasurement, distinguishing_keys,
    figure_group_key, in_words, key_values, keyed_measurements, value_text,
};
use nodegauge_measure::Bytes;
use nodegauge_measure::keys::{Registry, scalar_text};
use nodegauge_measure::record::{Category, Measurement, Record};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};

/// Measurement with its runs, by side (A and B, or each of several runs).
#[derive(Debug, Clone)]
pub(crate) struct PairedMeasurement<'a> {
    pub at: Map<String, Value>,
    /// Text for the keys in [`PairedMeasurement::at`], which is appended to the name: ` 8 B`, `, threads 4`.
    pub keys_in_words: String,
    /// Measurements by side: of A and B, or of each of several runs. Each has the index of its run.
    pub sides: Vec<Vec<NumberedMeasurement<'a>>>,
}

impl<'a> PairedMeasurement<'a> {
    /// Returns the title of the measurement: `triad`, `latency 8 B`, `triad, threads 4`, `8 KiB, pages thp`.
    pub fn title(&self) -> String {
        format!("{}{}", self.first().name_in_words(), self.keys_in_words)
    }

    /// Returns the first of the paired measurements.
    pub fn first(&self) -> &'a Measurement {
        self.sides.iter().flatten().next().expect("every point has a measurement").1
    }

    fn unpaired(&self, registry: &Registry) -> UnpairedFigure {
        let m = self.first();
        UnpairedFigure {
            gauge: m.gauge.clone(),
            test: m.test.clone(),
            name: m.name.clone(),
            without_mpi: m.category == Category::Transport,
            size: expect::figure_size(m, registry),
            title: self.title(),
        }
    }
}

/// Measurement that only A or only B has. JSON contains only its title.
#[derive(Debug, Clone, PartialEq)]
pub struct UnpairedFigure {
    pub(super) gauge: String,
    pub(super) test: String,
    pub(super) name: String,
    /// True if the measurement is of messages over nodegauge's own transport.
    pub(super) without_mpi: bool,
    pub(super) size: Option<Bytes>,
    /// Title of the measurement: `triad`, `latency 8 B`.
    pub title: String,
}

impl UnpairedFigure {
    /// True if the measurement is of messages over nodegauge's own transport, and `others` contain messages of an MPI
    /// library.
    pub(super) fn is_compared_with_mpi(&self, others: &[Self]) -> bool {
        self.without_mpi
            && others.iter().any(|other| !other.without_mpi && other.gauge == self.gauge)
    }
}

impl Serialize for UnpairedFigure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.title)
    }
}

/// Pairs the measurements of A and B. Returns the pairs, the measurements that only A has, and those that only B has.
pub(crate) fn pair<'a>(
    a: &'a [Record],
    b: &'a [Record],
    registry: &Registry,
) -> (Vec<PairedMeasurement<'a>>, [Vec<UnpairedFigure>; 2]) {
    let mut both = Vec::new();
    let mut only = [Vec::new(), Vec::new()];
    for point in paired_measurements(&[a, b], registry) {
        match point.sides.iter().position(Vec::is_empty) {
            None => both.push(point),
            Some(lacking) => only[1 - lacking].push(point.unpaired(registry)),
        }
    }
    (both, only)
}

/// Combines the corresponding measurements of all sides.
pub(super) fn paired_measurements<'a>(
    sides: &[&'a [Record]],
    registry: &Registry,
) -> Vec<PairedMeasurement<'a>> {
    let mut points = Vec::new();
    for (group, of_sides) in groups(sides) {
        let all: Vec<&Vec<&Measurement>> = of_sides.iter().flatten().collect();
        let keys = distinguishing_keys(group, &all, registry);
        // Measurements by identity, in order of first appearance.
        let mut found: Vec<(DistinguishingValues, Vec<Vec<NumberedMeasurement<'a>>>)> = Vec::new();
        let mut indices: HashMap<DistinguishingValues, usize> = HashMap::new();
        for (side, measurements) in of_sides.into_iter().enumerate() {
            let runs = measurements.into_iter().enumerate();
            for (at, m) in
                runs.flat_map(|(run, finish_run)| keyed_measurements(run, finish_run, &keys))
            {
                let index = *indices.entry(at.clone()).or_insert_with(|| {
                    found.push((at, vec![Vec::new(); sides.len()]));
                    found.len() - 1
                });
                found[index].1[side].push(m);
            }
        }
        for (identity, of_identity) in found {
            let first = of_identity.iter().flatten().next();
            let at = first.map(|(_, m)| key_values(&identity, m)).unwrap_or_default();
            points.push(PairedMeasurement {
                keys_in_words: in_words(group, &at, registry),
                at,
                sides: of_identity,
            });
        }
    }
    points
}

/// Measurements of one group, by side and by run.
type SideMeasurements<'a> = Vec<Vec<Vec<&'a Measurement>>>;

/// Returns the measurements by group, in order of first appearance of the groups.
fn groups<'a>(sides: &[&'a [Record]]) -> Vec<(FigureGroupKey<'a>, SideMeasurements<'a>)> {
    let mut groups: Vec<(FigureGroupKey<'a>, SideMeasurements<'a>)> = Vec::new();
    let mut indices: BTreeMap<FigureGroupKey<'a>, usize> = BTreeMap::new();
    for (side, runs) in sides.iter().enumerate() {
        for (run, record) in runs.iter().enumerate() {
            for m in own(record) {
                let index = *indices.entry(figure_group_key(m)).or_insert_with(|| {
                    let none =
                        sides.iter().map(|of_side| vec![Vec::new(); of_side.len()]).collect();
                    groups.push((figure_group_key(m), none));
                    groups.len() - 1
                });
                groups[index].1[side][run].push(m);
            }
        }
    }
    groups
}

/// Returns the figures of a record except for published ones.
fn own(record: &Record) -> impl Iterator<Item = &Measurement> {
    record.measurements.iter().filter(|m| !m.is_published())
}

/// Returns the measurement of another run that corresponds to `point`.
pub(super) fn corresponding_measurement<'a>(
    point: &PairedMeasurement<'_>,
    run: &'a Record,
) -> Option<&'a Measurement> {
    let first = point.first();
    own(run).find(|m| {
        figure_group_key(m) == figure_group_key(first)
            && m.category == first.category
            && point.at.iter().all(|(key, value)| value_text(m, key) == scalar_text(value))
    })
}

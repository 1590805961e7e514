//! Which measurement of one record is the same as which of another: by gauge, test, name, unit, the
//! sizes that it is quoted at, and, where a record has several of these, by the configuration in which
//! they differ: what was measured first, then how it was asked to be. What was found out pairs nothing.

use crate::expect;
use crate::identity::{
    Group, Numbered, Place, entries, entry, group_of, in_words, telling, values,
};
use nodegauge_measure::Bytes;
use nodegauge_measure::keys::{Registry, scalar};
use nodegauge_measure::record::{Category, Measurement, Record};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// The same measurement in the runs of the sides that have it.
#[derive(Debug, Clone)]
pub(crate) struct Point<'a> {
    pub at: Map<String, Value>,
    /// [`Point::at`] in words, behind the name: ` 8 B`, `, threads 4`.
    pub place: String,
    /// Of each side, in their order.
    pub sides: Vec<Vec<Numbered<'a>>>,
}

impl<'a> Point<'a> {
    /// `triad`, `latency 8 B`, `triad, threads 4`, `8 KiB, pages thp`.
    pub fn title(&self) -> String {
        format!("{}{}", self.first().name_in_words(), self.place)
    }

    /// One of its measurements, of the first side that has any.
    pub fn first(&self) -> &'a Measurement {
        self.sides.iter().flatten().next().expect("a point has a measurement").1
    }

    fn unpaired(&self, registry: &Registry) -> Unpaired {
        let m = self.first();
        Unpaired {
            gauge: m.gauge.clone(),
            test: m.test.clone(),
            name: m.name.clone(),
            without_mpi: m.category == Category::Transport,
            size: expect::size_of(m, registry),
            title: self.title(),
        }
    }
}

/// A measurement that one side alone has. In JSON its title.
#[derive(Debug, Clone, PartialEq)]
pub struct Unpaired {
    pub(super) gauge: String,
    pub(super) test: String,
    pub(super) name: String,
    /// Whether it is of messages over the own transport.
    pub(super) without_mpi: bool,
    pub(super) size: Option<Bytes>,
    /// What it is called: `triad`, `latency 8 B`.
    pub title: String,
}

impl Serialize for Unpaired {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.title)
    }
}

/// Pairs the measurements of two sides; and those that one side alone has.
pub(crate) fn pair<'a>(
    a: &'a [Record],
    b: &'a [Record],
    registry: &Registry,
) -> (Vec<Point<'a>>, [Vec<Unpaired>; 2]) {
    let (mut both, mut only) = (Vec::new(), [Vec::new(), Vec::new()]);
    for point in points(&[a, b], registry) {
        match point.sides.iter().position(Vec::is_empty) {
            None => both.push(point),
            Some(lacking) => only[1 - lacking].push(point.unpaired(registry)),
        }
    }
    (both, only)
}

/// The measurements of some sides, the same ones of all sides together.
pub(super) fn points<'a>(sides: &[&'a [Record]], registry: &Registry) -> Vec<Point<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for m in sides.iter().copied().flatten().flat_map(own) {
        if !groups.contains(&group_of(m)) {
            groups.push(group_of(m));
        }
    }
    let mut points = Vec::new();
    for group in groups {
        let of = |record: &'a Record| own(record).filter(|m| group_of(m) == group).collect();
        let of_sides: Vec<Vec<Vec<&Measurement>>> =
            sides.iter().map(|side| side.iter().map(of).collect()).collect();
        let all: Vec<&Vec<&Measurement>> = of_sides.iter().flatten().collect();
        let keys = telling(group, &all, registry);
        let numbered = |side: Vec<Vec<&'a Measurement>>| {
            let numbered = side.into_iter().enumerate();
            numbered.flat_map(|(run, all)| entries(run, all, &keys)).collect::<Vec<_>>()
        };
        let of_sides: Vec<Vec<(Place, Numbered<'a>)>> =
            of_sides.into_iter().map(numbered).collect();
        let mut places: Vec<&Place> = Vec::new();
        for (at, _) in of_sides.iter().flatten() {
            if !places.contains(&at) {
                places.push(at);
            }
        }
        for place in places {
            let here = |entries: &Vec<(Place, Numbered<'a>)>| -> Vec<Numbered<'a>> {
                entries.iter().filter(|(at, _)| at == place).map(|(_, m)| *m).collect()
            };
            let sides: Vec<Vec<Numbered<'a>>> = of_sides.iter().map(here).collect();
            let first = sides.iter().flatten().next();
            let at = first.map(|(_, m)| values(place, m)).unwrap_or_default();
            points.push(Point { place: in_words(group, &at, registry), at, sides });
        }
    }
    points
}

/// What a run measured itself.
fn own(record: &Record) -> impl Iterator<Item = &Measurement> {
    record.measurements.iter().filter(|m| !m.is_published())
}

/// The measurement of another run at the place of a point.
pub(super) fn like<'a>(point: &Point<'_>, run: &'a Record) -> Option<&'a Measurement> {
    let first = point.first();
    own(run).find(|m| {
        group_of(m) == group_of(first)
            && m.category == first.category
            && point.at.iter().all(|(key, value)| entry(m, key) == scalar(value))
    })
}

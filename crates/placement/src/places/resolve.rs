//! Conversion of a parsed `OMP_PLACES` into CPUs.

use super::{ListEntry, Place, PlaceExpr, PlaceName, PlacesSpec};
use crate::cpus::{self, CpuLookup};
use crate::error::PlacementError;
use crate::grammar::MAX_COUNT;
use nodegauge_machine::{CpuId, Topology};
use std::collections::BTreeSet;
use std::fmt;

/// Maximum number of CPUs in all places together (1024 places of 1024 CPUs). A larger number is most likely a typing
/// error.
const BUDGET: usize = 1 << 20;

impl PlacesSpec {
    /// Returns the places on a machine, in order. Abstract places contain only CPUs that this process may use.
    ///
    /// # Errors
    /// Fails when an explicit place contains a CPU that does not exist or that this process may not use. Also fails
    /// when the machine has fewer objects than requested, or when an exclusion has no effect or removes everything.
    pub fn resolve(&self, topology: &Topology) -> Result<Vec<Place>, PlacementError> {
        match self {
            Self::Abstract { name, count } => self.objects(topology, *name, *count),
            Self::Explicit(items) => {
                Resolver { spec: self, cpus: CpuLookup::new(topology), budget: BUDGET }.list(items)
            }
        }
    }

    fn objects(
        &self,
        topology: &Topology,
        name: PlaceName,
        count: Option<u32>,
    ) -> Result<Vec<Place>, PlacementError> {
        let missing = |what: &str| {
            Err(self
                .refusal(format!("this machine has no {what}"))
                .hint("use cores, threads or sockets"))
        };
        let groups = match name {
            PlaceName::Threads => {
                topology.allowed_threads().map(|thread| vec![thread.cpu]).collect::<Vec<_>>()
            }
            PlaceName::Cores => cpus::cpus_by_object(topology, |thread| Some(thread.core)),
            PlaceName::Sockets => cpus::cpus_by_object(topology, |thread| Some(thread.socket)),
            PlaceName::LlCaches if topology.llcs.is_empty() => {
                return missing("cache beyond level 1");
            }
            PlaceName::LlCaches => cpus::cpus_by_object(topology, |thread| thread.llc),
            PlaceName::NumaDomains if topology.nodes.is_empty() => return missing("NUMA node"),
            PlaceName::NumaDomains => cpus::cpus_by_object(topology, |thread| thread.node),
        };
        let mut places: Vec<Place> = groups.into_iter().filter_map(Place::new).collect();
        if places.is_empty() {
            return Err(PlacementError::no_cpus());
        }
        match count {
            Some(asked) if asked as usize > places.len() => {
                let found = places.len();
                return Err(self
                    .refusal(format!("this process may use {found} {name}, not {asked}"))
                    .hint(format!("e.g. --places '{name}({found})'")));
            }
            Some(asked) => places.truncate(asked as usize),
            None => {}
        }
        Ok(places)
    }

    fn refusal(&self, problem: impl fmt::Display) -> PlacementError {
        PlacementError::new(format!("places \"{self}\": {problem}"))
    }
}

struct Resolver<'a> {
    spec: &'a PlacesSpec,
    cpus: CpuLookup<'a>,
    budget: usize,
}

impl Resolver<'_> {
    fn list(mut self, items: &[ListEntry<PlaceExpr>]) -> Result<Vec<Place>, PlacementError> {
        let mut places: Vec<Place> = Vec::new();
        for item in items {
            match item {
                ListEntry::Include { first, count, stride } => {
                    let base = self.numbers(first)?;
                    for copy in 0..i64::from(*count) {
                        let shift = copy * i64::from(*stride);
                        places.push(self.place(&base, shift)?);
                    }
                }
                ListEntry::Exclude(place) => {
                    let base = self.numbers(place)?;
                    let excluded = self.place(&base, 0)?;
                    let before = places.len();
                    places.retain(|known| *known != excluded);
                    if places.len() == before {
                        return Err(self.nothing_excluded(place));
                    }
                }
            }
            if places.len() > MAX_COUNT as usize {
                return Err(self.too_many());
            }
        }
        if places.is_empty() {
            return Err(self.nothing_left());
        }
        Ok(places)
    }

    /// Returns the CPU numbers of a place before they are checked against the machine.
    fn numbers(&mut self, place: &PlaceExpr) -> Result<BTreeSet<i64>, PlacementError> {
        let items = match place {
            PlaceExpr::Cpu(cpu) => return Ok(BTreeSet::from([i64::from(*cpu)])),
            PlaceExpr::Set(items) => items,
        };
        let mut numbers = BTreeSet::new();
        for item in items {
            if let ListEntry::Include { first, count, stride } = item {
                self.spend(*count as usize)?;
                numbers.extend(
                    (0..i64::from(*count)).map(|k| i64::from(*first) + k * i64::from(*stride)),
                );
            }
        }
        // Within braces, the order of entries does not matter, as in libgomp.
        for item in items {
            if let ListEntry::Exclude(cpu) = item
                && !numbers.remove(&i64::from(*cpu))
            {
                return Err(self.nothing_excluded(cpu));
            }
        }
        Ok(numbers)
    }

    fn place(&mut self, numbers: &BTreeSet<i64>, shift: i64) -> Result<Place, PlacementError> {
        self.spend(numbers.len())?;
        let cpus: Result<Vec<CpuId>, _> =
            numbers.iter().map(|number| self.cpus.get(number + shift)).collect();
        Place::new(cpus?).ok_or_else(|| self.nothing_left())
    }

    fn spend(&mut self, cpus: usize) -> Result<(), PlacementError> {
        self.budget = self.budget.checked_sub(cpus).ok_or_else(|| self.too_many())?;
        Ok(())
    }

    fn nothing_left(&self) -> PlacementError {
        self.spec.refusal("no CPU is left after the exclusions")
    }

    fn too_many(&self) -> PlacementError {
        self.spec
            .refusal(format!("more than {MAX_COUNT} places, or more than {BUDGET} CPUs in total"))
    }

    fn nothing_excluded(&self, excluded: &dyn std::fmt::Display) -> PlacementError {
        self.spec
            .refusal(format!("!{excluded} excludes nothing"))
            .hint("an exclusion must follow the place that it removes, or be in the same braces as the CPU that it removes")
    }
}

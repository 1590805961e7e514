//! Choice of cores by their speed: the grammar of `--cores`, and the topology restricted to the chosen cores.
//!
//! The module performs no system calls.

use crate::cpus;
use crate::error::PlacementError;
use nodegauge_machine::Topology;
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::quantity::count_in_words;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

const EXAMPLE: &str = "--cores fast, --cores all or --cores slow";

/// Choice that uses cores of every class.
const ALL: &str = "all";
/// Choice of the fastest class, which every machine has.
const FAST: &str = "fast";

/// Class of cores that threads use: `fast`, `all`, the name of another class, or the name of a design such as
/// `IntelAtom`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreChoice(String);

/// Topology restricted to the chosen cores.
pub(crate) struct ChosenCores<'a> {
    /// Topology in which only the chosen cores may be used, and all of them count as equally fast.
    pub topology: Cow<'a, Topology>,
    /// Notice for the user if other cores than the requested ones are used.
    pub notice: Option<String>,
}

impl CoreChoice {
    /// Returns the topology with the chosen cores. The choice `fast` means the fastest class of which this process may
    /// use cores, as by default.
    ///
    /// # Errors
    /// Fails when the machine has no such class of cores, or when this process may not use any of them.
    pub(crate) fn restrict<'a>(
        &self,
        topology: &'a Topology,
    ) -> Result<ChosenCores<'a>, PlacementError> {
        let mut classes = self.classes(topology)?;
        if topology.core_classes.is_empty() {
            return Ok(ChosenCores { topology: Cow::Borrowed(topology), notice: None });
        }
        let mut notice = None;
        let fastest = topology.allowed_threads().filter_map(|thread| thread.speed_class).max();
        if let (true, Some(fastest)) = (self.has_name(FAST), fastest)
            && !classes.contains(&fastest)
        {
            let name = topology.speed_class_name(fastest);
            notice = Some(format!(
                "this process may not use any of the {FAST} cores: threads use the {name} cores"
            ));
            classes = vec![fastest];
        }
        let mut chosen = topology.clone();
        for thread in &mut chosen.threads {
            thread.allowed &= thread.speed_class.is_some_and(|class| classes.contains(&class));
            thread.speed_class = None;
        }
        chosen.core_classes.clear();
        if chosen.allowed_threads().next().is_none() {
            let problem = format!("this process may not use any of the {self} cores");
            return Err(PlacementError::new(problem).hint("leave out --cores"));
        }
        Ok(ChosenCores { topology: Cow::Owned(chosen), notice })
    }

    /// Returns the indices of the chosen classes, which are all classes for `all`, and all that contain cores of a
    /// design. Without classes, `fast` and `all` mean all cores.
    fn classes(&self, topology: &Topology) -> Result<Vec<usize>, PlacementError> {
        let classes = &topology.core_classes;
        if self.is_all() || (classes.is_empty() && self.has_name(FAST)) {
            return Ok((0..classes.len()).collect());
        }
        let mut names = vec![ALL.to_owned()];
        let mut of_design = Vec::new();
        for (index, class) in classes.iter().enumerate().rev() {
            let name = topology.speed_class_name(index);
            if self.has_name(&name) {
                return Ok(vec![index]);
            }
            names.push(name);
            if class.designs.iter().any(|design| self.has_name(design)) {
                of_design.push(index);
            }
        }
        if !of_design.is_empty() {
            return Ok(of_design);
        }
        for design in classes.iter().rev().flat_map(|class| &class.designs) {
            if !names.contains(design) {
                names.push(design.clone());
            }
        }
        let problem = format!("this machine has no class of cores \"{self}\"");
        Err(PlacementError::new(problem).hint(if classes.is_empty() {
            "its cores are of one class, or their speed is unknown; leave out --cores".to_owned()
        } else {
            format!("use {}", names.join(", "))
        }))
    }

    /// Fails if the chosen cores have fewer hardware threads than the requested number of threads.
    pub(crate) fn check_threads(
        &self,
        chosen: &Topology,
        threads: Option<u32>,
    ) -> Result<(), PlacementError> {
        let usable = chosen.allowed_threads().count();
        match threads {
            Some(threads) if threads as usize > usable => Err(PlacementError::new(format!(
                "cannot place {} on the {self} cores: they have {}",
                count_in_words(threads as usize, "thread"),
                cpus::usable_in_words(chosen),
            ))
            .hint(format!("use {usable} or fewer, or --cores {ALL}"))),
            _ => Ok(()),
        }
    }

    /// True if cores of all classes are used.
    pub(crate) fn is_all(&self) -> bool {
        self.has_name(ALL)
    }

    /// True if the choice has this name.
    fn has_name(&self, name: &str) -> bool {
        self.0.eq_ignore_ascii_case(name)
    }
}

impl fmt::Display for CoreChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for CoreChoice {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("cores", EXAMPLE, text);
        cursor.skip_blanks();
        let word = cursor.take_while(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)).to_owned();
        if word.is_empty() {
            let problem = "expected fast, all, or a class of cores that nodegauge machine lists";
            return Err(cursor.error(problem));
        }
        cursor.skip_blanks();
        cursor.finish("expected one class of cores")?;
        Ok(Self(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Binding, PlacementRequest, plan};
    use nodegauge_machine::topology::SpeedClass;

    /// Returns a machine with four slow cores and four fast cores with two hardware threads each.
    fn hybrid() -> Topology {
        let mut topology = crate::tests::machine("Package:1 L3Cache:1 Core:8 PU:2");
        topology.threads.retain(|thread| thread.core >= 4 || thread.index_in_core == 0);
        for thread in &mut topology.threads {
            thread.speed_class = Some(usize::from(thread.core >= 4));
        }
        topology.core_classes = ["IntelAtom", "IntelCore"].map(class_of).to_vec();
        topology
    }

    fn class_of(design: &str) -> SpeedClass {
        SpeedClass { designs: vec![design.to_owned()], ..SpeedClass::default() }
    }

    fn refusal(cores: &str, threads: Option<u32>) -> String {
        let error = plan(&hybrid(), &request(cores, threads)).unwrap_err();
        nodegauge_measure::Failure::from(error).to_string()
    }

    fn request(cores: &str, threads: Option<u32>) -> PlacementRequest {
        let cores = Some(cores.parse().unwrap());
        PlacementRequest { cores, threads, ..PlacementRequest::default() }
    }

    fn placed(cores: &str, threads: Option<u32>) -> (String, String) {
        let placement = plan(&hybrid(), &request(cores, threads)).unwrap();
        assert!(placement.notices.is_empty(), "{placement:?}");
        let cpus = placement.threads.iter().map(|thread| cpus::format_ranges(&thread.cpus));
        (cpus.collect::<Vec<_>>().join(" "), placement.places)
    }

    #[test]
    fn cores_are_chosen_by_speed_or_design() {
        let slow = ("0 2 4 6".to_owned(), "{0},{2},{4},{6}".to_owned());
        assert_eq!(placed("slow", None), slow);
        assert_eq!(placed("intelatom", None), slow);
        assert_eq!(placed("fast", None).0, "8 10 12 14");
        assert_eq!(placed("fast", Some(8)).0, "8 9 10 11 12 13 14 15");
        assert_eq!(placed("all", None), ("0 2 4 6 8 10 12 14".to_owned(), "cores".to_owned()));
        let again = PlacementRequest {
            places: Some(placed("slow", None).1.parse().unwrap()),
            ..PlacementRequest::default()
        };
        assert_eq!(plan(&hybrid(), &again).unwrap().threads.len(), 4);
    }

    #[test]
    fn design_of_several_classes_chooses_all_of_them() {
        let mut topology = hybrid();
        topology.core_classes = ["IntelAtom"; 2].map(class_of).to_vec();
        let placement = plan(&topology, &request("IntelAtom", None)).unwrap();
        assert_eq!(placement.threads.len(), 8);
    }

    #[test]
    fn fast_means_the_fastest_usable_class() {
        let mut topology = hybrid();
        topology.threads.iter_mut().for_each(|thread| thread.allowed = thread.core < 4);
        let placement = plan(&topology, &request("fast", None)).unwrap();
        assert_eq!(placement.cpus().len(), 4);
        assert_eq!(
            placement.notices,
            ["this process may not use any of the fast cores: threads use the slow cores"]
        );
        topology.threads.iter_mut().for_each(|thread| thread.allowed = thread.core >= 4);
        assert!(plan(&topology, &request("slow", None)).is_err());
    }

    #[test]
    fn threads_that_are_not_bound_may_run_on_all_cores() {
        let unbound = PlacementRequest { bind: Some(Binding::None), ..request("slow", None) };
        let placement = plan(&hybrid(), &unbound).unwrap();
        assert_eq!((placement.threads.len(), placement.cpus().len()), (4, 12));
        assert_eq!(
            placement.notices,
            ["--cores slow sets only the number of threads: threads are not bound"]
        );
    }

    #[test]
    fn unavailable_core_class_is_refused() {
        let many = refusal("fast", Some(9));
        assert!(many.contains("on the fast cores: they have 8 hardware threads (8-15)"), "{many}");
        assert!(refusal("class2", None).contains("use all, fast, slow, IntelCore, IntelAtom"));
        let plain = crate::tests::machine("Package:1 Core:4 PU:1");
        assert_eq!(plan(&plain, &request("fast", None)).unwrap().places, "cores");
        assert!(plan(&plain, &request("slow", None)).is_err());
        let both =
            PlacementRequest { places: Some("cores".parse().unwrap()), ..request("fast", None) };
        assert!(plan(&hybrid(), &both).is_err());
        for (text, at) in [("", 0), ("fast,slow", 4), ("{0}", 0)] {
            assert_eq!(text.parse::<CoreChoice>().unwrap_err().at, at, "{text}");
        }
    }
}

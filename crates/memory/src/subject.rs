//! What can be measured pass by pass: a [`Point`](crate::point::Point) of this process, or one that
//! several processes share. The protocols above (trial, stream, sweep) know no difference.

use crate::kernels::{Kernel, Loop, Shape};
use crate::pages::Share;
use crate::point::{PointConfig, PointError, Sample};
use crate::traffic::Counted;
use nodegauge_machine::NodeId;
use nodegauge_placement::display::ObservedAffinity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One configuration under measurement.
pub trait Subject {
    /// What was asked; of several processes, of the first.
    fn config(&self) -> &PointConfig;

    /// How many processes measure at once, each with arrays of its own.
    fn processes(&self) -> u64 {
        1
    }

    /// The loops of a pass, in its order.
    fn loops(&self) -> &[Loop];

    /// Puts other loops in their place, as [`Point::set_loops`](crate::point::Point::set_loops).
    ///
    /// # Errors
    /// Loops for other elements, or that cannot be had where they are to run.
    fn set_loops(&mut self, loops: Vec<Loop>) -> Result<(), PointError>;

    /// Runs one pass over all kernels.
    ///
    /// # Errors
    /// When a member of a team, or a process, fails.
    fn pass(&mut self) -> Result<Sample, PointError>;

    /// Checks every element of the arrays; what is wrong is kept and [`seen`](Subject::seen).
    ///
    /// # Errors
    /// As [`Subject::pass`].
    fn check(&mut self) -> Result<(), PointError>;

    /// Chooses other kernels or other loops for the same arrays.
    ///
    /// # Errors
    /// No such rows.
    fn reshape(&mut self, kernels: Vec<(Kernel, Shape)>) -> Result<(), PointError>;

    /// Asks the kernel what was got. Walks page tables: ask once.
    ///
    /// # Errors
    /// When a process fails.
    fn seen(&mut self) -> Result<Seen, PointError>;

    /// Lets the memory controllers count what each kernel moves; the reason where they cannot, `None`
    /// for what is not counted at all.
    ///
    /// # Errors
    /// As [`Subject::pass`].
    fn traffic(&mut self) -> Result<Option<Result<Counted, String>>, PointError> {
        Ok(None)
    }
}

/// What was got, as the kernel says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Where each thread may run.
    pub affinity: Vec<ObservedAffinity>,
    /// Share of the arrays on pages of each size, bytes to 0..1.
    pub pages: Option<BTreeMap<u64, f64>>,
    /// Where sampled pages of each thread's share of each array are; empty when the kernel does not say,
    /// and for several processes.
    #[serde(default)]
    pub shares: Vec<Share>,
    /// Share of each array on each NUMA node.
    pub nodes: [Option<BTreeMap<NodeId, f64>>; 3],
    /// The first check that failed, in words.
    pub wrong: Option<String>,
    /// How often all arrays were checked.
    pub checks: u32,
    /// Of several processes, each.
    pub ranks: Vec<RankSeen>,
}

/// What one of several processes was asked for and got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankSeen {
    /// Its number.
    pub rank: u32,
    /// Its process.
    pub process: u32,
    /// The CPUs that its threads may run on, as the kernel says.
    pub cpus: Vec<u32>,
    /// The memory policy that was asked for: its name and its nodes.
    pub memory: (String, Option<Vec<u32>>),
    /// Nodes on which its pages are to be; `None` where anything will do.
    pub expected: Option<Vec<u32>>,
    /// Share of its pages on each node.
    pub nodes: Option<BTreeMap<NodeId, f64>>,
}

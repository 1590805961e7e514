//! STREAM in several processes.

use super::{Options, StreamError, masks, measure, plan, with_loops};
use crate::GAUGE;
use crate::point::PointConfig;
use crate::ranks::{Coordinator, RanksPoint, SharedCoordinator};
use crate::size::{Size, SizeSpec};
use nodegauge_gauge::{Foreseen, Planned, Site};
use nodegauge_measure::schedule::policy;
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Observer, Outcome};
use nodegauge_placement::{MemoryPolicy, RankPlace, RankPlan, cpus};
use std::time::Instant;

/// A run of several processes.
pub struct RanksStreamPlan {
    ranks: RankPlan,
    joined: Option<SharedCoordinator>,
    options: Options,
    size: Size,
    configs: Vec<PointConfig>,
}

impl RanksStreamPlan {
    /// Plans a run; `joined` are ranks that a launcher has started, else they are started when it
    /// runs.
    ///
    /// # Errors
    /// When the arrays do not fit, or there are no such loops.
    pub fn new(
        site: &Site,
        ranks: RankPlan,
        joined: Option<SharedCoordinator>,
        options: Options,
    ) -> Result<Self, StreamError> {
        let (size, configs) = plan_ranks(site, &ranks, &options)?;
        Ok(Self { ranks, joined, options, size, configs })
    }
}

impl Planned for RanksStreamPlan {
    fn foreseen(&self) -> Foreseen {
        let elements: u64 = self.configs.iter().map(|config| config.elements).sum();
        let memory = Bytes(3 * elements * self.options.element.bytes());
        Foreseen { time: Some(self.options.budget), memory: Some(memory) }
    }

    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        let Self { ranks, joined, options, size, configs } = *self;
        let coordinator = match joined {
            Some(coordinator) => coordinator,
            None => Coordinator::start(ranks.ranks.len(), observer)?,
        };
        let started = Instant::now();
        observer.phase(&format!(
            "preparing 3 arrays of {} in each of {} ranks",
            Bytes(configs[0].elements * options.element.bytes()),
            configs.len()
        ));
        let point = RanksPoint::prepare(&coordinator, &site.topology, &ranks, configs)
            .map_err(StreamError::from)?;
        let ready = with_loops(point, size, &options, policy::STREAM.choose, started, observer)?;
        let (topology, machine) = (&site.topology, &site.machine);
        let measured =
            measure(ready, topology, machine, &ranks.together(), &options, started, observer)?;
        let notice = |text: &String| Notice::new(NoticeId::Environment, GAUGE, text);
        let mut outcome =
            Outcome { notices: ranks.notices.iter().map(notice).collect(), ..Outcome::default() };
        outcome.extend(measured);
        outcome.details = ranks.ranks.iter().map(detail).collect();
        Ok(outcome)
    }
}

/// Where a rank is and what memory it asks for.
fn detail(place: &RankPlace) -> String {
    let cpus = cpus::ranges(&place.placement.cpus());
    format!("rank {}: cpus {cpus}, memory {}", place.rank.unwrap_or(0), place.memory)
}

/// Plans the arrays of several ranks: how long those of each are and on which pages. `auto` and
/// `4xLLC` are held against the arrays of all ranks together, of which each takes its part; any other
/// length is that of each rank's own arrays.
///
/// # Errors
/// When they do not fit.
pub(crate) fn plan_ranks(
    site: &Site,
    ranks: &RankPlan,
    options: &Options,
) -> Result<(Size, Vec<PointConfig>), StreamError> {
    let count = ranks.ranks.len() as u64;
    let shared = matches!(options.size, SizeSpec::Auto | SizeSpec::TimesLlc(_));
    let together = ranks.together();
    // The widest policy decides what memory can be had: ranks bound to different nodes have all.
    let mut options = options.clone();
    options.policy = whole_policy(ranks);
    if !shared {
        options.memory_fraction /= count as f64;
    }
    let (mut size, config) = plan(&site.topology, &site.machine, &together, &options)?;
    let elements = if shared { size.elements.div_ceil(count) } else { size.elements };
    if !shared {
        // The rule asks for the arrays of all ranks.
        let bytes = (size.elements * options.element.bytes()) as f64;
        let llc = size.times_llc.map(|times| bytes / times);
        size = Size::of(elements * count, options.element, llc, size.notices);
    }
    let each = |place: &RankPlace| PointConfig {
        places: masks(&place.placement),
        elements,
        policy: place.memory.clone(),
        ..config.clone()
    };
    Ok((size, ranks.ranks.iter().map(each).collect()))
}

/// The policy over all ranks' nodes: bound memory is bound to the nodes of all of them together.
fn whole_policy(ranks: &RankPlan) -> MemoryPolicy {
    let mut all = Vec::new();
    for place in &ranks.ranks {
        match &place.memory {
            MemoryPolicy::Bind(nodes) => all.extend(nodes.iter().copied()),
            _ => return MemoryPolicy::Default,
        }
    }
    all.sort_unstable();
    all.dedup();
    MemoryPolicy::Bind(all)
}

//! Configuration that the tuner chose, as stored in a record for later runs.

use super::space::TeamSetup;
use crate::GAUGE;
use crate::arrangement::StreamOptions;
use crate::config::{ChoiceConfig, LoopConfig, TuneConfig};
use crate::kernels::{Element, Kernel, KernelShape, SideBySidePages};
use nodegauge_analysis::facts::machine_changes;
use nodegauge_arena::RequestedPages;
use nodegauge_arena::names::{CHOICE, TUNE};
use nodegauge_gauge::MeasuredNode;
use nodegauge_measure::record::{Record, Status};
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_placement::PlacementRequest;
use std::str::FromStr;

/// Complete configuration that the tuner chose.
#[derive(Debug, Clone, PartialEq)]
pub struct TunedChoice {
    /// Request for the threads; the default request if one thread per core is best.
    pub request: PlacementRequest,
    /// Kind of pages.
    pub pages: RequestedPages,
    /// Type of the elements for which the loops were chosen.
    pub element: Element,
    /// Loop for each kernel.
    pub loops: Vec<(Kernel, KernelShape)>,
}

impl TunedChoice {
    /// Creates a choice from the team, the pages and the loops.
    pub(super) fn new(
        setup: &TeamSetup,
        element: Element,
        loops: Vec<(Kernel, KernelShape)>,
    ) -> Self {
        Self { request: setup.request.clone(), pages: setup.pages, element, loops }
    }

    /// Sets everything that `options` do not fix. The loops are used only if `options` have the type of the elements
    /// for which the loops were chosen, and set neither stores, prefetch, nor pages side by side.
    pub fn fill(&self, options: &mut StreamOptions) {
        options.arrays.pages = options.arrays.pages.or(Some(self.pages));
        let open = options.arrays.stores.is_none()
            && options.arrays.prefetch.is_none()
            && options.arrays.side_by_side.is_none();
        if open && options.arrays.element == self.element {
            options.loops.clone_from(&self.loops);
        }
    }

    /// Returns the choice as stored in the configuration of a measurement.
    pub fn to_config(&self) -> ChoiceConfig {
        let loops = self.loops.iter();
        ChoiceConfig {
            threads: self.request.threads,
            places: self.request.places.as_ref().map(ToString::to_string),
            bind: self.request.bind.map(|bind| bind.to_string()),
            per_cache: self.request.per_cache,
            pages: self.pages.name().to_owned(),
            element: self.element.name().to_owned(),
            loops: loops.map(|(k, shape)| (k.name().to_owned(), loop_config(shape))).collect(),
        }
    }

    /// Parses the result of [`TunedChoice::to_config`]; returns `None` if the format is that of another version.
    pub fn from_config(config: &ChoiceConfig) -> Option<Self> {
        /// Parses an optional field: `Some(None)` if it is absent, `None` if it is invalid.
        fn optional<T: FromStr>(text: Option<&String>) -> Option<Option<T>> {
            match text {
                None => Some(None),
                Some(text) => text.parse().ok().map(Some),
            }
        }
        let loops = config.loops.iter().map(|(kernel, of)| {
            let shape = KernelShape {
                isa: of.isa.parse().ok()?,
                stores: of.stores.parse().ok()?,
                unroll: of.unroll,
                side_by_side: SideBySidePages::new(of.side_by_side.unwrap_or(1))?,
                prefetch: of.prefetch.parse().ok()?,
            };
            Some((kernel.parse().ok()?, shape))
        });
        Some(Self {
            request: PlacementRequest {
                threads: config.threads,
                places: optional(config.places.as_ref())?,
                bind: optional(config.bind.as_ref())?,
                per_cache: config.per_cache,
                ..PlacementRequest::default()
            },
            pages: config.pages.parse().ok()?,
            element: config.element.parse().ok()?,
            loops: loops.collect::<Option<_>>()?,
        })
    }
}

/// Returns the shape of a loop as stored in the configuration of a measurement.
fn loop_config(shape: &KernelShape) -> LoopConfig {
    LoopConfig {
        isa: shape.isa.name().to_owned(),
        stores: shape.stores.name().to_owned(),
        unroll: shape.unroll,
        side_by_side: shape.side_by_side.above_one(),
        prefetch: shape.prefetch.to_string(),
    }
}

/// Saved choice of an earlier run, and a notice for the user.
pub struct SavedChoice {
    /// Choice; `None` if the machine has changed since the earlier run.
    choice: Option<TunedChoice>,
    /// Origin of the choice, or the reason why it is not used.
    pub notice: Notice,
}

impl SavedChoice {
    /// Sets everything that `request` and `options` do not fix.
    pub fn fill(&self, request: &mut PlacementRequest, options: &mut StreamOptions) {
        let Some(choice) = &self.choice else { return };
        choice.fill(options);
        if *request == PlacementRequest::default() {
            request.clone_from(&choice.request);
        }
    }
}

/// Returns the last choice of `--tune` on this machine. `newest` returns the newest record that contains a figure with
/// the given test and name.
pub fn saved_choice(
    site: &MeasuredNode,
    newest: &dyn Fn(&str, &str) -> Option<Record>,
) -> Option<SavedChoice> {
    let record = newest(TUNE, CHOICE)?;
    let chosen = record.measurements.iter().find(|m| m.test == TUNE && m.name == CHOICE)?;
    let choice = TunedChoice::from_config(&chosen.read_config::<TuneConfig>().choice?)?;
    let (day, _) = record.started.split_once('T').unwrap_or((&record.started, ""));
    let id = &record.id;
    let (choice, text) = match machine_changes(&record.machine, &site.machine).first() {
        None if chosen.validity.status != Status::Valid => {
            let reason = chosen.validity.reasons.first().map_or("?", String::as_str);
            let text = format!(
                "the tuning of {day} (run {id}) is ignored because it is {} ({reason}); tune \
                 again on a quiet node: nodegauge stream --tune",
                chosen.validity.status.name()
            );
            (None, text)
        }
        None => {
            let text = format!("as tuned on {day} (run {id}); --untuned ignores it");
            (Some(choice), text)
        }
        Some(change) => {
            let text = format!(
                "the tuning of {day} (run {id}) is ignored because the machine has changed \
                 ({change}); tune again: nodegauge stream --tune"
            );
            (None, text)
        }
    };
    Some(SavedChoice { choice, notice: Notice::new(NoticeId::Remembered, GAUGE, text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Isa, Prefetch, Stores};

    fn choice() -> TunedChoice {
        let shape = KernelShape {
            isa: Isa::Portable,
            stores: Stores::Regular,
            unroll: 4,
            side_by_side: SideBySidePages::new(4).unwrap(),
            prefetch: Prefetch::FarNear(4096, 512),
        };
        TunedChoice {
            request: PlacementRequest {
                threads: Some(96),
                places: Some("{0}:96:2".parse().unwrap()),
                bind: Some("spread".parse().unwrap()),
                ..PlacementRequest::default()
            },
            pages: RequestedPages::Transparent,
            element: Element::F64,
            loops: vec![(Kernel::Copy, shape), (Kernel::Triad, shape)],
        }
    }

    #[test]
    fn tuned_choice_round_trips() {
        let choice = choice();
        assert_eq!(TunedChoice::from_config(&choice.to_config()), Some(choice.clone()));
        let plain = TunedChoice { request: PlacementRequest::default(), ..choice };
        assert_eq!(TunedChoice::from_config(&plain.to_config()), Some(plain.clone()));
        let unknown = ChoiceConfig { bind: Some("loose".to_owned()), ..plain.to_config() };
        assert_eq!(TunedChoice::from_config(&unknown), None);
    }

    #[test]
    fn user_options_override_a_saved_choice() {
        let choice = choice();
        let mut options = StreamOptions::default();
        options.arrays.pages = Some(RequestedPages::Base);
        choice.fill(&mut options);
        assert_eq!((options.arrays.pages, options.loops.len()), (Some(RequestedPages::Base), 2));
        let mut explained = StreamOptions::default();
        explained.arrays.stores = Some(Stores::Regular);
        choice.fill(&mut explained);
        assert_eq!(
            (explained.arrays.pages, explained.loops.len()),
            (Some(RequestedPages::Transparent), 0)
        );
    }
}

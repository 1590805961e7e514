//! Series of runs over time. A series contains the figures of runs with the same configuration. Each series is named
//! after the settings in which it differs from the other series.

use crate::compare::relevant_command;
use crate::identity::{figure_group_key, in_words, key_values, value_text};
use nodegauge_measure::keys::{Registry, Role};
use nodegauge_measure::record::{Measurement, Record};

/// Configuration of a figure of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesConfig {
    /// Command of the run, without options that do not affect the measurement; `None` for imported records.
    question: Option<Vec<String>>,
    settings: Vec<ConfigEntry>,
}

/// Configuration key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ConfigEntry {
    key: String,
    value: String,
    /// True if runs can choose the value of this key themselves.
    is_choice: bool,
    words: String,
}

impl SeriesConfig {
    /// Returns the configuration of a figure of a run. Observations are not part of it.
    pub fn from_figure(run: &Record, m: &Measurement, registry: &Registry) -> Self {
        let question = relevant_command(run);
        let question = question.map(|words| words.into_iter().map(str::to_owned).collect());
        let mut settings = Vec::new();
        for key in m.config.keys() {
            let role = registry.key(&m.gauge, &m.test, key).map(|known| known.role);
            let Some(role) = role.filter(|role| *role != Role::Observation) else { continue };
            let Some(value) = value_text(m, key) else { continue };
            let at = key_values(&vec![(key.clone(), value.clone())], m);
            let words = in_words(figure_group_key(m), &at, registry);
            let words = words.trim_start_matches([',', ' ']).to_owned();
            let is_choice = role == Role::Choice;
            settings.push(ConfigEntry { key: key.clone(), value, is_choice, words });
        }
        Self { question, settings }
    }

    /// True if both runs had the same command.
    pub fn is_same_command(&self, other: &Self) -> bool {
        self.question == other.question
    }

    /// True if figures with these configurations belong to the same series. For runs with the same command, this is
    /// always true, because the runs themselves chose or observed the differences.
    pub fn is_same(&self, other: &Self) -> bool {
        let same_command = self.question.is_some() && self.is_same_command(other);
        same_command || self.settings == other.settings
    }

    /// Describes the settings in which this configuration differs from any of `configs`; the choices of the runs are
    /// included if `with_choices` is true.
    fn differing(&self, configs: &[&Self], with_choices: bool) -> String {
        let mut words: Vec<&str> = Vec::new();
        for of in self.settings.iter().filter(|of| with_choices || !of.is_choice) {
            if configs.iter().any(|other| !other.has(of)) {
                words.push(&of.words);
            }
        }
        words.join(", ")
    }

    /// True if this configuration contains an entry with the same key and the same value.
    fn has(&self, sought: &ConfigEntry) -> bool {
        self.settings.iter().any(|of| of.key == sought.key && of.value == sought.value)
    }
}

/// Describes the settings in which these configurations differ, e.g. `pages 4k`. The choices of the runs are included
/// only if the other settings do not distinguish the configurations.
pub fn differences(configs: &[&SeriesConfig]) -> Vec<String> {
    let asked: Vec<String> = configs.iter().map(|of| of.differing(configs, false)).collect();
    let are_distinct = (1..asked.len()).all(|at| !asked[..at].contains(&asked[at]));
    if are_distinct {
        return asked;
    }
    configs.iter().map(|of| of.differing(configs, true)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Unit;
    use nodegauge_measure::keys::ConfigKind;
    use serde_json::json;

    nodegauge_measure::config! {
        /// Configuration of a figure.
        pub struct Config {
            /// Pages.
            pages: String = Setting "pages";
            /// Number of threads.
            threads: u64 = Setting "threads";
            /// Kind of store.
            stores: String = Choice "stores";
            /// Elapsed time, seconds.
            seconds: f64 = Observation "seconds";
        }
    }

    fn registry() -> Registry {
        Registry::new([ConfigKind::from_config::<Config>("memory", &["stream"])])
    }

    fn config(command: &[&str], pages: &str, stores: &str, seconds: f64) -> SeriesConfig {
        let run: Record = serde_json::from_value(json!({
            "schema": "nodegauge/1", "id": "a", "started": "2026-11-21T20:00:00Z", "seconds": 1.0,
            "complete": true, "tool": {"version": "0", "commit": null}, "command": command,
            "machine": nodegauge_measure::record::Machine::default(), "measurements": [],
        }))
        .unwrap();
        let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
        let pages = Some(pages.to_owned());
        let stores = Some(stores.to_owned());
        let of = Config { pages, threads: Some(2), stores, seconds: Some(seconds) };
        SeriesConfig::from_figure(&run, &m.with_config(&of), &registry())
    }

    #[test]
    fn series_are_separated_by_settings_and_named_by_differences() {
        let base = config(&["stream"], "4k", "regular", 1.0);
        // For the same command, another choice belongs to the same series; for another command, other observations do,
        // too.
        assert!(base.is_same(&config(&["stream"], "4k", "nontemporal", 2.0)));
        assert!(base.is_same(&config(&["stream", "--samples", "9"], "4k", "regular", 3.0)));
        let huge = config(&["stream", "--pages", "thp"], "thp", "nontemporal", 1.0);
        assert!(!base.is_same(&huge));
        assert_eq!(differences(&[&base, &huge]), ["pages 4k", "pages thp"]);
        let stores = config(&["stream", "--stores", "nontemporal"], "4k", "nontemporal", 1.0);
        assert!(!base.is_same(&stores));
        assert_eq!(differences(&[&base, &stores]), ["stores regular", "stores nontemporal"]);
        assert_eq!(differences(&[&base]), [""]);
    }
}

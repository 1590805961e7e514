//! Words for the causes of low figures, as reasons of 20 characters have them.

/// Findings of the doctor with the word that a reason has for them.
const WORDS: [(&str, &str); 14] = [
    ("cpu-quota", "quota"),
    ("clock-low", "clock"),
    ("clock-capped", "clock"),
    ("channels-empty", "channel"),
    ("channels-unequal", "channel"),
    ("dimm-speed-low", "MT/s"),
    ("memory-errors", "ECC"),
    ("thermal-throttled", "heat"),
    ("governor-not-performance", "governor"),
    ("turbo-off", "boost"),
    ("thp-never", "THP"),
    ("cpus-offline", "cores"),
    ("device-memory-errors", "GPU memory"),
    ("device-throttled", "GPU clock"),
];

/// Returns the word for a finding; `None` if it does not explain a low figure.
pub(crate) fn word_of_finding(id: &str) -> Option<&'static str> {
    WORDS.iter().find(|(known, _)| *known == id).map(|(_, word)| *word)
}

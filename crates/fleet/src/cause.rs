//! Short reasons, of at most 20 characters, and short words for the causes of low figures.

/// Maximum number of characters of a reason; `sinfo -R` shows no more.
pub const MAX_REASON_CHARS: usize = 20;

/// Findings of the doctor, with their short words.
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

/// Returns the short word for a finding; `None` if it does not explain a low figure.
pub(crate) fn finding_word(id: &str) -> Option<&'static str> {
    WORDS.iter().find(|(known, _)| *known == id).map(|(_, word)| *word)
}

fn fits(text: &str) -> bool {
    text.chars().count() <= MAX_REASON_CHARS
}

/// Returns the first reason that is short enough. If all are too long, returns the last one, cut at a word.
pub(crate) fn first_short_reason<const N: usize>(reasons: [String; N]) -> String {
    let found = reasons.iter().find(|reason| fits(reason)).or(reasons.last());
    found.map(|reason| cut_at_word(reason)).unwrap_or_default()
}

/// Returns as many leading words as fit into a reason. A first word that is too long is cut.
pub(crate) fn cut_at_word(text: &str) -> String {
    let mut reason = String::new();
    for word in text.split_whitespace() {
        let longer = if reason.is_empty() { word.to_owned() } else { format!("{reason} {word}") };
        if !fits(&longer) {
            break;
        }
        reason = longer;
    }
    if reason.is_empty() {
        reason = text.trim_start().chars().take(MAX_REASON_CHARS).collect();
    }
    reason.trim_end_matches([' ', ':', ',', ';']).to_owned()
}

/// Returns the reason with the first cause that fits: `mem 69% of med: DIMM`, `mem 69% med: clock`, or `mem 69%:
/// governor`. A cause is never cut.
pub(crate) fn reason_with_cause<'a>(
    figure: &str,
    base: &str,
    causes: impl IntoIterator<Item = &'a str>,
) -> String {
    let heads = [format!("{figure} of {base}"), format!("{figure} {base}"), figure.to_owned()];
    for cause in causes {
        let mut lines = heads.iter().map(|head| format!("{head}: {cause}"));
        if let Some(line) = lines.find(|line| fits(line)) {
            return line;
        }
    }
    heads[0].clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_shortened_by_whole_words() {
        let of = |causes: &[&str]| reason_with_cause("mem 69%", "med", causes.iter().copied());
        assert_eq!(of(&[]), "mem 69% of med");
        assert_eq!(of(&["DIMM", "clock"]), "mem 69% of med: DIMM");
        assert_eq!(of(&["clock"]), "mem 69% med: clock");
        assert_eq!(of(&["governor"]), "mem 69%: governor");
        assert_eq!(of(&["a very long cause", "SMT"]), "mem 69% of med: SMT");
        assert_eq!(of(&["a very long cause"]), "mem 69% of med");
        assert_eq!(cut_at_word("swap in use"), "swap in use");
        assert_eq!(cut_at_word("mem UE: Processor 1 DIMM 3"), "mem UE: Processor 1");
        assert_eq!(cut_at_word("PCIe: 00000000000000000"), "PCIe");
        assert_eq!(cut_at_word(&"x".repeat(30)), "x".repeat(20));
        let reasons = |place: &str| [format!("mem UE: {place}"), "mem UE".to_owned()];
        assert_eq!(first_short_reason(reasons("P1-DIMMA1")), "mem UE: P1-DIMMA1");
        assert_eq!(first_short_reason(reasons("Processor 1 DIMM 3")), "mem UE");
    }
}

//! Check that only `measure::UnitPrefix` contains the factors of unit prefixes: no other source lists a unit symbol
//! with its factor.

use crate::names::without_tests;
use crate::tokens::tokens;
use crate::{crates, files, root};

/// Symbols of the units in records.
const UNITS: [&str; 7] = ["B/s", "FLOP/s", "s", "msg/s", "op/s", "Hz", "B"];
/// Decimal prefixes.
const PREFIXES: &str = "numkMGTP";

/// True for a string literal that is a unit with a prefix.
fn is_scaled_unit(token: &str) -> bool {
    let text = token.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default();
    let rest = text.strip_prefix(|c| PREFIXES.contains(c));
    rest.is_some_and(|rest| UNITS.contains(&rest))
}

/// True for the beginning of a power of ten: `1e9`, or `1e` of `1e-9`.
fn is_power_of_ten(token: &str) -> bool {
    token.strip_prefix("1e").is_some_and(|digits| digits.chars().all(|c| c.is_ascii_digit()))
}

/// Returns the unit symbols in a source that are listed with a factor.
fn symbols_with_factors(tokens: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| is_scaled_unit(token)) {
        let mut rest = tokens[at + 1..].iter().take_while(|next| !")]}".contains(next.as_str()));
        if rest.any(|next| is_power_of_ten(next)) {
            found.push(token.clone());
        }
    }
    found
}

#[test]
fn unit_prefix_factors_are_in_one_source() {
    let mut wrong = Vec::new();
    for folder in crates() {
        for file in files(&folder.join("src"), &["rs"]) {
            let name = file.strip_prefix(root()).unwrap().display().to_string();
            if name.contains("/tests") || name.ends_with("measure/src/unit.rs") {
                continue;
            }
            let tokens = without_tests(&tokens(&std::fs::read_to_string(&file).unwrap()));
            let symbols = symbols_with_factors(&tokens);
            wrong.extend(symbols.iter().map(|symbol| format!("{name}: {symbol}")));
        }
    }
    assert!(wrong.is_empty(), "use measure::ScaledUnit or UnitPrefix:\n{}", wrong.join("\n"));
}

#[test]
fn symbols_with_factors_are_found() {
    let found = |text: &str| symbols_with_factors(&tokens(text)).len();
    assert_eq!(found(r#"[("GB/s", 1e9), ("us", Unit::Seconds, 1e-6), ("x", 1e3)]"#), 2);
    assert_eq!(found(r#"f("GB/s"); g("GB/s", value); h(1e9, "GB/s"); of("GB/s") * 1e9"#), 0);
}

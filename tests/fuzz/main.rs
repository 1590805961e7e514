//! Tests every parser with mutations of real texts. A parser must return a value or an error with a short message. The
//! texts are the same in every run; `make bench BENCHES=fuzz` reads a million others.
#![allow(clippy::unwrap_used)]

mod cases;
mod mutate;
mod parsers;

/// Number of cases per parser; slow parsers have fewer. A run takes several seconds.
const CASES: u64 = 600;

#[test]
fn parsers_end_with_a_value_or_a_refusal() {
    let ran: Vec<cases::Ran> =
        parsers::all().iter().map(|parser| cases::run(parser, CASES, 1)).collect();
    let findings: Vec<&str> =
        ran.iter().flat_map(|ran| &ran.findings).map(String::as_str).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    assert!(ran.iter().map(|ran| ran.cases).sum::<u64>() > 15_000);
    // The seeds and the pages need far less than 1 GiB, which an unlimited allocation would exceed.
    assert!(cases::peak_memory() < 1 << 30, "{} bytes", cases::peak_memory());
}

#[test]
fn mutations_differ_and_are_reproducible() {
    let texts = |seed| {
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..100)
            .map(|_| mutate::mutated(b"triad>=300GB/s", b"4,8-16:2", &mut rng))
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(1), texts(1));
    let all: std::collections::BTreeSet<Vec<u8>> = texts(1).into_iter().chain(texts(2)).collect();
    assert!(all.len() > 150, "{}", all.len());
}

use super::*;
use proptest::prelude::*;

/// Setting with two axes: numbers, whose lists have their own grammar, and names.
#[derive(Debug, Clone, PartialEq)]
enum Typed {
    Rate(u32),
    Name(String),
}
use Typed::{Name, Rate};

impl fmt::Display for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate(rate) => rate.fmt(f),
            Name(name) => name.fmt(f),
        }
    }
}

impl Setting for Typed {
    const EXAMPLE: &'static str = "--sweep rate=1,2";
    const EXPECTED: &'static str = "expected rate or name";

    fn axis(&self) -> &str {
        if matches!(self, Rate(_)) { "rate" } else { "name" }
    }

    fn also_sets(&self) -> Option<&'static str> {
        matches!(self, Name(name) if name == "fast").then_some("rate")
    }

    fn values(name: &str) -> Option<AxisSyntax<Self>> {
        match name {
            "rate" => Some(AxisSyntax::parted(|text| {
                let rate: Result<u32, _> = text.parse();
                rate.map(|rate| vec![Rate(rate)]).map_err(|_| Wrong(1, "no number".to_owned()))
            })),
            "name" => Some(
                AxisSyntax {
                    separator: Some(';'),
                    ..AxisSyntax::parted(|text| Ok(vec![Name(text.into())]))
                }
                .or_alone(vec![Name("all".into())]),
            ),
            _ => None,
        }
    }
}

fn axis(text: &str) -> Axis<Typed> {
    text.parse().unwrap()
}

#[test]
fn axes_are_read_and_wrong_ones_are_pointed_at() {
    assert_eq!(axis("rate=1, 22").settings(), [Rate(1), Rate(22)]);
    assert_eq!(axis("name").settings(), [Name("all".into())]);
    assert_eq!(axis("name='a;b';c").settings(), [Name("'a;b'".into()), Name("c".into())]);
    for (text, at) in [("", 0), ("rates=1", 0), ("rate", 4), ("rate;", 4), ("rate=1,2x", 8)] {
        assert_eq!(text.parse::<Axis<Typed>>().unwrap_err().at, at, "{text}");
    }
}

#[test]
fn combinations_come_once_in_the_order_of_the_axes() {
    let (all, notices) = combinations(&[axis("rate=1,2,1"), axis("name=a;b")], "gauge");
    let words: Vec<String> = all.iter().map(in_words).collect();
    assert_eq!(words, ["rate 1, name a", "rate 1, name b", "rate 2, name a", "rate 2, name b"]);
    assert_eq!(notices[0].message, "rate 1, name a is given twice and measured once");
    let reported = "the sweep has 400 combinations; the maximum is 256\nhint: use fewer values";
    assert_eq!(check_count(400).unwrap_err().to_string(), reported);
}

#[test]
fn what_cannot_be_had_is_said_once_with_the_reason() {
    let (settings, _) = combinations(&[axis("rate=1,9"), axis("name=a;b;c")], "gauge");
    let why = |text: &str| Failure::missing(format!("no {text}")).hint("buy some");
    let gone = [(1, "b"), (3, "nine"), (4, "b"), (2, "c")];
    let gone = gone.map(|(i, text)| (settings[i].clone(), why(text)));
    let kept: Vec<&[Typed]> = [0, 5].map(|i| &settings[i][..]).to_vec();
    let reported: Vec<String> =
        left_out(&gone, &kept, "gauge").into_iter().map(|one| one.message).collect();
    let expected = [
        "name b left out: no b; buy some",
        "rate 9, name a left out: no nine; buy some",
        "rate 1, name c left out: no c; buy some",
    ];
    assert_eq!(reported, expected);
}

#[test]
fn an_option_has_one_value() {
    let says = |axes: &[Axis<Typed>], fixed: &str| {
        check(axes, |name| name == fixed).map_err(|failure| failure.to_string())
    };
    let twice =
        "the axis rate is given twice\nhint: give all values in one --sweep, e.g. --sweep rate=3";
    assert_eq!(says(&[axis("rate=1,2"), axis("rate=3")], ""), Err(twice.to_owned()));
    let fixed = "--rate is both fixed and swept\nhint: leave out --rate, e.g. --sweep rate=1,2";
    assert_eq!(says(&[axis("rate=1,2")], "rate"), Err(fixed.to_owned()));
    assert_eq!(says(&[axis("rate=1"), axis("name")], ""), Ok(()));
    // The name `fast` gives the rate too.
    let both = |option: &str| {
        Err(format!(
            "name fast and {option} both give the rate\n\
             hint: leave out {option}, or the part after '/' in the values of name"
        ))
    };
    assert_eq!(says(&[axis("name=slow;fast"), axis("rate=1")], ""), both("--sweep rate"));
    assert_eq!(says(&[axis("name=fast")], "rate"), both("--rate"));
    assert_eq!(says(&[axis("name=slow;fast")], ""), Ok(()));
}

proptest! {
    #[test]
    fn nothing_typed_makes_the_parser_fail_badly(text in "[a-z-]{0,9}=?.{0,12}") {
        let _ = text.parse::<Axis<Typed>>();
    }
}

use super::*;
use proptest::prelude::*;

/// Options that the axes of the tests set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Journey {
    rate: Option<u32>,
    name: Option<String>,
}

/// Options that include [`Journey`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ticket {
    journey: Journey,
    is_first_class: bool,
}

crate::settings! {
    /// Settings with two axes: numbers, and names separated by semicolons.
    pub enum Typed sets Journey, e.g. "--sweep rate=1,2" {
        /// Number.
        Rate(u32) = "rate", AxisSyntax::comma_separated().with_parser(rate),
            given |journey| journey.rate.is_some(),
            set |journey, rate| journey.rate = Some(*rate);
        /// Text; `fast` sets the rate as well.
        Name(String) = "name", AxisSyntax::semicolon_separated().with_parser(name).with_default(&["all".to_owned()]),
            given |journey| journey.name.is_some(),
            set |journey, name| journey.name = Some(name.clone()),
            also |name| (name == "fast").then_some("rate");
    }
}
use Typed::{Name, Rate};

crate::settings! {
    /// Settings with the axes of another table.
    pub enum OfTicket including OfJourney(Typed) of journey sets Ticket, e.g. "--sweep rate=1,2" {
        /// Class.
        Class(String) = "class", AxisSyntax::comma_separated().with_parser(name),
            given |ticket| ticket.is_first_class,
            set |ticket, class| ticket.is_first_class = class == "1";
    }
}

impl From<std::convert::Infallible> for InvalidAxisValue {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl From<std::num::ParseIntError> for InvalidAxisValue {
    fn from(_: std::num::ParseIntError) -> Self {
        Self { at: 1, problem: "no number".to_owned(), suggestion: None }
    }
}

fn rate(text: &str) -> Result<u32, InvalidAxisValue> {
    text.parse().map_err(Into::into)
}

fn name(text: &str) -> Result<String, InvalidAxisValue> {
    Ok(text.to_owned())
}

fn axis(text: &str) -> Axis<Typed> {
    text.parse().unwrap()
}

#[test]
fn axes_are_parsed_and_errors_have_columns() {
    assert_eq!(axis("rate=1, 22").settings(), [Rate(1), Rate(22)]);
    assert_eq!(axis("name").settings(), [Name("all".into())]);
    assert_eq!(axis("name='a;b';c").settings(), [Name("'a;b'".into()), Name("c".into())]);
    for (text, at) in [("", 0), ("rates=1", 0), ("rate", 4), ("rate;", 4), ("rate=1,2x", 8)] {
        assert_eq!(text.parse::<Axis<Typed>>().unwrap_err().at, at, "{text}");
    }
}

#[test]
fn combinations_are_distinct_and_ordered_by_axis() {
    let (all, notices) = combinations(&[axis("rate=1,2,1"), axis("name=a;b")], "gauge");
    let words: Vec<String> = all.iter().map(in_words).collect();
    assert_eq!(words, ["rate 1, name a", "rate 1, name b", "rate 2, name a", "rate 2, name b"]);
    assert_eq!(notices[0].message, "rate 1, name a is given twice and measured once");
    let reported = "the sweep has 400 combinations; the maximum is 256\nhint: use fewer values";
    assert_eq!(check_count(400).unwrap_err().to_string(), reported);
}

#[test]
fn unavailable_combinations_have_one_notice_per_reason() {
    let (settings, _) = combinations(&[axis("rate=1,9"), axis("name=a;b;c")], "gauge");
    let why = |text: &str| Failure::missing(format!("no {text}")).hint("buy some");
    let gone = [(1, "b"), (3, "nine"), (4, "b"), (2, "c")];
    let gone = gone.map(|(i, text)| (settings[i].clone(), why(text)));
    let kept: Vec<&[Typed]> = [0, 5].map(|i| &settings[i][..]).to_vec();
    let reported: Vec<String> =
        omission_notices(&gone, &kept, "gauge").into_iter().map(|one| one.message).collect();
    let expected = [
        "name b left out: no b; buy some",
        "rate 9, name a left out: no nine; buy some",
        "rate 1, name c left out: no c; buy some",
    ];
    assert_eq!(reported, expected);
}

#[test]
fn values_with_same_reason_share_notice() {
    let (settings, _) = combinations(&[axis("rate=1,7,8,9"), axis("name=a;b")], "gauge");
    let gone: Vec<(Vec<Typed>, Failure)> =
        settings[2..].iter().map(|one| (one.clone(), Failure::missing("too fast"))).collect();
    let kept = [&settings[0][..]];
    let messages: Vec<String> =
        omission_notices(&gone, &kept, "gauge").into_iter().map(|one| one.message).collect();
    assert_eq!(messages, ["rate 7, 8, 9 left out: too fast"]);
}

#[test]
fn option_cannot_be_fixed_and_swept() {
    let checked = |axes: &[Axis<Typed>], fixed: &str| {
        let rate = (fixed == "rate").then_some(1);
        let options = Journey { rate, ..Journey::default() };
        check(axes, &options).map_err(|failure| failure.to_string())
    };
    let twice =
        "the axis rate is given twice\nhint: give all values in one --sweep, e.g. --sweep rate=3";
    assert_eq!(checked(&[axis("rate=1,2"), axis("rate=3")], ""), Err(twice.to_owned()));
    let fixed = "--rate is both fixed and swept\nhint: leave out --rate, e.g. --sweep rate=1,2";
    assert_eq!(checked(&[axis("rate=1,2")], "rate"), Err(fixed.to_owned()));
    assert_eq!(checked(&[axis("rate=1"), axis("name")], ""), Ok(()));
    // The name `fast` gives the rate too.
    let both = |option: &str| {
        Err(format!(
            "name fast and {option} both specify the rate\n\
             hint: leave out {option}, or the part after '/' in the values of name"
        ))
    };
    assert_eq!(checked(&[axis("name=slow;fast"), axis("rate=1")], ""), both("--sweep rate"));
    assert_eq!(checked(&[axis("name=fast")], "rate"), both("--rate"));
    assert_eq!(checked(&[axis("name=slow;fast")], ""), Ok(()));
}

#[test]
fn settings_table_includes_axes_of_another_table() {
    let axes: Vec<Axis<OfTicket>> =
        ["rate=3,4", "class=1,2"].iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(axes[0].settings()[1], OfTicket::from(Rate(4)));
    assert_eq!(axes[0].to_string(), "rate=3,4");
    let unknown = "colour=1".parse::<Axis<OfTicket>>().unwrap_err();
    assert_eq!(unknown.problem, "expected one of the axes rate, name or class");
    let mut ticket = Ticket::default();
    axes.iter().for_each(|axis| axis.settings()[0].apply(&mut ticket));
    assert_eq!((ticket.journey.rate, ticket.is_first_class), (Some(3), true));
    assert!(OfTicket::is_given("rate", &ticket) && !OfTicket::is_given("name", &ticket));
    let words: Vec<String> =
        coordinates(axes[1].settings()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(words, ["class"]);
}

#[test]
fn unsupported_cells_are_omitted() {
    let kept_of = |text: &str| {
        let (all, _) = combinations(&[axis(text)], "gauge");
        let planned = all.into_iter().map(|settings| match settings[0] {
            Rate(9) => (settings, Err(Failure::insufficient("no nine"))),
            _ => (settings.clone(), Ok(settings)),
        });
        keep_supported(planned, |cell| &cell[..], "gauge")
    };
    let (kept, notices) = kept_of("rate=1,9").unwrap();
    assert_eq!((kept.len(), notices[0].message.as_str()), (1, "rate 9 left out: no nine"));
    assert_eq!(kept_of("rate=9").unwrap_err().reason(), "no nine");
}

proptest! {
    #[test]
    fn axis_parser_never_panics(text in "[a-z-]{0,9}=?.{0,12}") {
        let _ = text.parse::<Axis<Typed>>();
    }
}

//! Sweeps: the grammar of `--sweep AXIS=VALUES`, and what follows from axes alone. Which options of a gauge can
//! be swept, and how values of theirs are typed, is its [`Setting`].

use crate::grammar::{Cursor, SyntaxError};
use crate::names::UnknownName;
use crate::{Failure, Notice, NoticeId};
use std::fmt;
use std::str::FromStr;

/// Axes at most.
const MOST_AXES: usize = 2;
/// Combinations at most.
const MOST_COMBINATIONS: usize = 256;
/// What is read, in messages.
const WHAT: &str = "sweep";

/// A value of an option that can be swept.
pub trait Setting: Clone + PartialEq + fmt::Display + 'static {
    /// A right example, ready to be typed.
    const EXAMPLE: &'static str;
    /// Which axes there are, as said where another one is typed.
    const EXPECTED: &'static str;

    /// The name of its axis.
    fn axis(&self) -> &'static str;

    /// How values of the axis of a name are typed; `None` where there is no such axis.
    fn values(name: &str) -> Option<Values<Self>>;

    /// Values of one axis, as they are typed.
    fn list(all: &[Self]) -> String {
        let words: Vec<String> = all.iter().map(ToString::to_string).collect();
        words.join(",")
    }
}

/// How values of an axis are typed.
pub struct Values<S> {
    /// What parts them; `None` where lists have a grammar of their own.
    pub separator: Option<char>,
    /// Reads a part.
    pub read: fn(&str) -> Result<Vec<S>, Wrong>,
    /// What the axis means alone, without values; nothing where it needs some.
    pub alone: Vec<S>,
}

impl<S> Values<S> {
    /// Values parted by commas.
    pub fn parted(read: fn(&str) -> Result<Vec<S>, Wrong>) -> Self {
        Self { separator: Some(','), read, alone: Vec::new() }
    }

    /// Lists with a grammar of their own.
    pub fn listed(read: fn(&str) -> Result<Vec<S>, Wrong>) -> Self {
        Self { separator: None, ..Self::parted(read) }
    }

    /// The same, with what the axis means alone.
    pub fn or_alone(self, alone: Vec<S>) -> Self {
        Self { alone, ..self }
    }
}

/// What is wrong with a value, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong(pub usize, pub String);

impl From<SyntaxError> for Wrong {
    fn from(error: SyntaxError) -> Self {
        Self(error.at, error.problem)
    }
}

impl From<UnknownName> for Wrong {
    fn from(error: UnknownName) -> Self {
        Self(0, error.to_string())
    }
}

impl From<String> for Wrong {
    fn from(problem: String) -> Self {
        Self(0, problem)
    }
}

/// Reads one value.
///
/// # Errors
/// What its own grammar says.
pub fn one<T: FromStr<Err: Into<Wrong>>, S>(
    text: &str,
    setting: fn(T) -> S,
) -> Result<Vec<S>, Wrong> {
    text.parse().map(|value| vec![setting(value)]).map_err(Into::into)
}

/// Reads several values that have a grammar of lists of their own.
///
/// # Errors
/// What that grammar says.
pub fn several<L, T, S>(text: &str, setting: fn(T) -> S) -> Result<Vec<S>, Wrong>
where
    L: FromStr<Err: Into<Wrong>> + IntoIterator<Item = T>,
{
    text.parse::<L>().map(|all| all.into_iter().map(setting).collect()).map_err(Into::into)
}

/// The values of one option, at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis<S>(Vec<S>);

impl<S: Setting> Axis<S> {
    /// Of these values, at least one.
    pub fn of<T>(values: impl IntoIterator<Item = T>, setting: impl Fn(T) -> S) -> Self {
        Self(values.into_iter().map(setting).collect())
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.0[0].axis()
    }

    /// Its values.
    pub fn settings(&self) -> &[S] {
        &self.0
    }
}

impl<S: Setting> fmt::Display for Axis<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name(), S::list(&self.0))
    }
}

impl<S: Setting> FromStr for Axis<S> {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(WHAT, S::EXAMPLE, text);
        let name = cursor.take_while(|c| c.is_ascii_alphabetic() || c == '-');
        let alone = cursor.at_end();
        if !alone {
            cursor.expect('=', "expected '=' after the axis")?;
        }
        let Some(values) = S::values(name) else { return Err(cursor.error_at(0, S::EXPECTED)) };
        if alone && values.alone.is_empty() {
            return Err(cursor.error("expected '=' and values"));
        }
        if alone {
            return Ok(Self(values.alone));
        }
        let (rest, start) = (cursor.rest(), cursor.position());
        let listed = || vec![(0, rest)];
        let parts = values.separator.map_or_else(listed, |separator| parts(rest, separator));
        let mut settings = Vec::new();
        for (at, part) in parts {
            let part = if values.separator.is_some() { part.trim() } else { part };
            let of_part = (values.read)(part);
            let of_part = of_part.map_err(|Wrong(i, why)| cursor.error_at(start + at + i, why))?;
            settings.extend(of_part);
        }
        Ok(Self(settings))
    }
}

/// The parts of a list with their positions; a separator inside quotes or behind a backslash is part
/// of a word.
fn parts(text: &str, separator: char) -> Vec<(usize, &str)> {
    let (mut parts, mut from) = (Vec::new(), 0);
    let (mut quote, mut escaped) = (None, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != Some('\'') => escaped = true,
            '\'' | '"' if quote.is_none() => quote = Some(c),
            c if quote == Some(c) => quote = None,
            c if c == separator && quote.is_none() => {
                parts.push((from, &text[from..i]));
                from = i + 1;
            }
            _ => {}
        }
    }
    parts.push((from, &text[from..]));
    parts
}

/// Checks what can be known of the axes alone; `is_fixed` says whether the option of a name has a
/// value of its own.
///
/// # Errors
/// Too many axes, or an option that has two values.
pub fn check<S: Setting>(axes: &[Axis<S>], is_fixed: impl Fn(&str) -> bool) -> Result<(), Failure> {
    for (i, axis) in axes.iter().enumerate() {
        let name = axis.name();
        if axes[..i].iter().any(|other| other.name() == name) {
            return Err(Failure::usage(format!("the axis {name} is given twice"))
                .hint(format!("give all values at once, e.g. --sweep {axis}")));
        }
    }
    if let Some(axis) = axes.iter().find(|axis| is_fixed(axis.name())) {
        let name = axis.name();
        return Err(Failure::usage(format!("--{name} is fixed and swept at once"))
            .hint(format!("give it once, e.g. --sweep {axis}")));
    }
    match axes.len() > MOST_AXES {
        true => {
            Err(Failure::usage("a sweep has at most two axes").hint("fix one with its own option"))
        }
        false => Ok(()),
    }
}

/// Every combination of the axes' values, in their order and each once; notices, of `gauge`, name those that
/// are given again.
pub fn combinations<S: Setting>(axes: &[Axis<S>], gauge: &str) -> (Vec<Vec<S>>, Vec<Notice>) {
    let mut all: Vec<Vec<S>> = vec![Vec::new()];
    for axis in axes {
        let with = |settings: &Vec<S>| {
            let settings = settings.clone();
            axis.settings()
                .iter()
                .map(move |value| [&settings[..], std::slice::from_ref(value)].concat())
        };
        all = all.iter().flat_map(with).collect();
    }
    let (mut each, mut notices): (Vec<Vec<S>>, Vec<Notice>) = Default::default();
    for settings in all {
        if each.contains(&settings) {
            let text = format!("{} is given twice and measured once", in_words(&settings));
            notices.push(Notice::new(NoticeId::LeftOut, gauge, text));
        } else {
            each.push(settings);
        }
    }
    (each, notices)
}

/// Refuses more combinations than are measured by turns.
///
/// # Errors
/// When there are.
pub fn check_count(combinations: usize) -> Result<(), Failure> {
    match combinations > MOST_COMBINATIONS {
        true => Err(Failure::usage(format!(
            "{combinations} combinations are more than {MOST_COMBINATIONS}"
        ))
        .hint("take fewer values")),
        false => Ok(()),
    }
}

/// `threads 4, pages thp`: a combination.
pub fn in_words<'s, S: Setting>(settings: impl IntoIterator<Item = &'s S>) -> String {
    let words = settings.into_iter().map(|value| format!("{} {value}", value.axis()));
    words.collect::<Vec<_>>().join(", ")
}

/// What of a sweep this node cannot do, in words with the reason: a value once where none of its
/// combinations is left in `kept`.
pub fn left_out<S: Setting>(all: &[(Vec<S>, Failure)], kept: &[&[S]], gauge: &str) -> Vec<Notice> {
    let mut told: Vec<(Vec<&S>, &Failure)> = Vec::new();
    for (settings, why) in all {
        let is_gone = |value: &&S| !kept.iter().any(|other| other.contains(value));
        let what = match settings.iter().find(is_gone) {
            Some(value) => vec![value],
            None => settings.iter().collect(),
        };
        if told.iter().all(|(known, _)| *known != what) {
            told.push((what, why));
        }
    }
    let notice = |(what, why): (Vec<&S>, &Failure)| {
        let text = format!("{} left out: {}", in_words(what), why.in_a_line());
        Notice::new(NoticeId::LeftOut, gauge, text)
    };
    told.into_iter().map(notice).collect()
}

#[cfg(test)]
mod tests;

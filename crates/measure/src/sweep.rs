//! Parameter sweeps: the grammar of `--sweep AXIS=VALUES`, the combinations of several axes, and the checks of the
//! combinations. A gauge declares the options that can be swept, and the syntax of their values, with a [`Setting`].

use crate::grammar::{Cursor, SyntaxError};
use crate::names::UnknownName;
use crate::{Failure, Notice, NoticeId};
use std::fmt;
use std::str::FromStr;

/// Maximum number of combinations that one run measures.
const MOST_COMBINATIONS: usize = 256;
/// Name of the grammar in error messages.
const WHAT: &str = "sweep";

/// A value of an option that can be swept.
pub trait Setting: Clone + PartialEq + fmt::Display + 'static {
    /// Valid example of a sweep, ready to be typed.
    const EXAMPLE: &'static str;
    /// List of the axes, for the error message on an unknown axis.
    const EXPECTED: &'static str;
    /// Maximum number of axes of a sweep.
    const MOST_AXES: usize = 2;

    /// Returns the name of the axis that the value belongs to.
    fn axis(&self) -> &str;

    /// Returns the syntax of the values of axis `name`; `None` if there is no such axis.
    fn values(name: &str) -> Option<AxisSyntax<Self>>;

    /// Returns the name of another axis whose option the value sets too: `rank-map` for the policy `4/even`.
    fn also_sets(&self) -> Option<&'static str> {
        None
    }

    /// Formats the values of one axis in the syntax of the command line.
    fn list(all: &[Self]) -> String {
        if let Some(list) = Self::listed(all) {
            return list;
        }
        let syntax = all.first().and_then(|first| Self::values(first.axis()));
        let separator = syntax.and_then(|syntax| syntax.separator).unwrap_or(',').to_string();
        all.iter().map(Self::word).collect::<Vec<_>>().join(&separator)
    }

    /// Formats values whose lists have their own grammar, e.g. `1,2-8:2`; `None` if they are separated words.
    fn listed(_all: &[Self]) -> Option<String> {
        None
    }

    /// Formats the value as a word of a list.
    fn word(&self) -> String {
        self.to_string()
    }
}

/// Parser of the text of one value or of a list.
type ValueParser<S> = Box<dyn Fn(&str) -> Result<Vec<S>, Wrong>>;

/// Syntax of the values of an axis.
pub struct AxisSyntax<S> {
    /// Separator of the values; `None` if lists have their own grammar.
    pub separator: Option<char>,
    /// Parser of one value between separators, or of the whole list if `separator` is `None`.
    pub read: ValueParser<S>,
    /// Values of the axis if the user types only its name; empty if the axis requires values.
    pub alone: Vec<S>,
}

impl<S> AxisSyntax<S> {
    /// Returns the syntax of values separated by commas.
    pub fn parted(read: impl Fn(&str) -> Result<Vec<S>, Wrong> + 'static) -> Self {
        Self { separator: Some(','), read: Box::new(read), alone: Vec::new() }
    }

    /// Returns the syntax of lists that have their own grammar.
    pub fn listed(read: impl Fn(&str) -> Result<Vec<S>, Wrong> + 'static) -> Self {
        Self { separator: None, ..Self::parted(read) }
    }

    /// Sets the values of the axis for the case that the user types only its name.
    pub fn or_alone(self, alone: Vec<S>) -> Self {
        Self { alone, ..self }
    }
}

/// Error in a value: byte offset of the wrong character, and description.
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
/// Fails if the value does not follow its grammar.
pub fn one<T: FromStr<Err: Into<Wrong>>, S>(
    text: &str,
    setting: fn(T) -> S,
) -> Result<Vec<S>, Wrong> {
    text.parse().map(|value| vec![setting(value)]).map_err(Into::into)
}

/// Reads a list of values that has its own grammar.
///
/// # Errors
/// Fails if the list does not follow that grammar.
pub fn several<L, T, S>(text: &str, setting: fn(T) -> S) -> Result<Vec<S>, Wrong>
where
    L: FromStr<Err: Into<Wrong>> + IntoIterator<Item = T>,
{
    text.parse::<L>().map(|all| all.into_iter().map(setting).collect()).map_err(Into::into)
}

/// An axis of a sweep: the values of one option; never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis<S>(Vec<S>);

impl<S: Setting> Axis<S> {
    /// Returns an axis with these values; there must be at least one.
    pub fn of<T>(values: impl IntoIterator<Item = T>, setting: impl Fn(T) -> S) -> Self {
        Self(values.into_iter().map(setting).collect())
    }

    /// Returns the name of the axis.
    pub fn name(&self) -> &str {
        self.0[0].axis()
    }

    /// Returns the values of the axis.
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
        // The name of a variable may follow the axis: env:OMP_SCHEDULE.
        let name = cursor.take_while(|c| c.is_ascii_alphanumeric() || "-_:".contains(c));
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
        let rest = cursor.rest();
        let start = cursor.position();
        let listed = || vec![(0, rest)];
        let parts = values.separator.map_or_else(listed, |separator| parts(rest, separator));
        let mut settings = Vec::new();
        for (at, part) in parts {
            let part = if values.separator.is_some() { part.trim() } else { part };
            let read = (values.read)(part);
            settings.extend(read.map_err(|Wrong(i, why)| cursor.error_at(start + at + i, why))?);
        }
        Ok(Self(settings))
    }
}

/// Returns the parts of a list with their positions. A separator inside quotes or after a backslash does not
/// split.
fn parts(text: &str, separator: char) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let mut from = 0;
    let mut quote = None;
    let mut escaped = false;
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

/// Checks the axes before they are combined. `is_fixed` returns true if the user has also set the option with this name
/// to a single value.
///
/// # Errors
/// Fails if there are too many axes, an axis is given twice, an option is both fixed and swept, or a value sets an option
/// that is given elsewhere too.
pub fn check<S: Setting>(axes: &[Axis<S>], is_fixed: impl Fn(&str) -> bool) -> Result<(), Failure> {
    for (i, axis) in axes.iter().enumerate() {
        let name = axis.name();
        if axes[..i].iter().any(|other| other.name() == name) {
            return Err(Failure::usage(format!("the axis {name} is given twice"))
                .hint(format!("give all values in one --sweep, e.g. --sweep {axis}")));
        }
    }
    if let Some(axis) = axes.iter().find(|axis| is_fixed(axis.name())) {
        let name = axis.name();
        return Err(Failure::usage(format!("--{name} is both fixed and swept"))
            .hint(format!("leave out --{name}, e.g. --sweep {axis}")));
    }
    for value in axes.iter().flat_map(Axis::settings) {
        let Some(other) = value.also_sets() else { continue };
        let is_swept = axes.iter().any(|axis| axis.name() == other);
        if is_swept || is_fixed(other) {
            let option = if is_swept { format!("--sweep {other}") } else { format!("--{other}") };
            let name = value.axis();
            return Err(Failure::usage(format!(
                "{name} {value} and {option} both give the {other}"
            ))
            .hint(format!("leave out {option}, or the part after '/' in the values of {name}")));
        }
    }
    if axes.len() > S::MOST_AXES {
        let most = if S::MOST_AXES == 2 { "two" } else { "three" };
        let failure = Failure::usage(format!("a sweep has at most {most} axes"));
        return Err(failure.hint("set one of the axes to a single value with its own option"));
    }
    Ok(())
}

/// Returns all distinct combinations of the axes' values, in order, and a notice of `gauge` for each combination that
/// occurs twice.
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
    let mut each: Vec<Vec<S>> = Vec::new();
    let mut notices = Vec::new();
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

/// Checks the number of combinations.
///
/// # Errors
/// Fails if there are more combinations than one run measures.
pub fn check_count(combinations: usize) -> Result<(), Failure> {
    if combinations > MOST_COMBINATIONS {
        let message = format!(
            "the sweep has {combinations} combinations; the maximum is {MOST_COMBINATIONS}"
        );
        return Err(Failure::usage(message).hint("use fewer values"));
    }
    Ok(())
}

/// Formats a combination: `threads 4, pages thp`.
pub fn in_words<'s, S: Setting>(settings: impl IntoIterator<Item = &'s S>) -> String {
    let words = settings.into_iter().map(|value| format!("{} {value}", value.axis()));
    words.collect::<Vec<_>>().join(", ")
}

/// Returns notices for the combinations that this node cannot measure, with the reason. If `kept` contains no
/// combination with a certain value, a single notice reports that value without the other axes.
pub fn left_out<S: Setting>(all: &[(Vec<S>, Failure)], kept: &[&[S]], gauge: &str) -> Vec<Notice> {
    let mut reported: Vec<(Vec<&S>, &Failure)> = Vec::new();
    for (settings, why) in all {
        let is_gone = |value: &&S| !kept.iter().any(|other| other.contains(value));
        let what = match settings.iter().find(is_gone) {
            Some(value) => vec![value],
            None => settings.iter().collect(),
        };
        if reported.iter().all(|(known, _)| *known != what) {
            reported.push((what, why));
        }
    }
    let notice = |(what, why): (Vec<&S>, &Failure)| {
        let text = format!("{} left out: {}", in_words(what), why.in_a_line());
        Notice::new(NoticeId::LeftOut, gauge, text)
    };
    reported.into_iter().map(notice).collect()
}

#[cfg(test)]
mod tests;

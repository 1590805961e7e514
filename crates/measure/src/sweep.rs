//! Parameter sweeps: the grammar of `--sweep AXIS=VALUES`, the combinations of several axes, and
//! the checks of the combinations. A table ([`settings!`](crate::settings)) contains the options
//! that can be swept, with the syntax of their values and the code that applies them; it implements
//! [`Setting`].

use crate::grammar::{Cursor, SyntaxError};
use crate::names::{UnknownName, nearest};
use crate::{Failure, Notice, NoticeId};
use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;

/// Maximum number of axes of a sweep; published sweeps of ranks have three: their number, their
/// policy and their map.
const MAX_AXES: usize = 3;
/// Maximum number of combinations that one run measures.
const MAX_COMBINATIONS: usize = 256;
/// Name of the grammar in error messages.
const WHAT: &str = "sweep";

/// Value of an option that can be swept. Each setting is an option of a single run, an axis of a sweep and a key of the
/// record; tables of [`settings!`](crate::settings) implement this trait.
pub trait Setting: Clone + PartialEq + fmt::Display + 'static {
    /// Options of the user; a value replaces one of them.
    type Options;
    /// Valid example of a sweep, ready to be typed.
    const EXAMPLE: &'static str;

    /// Returns the names of all axes, for the error about an unknown axis.
    fn names() -> Vec<&'static str>;

    /// Returns the name of the axis that the value belongs to.
    fn axis(&self) -> &str;

    /// Returns the parser for the values of axis `name`; `None` if there is no such axis.
    fn values(name: &str) -> Option<AxisReader<Self>>;

    /// Formats the values of one axis in the syntax of the command line.
    fn list(all: &[Self]) -> String;

    /// True if the user has set the option of axis `name` to a single value.
    fn is_given(name: &str, options: &Self::Options) -> bool;

    /// Sets the option of the axis to the value.
    fn apply(&self, options: &mut Self::Options);

    /// Returns the name of another axis whose option the value also sets: `rank-map` for the policy
    /// `4/even`.
    fn linked_axis(&self) -> Option<&'static str> {
        None
    }
}

/// Parser of the text of one value or of a list.
type ValueParser<T> = Box<dyn Fn(&str) -> Result<Vec<T>, InvalidAxisValue>>;

/// Parser of the values of an axis.
pub struct AxisReader<T> {
    /// Separator of the values; `None` if lists have their own grammar.
    separator: Option<char>,
    /// Parser of one value; of the whole list if `separator` is `None`.
    read: ValueParser<T>,
    /// Values that the axis has if the user types only its name; empty if the axis requires values.
    alone: Vec<T>,
}

impl<T: 'static> AxisReader<T> {
    /// Returns the parser of values that are separated by commas; `read` parses each value.
    pub fn comma_separated(read: impl Fn(&str) -> Result<T, InvalidAxisValue> + 'static) -> Self {
        let read = Box::new(move |text: &str| Ok(vec![read(text)?]));
        Self { separator: Some(','), read, alone: Vec::new() }
    }

    /// Parses a list of values with this separator; `None` if the list has its own grammar.
    fn list(&self, text: &str, separator: Option<char>) -> Result<Vec<T>, InvalidAxisValue> {
        let Some(separator) = separator else { return (self.read)(text) };
        let mut all = Vec::new();
        for (at, part) in list_parts(text, separator) {
            let read = (self.read)(part.trim());
            all.extend(read.map_err(|wrong| InvalidAxisValue { at: at + wrong.at, ..wrong })?);
        }
        Ok(all)
    }

    /// Converts the values to settings.
    pub fn map<S: 'static>(self, setting: fn(T) -> S) -> AxisReader<S> {
        let Self { separator, read, alone } = self;
        AxisReader {
            separator,
            read: Box::new(move |text: &str| Ok(read(text)?.into_iter().map(setting).collect())),
            alone: alone.into_iter().map(setting).collect(),
        }
    }
}

/// Syntax of the values of an axis in a table of settings.
pub struct AxisSyntax<T> {
    /// Parser of the values.
    pub reader: AxisReader<T>,
    list: fn(&[T]) -> String,
}

impl<T: fmt::Display + 'static> AxisSyntax<T> {
    /// Returns the syntax of values that are separated by commas.
    pub fn comma_separated() -> Self
    where
        T: FromStr<Err: Into<InvalidAxisValue>>,
    {
        Self { reader: AxisReader::comma_separated(parsed::<T>), list: join_values::<T, ','> }
    }

    /// Returns the syntax of values that are separated by semicolons.
    pub fn semicolon_separated() -> Self
    where
        T: FromStr<Err: Into<InvalidAxisValue>>,
    {
        let reader =
            AxisReader { separator: Some(';'), ..AxisReader::comma_separated(parsed::<T>) };
        Self { reader, list: join_values::<T, ';'> }
    }

    /// Returns the syntax of lists `L`, which have their own grammar.
    pub fn with_list_grammar<L>() -> Self
    where
        L: FromStr<Err: Into<InvalidAxisValue>> + IntoIterator<Item = T> + 'static,
    {
        let reader = AxisReader { separator: None, read: Box::new(listed::<L>), alone: Vec::new() };
        Self { reader, list: join_values::<T, ','> }
    }

    /// Sets the parser of one value, for values whose syntax in a list differs from the syntax
    /// of the option.
    #[must_use]
    pub fn with_parser(mut self, read: fn(&str) -> Result<T, InvalidAxisValue>) -> Self {
        self.reader.read = Box::new(move |text| Ok(vec![read(text)?]));
        self
    }

    /// Sets the function that formats the values of an axis.
    #[must_use]
    pub fn with_formatter(self, list: fn(&[T]) -> String) -> Self {
        Self { list, ..self }
    }

    /// Sets the values that the axis has if the user types only its name.
    #[must_use]
    pub fn with_default(mut self, alone: &[T]) -> Self
    where
        T: Clone,
    {
        self.reader.alone = alone.to_vec();
        self
    }

    /// Formats the values of the axis in the syntax of the command line.
    pub fn list(&self, all: &[T]) -> String {
        (self.list)(all)
    }
}

/// Formats values, separated by `SEPARATOR`.
pub fn join_values<T: fmt::Display, const SEPARATOR: char>(all: &[T]) -> String {
    let words: Vec<String> = all.iter().map(ToString::to_string).collect();
    words.join(&SEPARATOR.to_string())
}

/// Parses one value.
fn parsed<T: FromStr<Err: Into<InvalidAxisValue>>>(text: &str) -> Result<T, InvalidAxisValue> {
    text.parse().map_err(Into::into)
}

/// Parses a list of values that has its own grammar.
fn listed<L>(text: &str) -> Result<Vec<L::Item>, InvalidAxisValue>
where
    L: FromStr<Err: Into<InvalidAxisValue>> + IntoIterator,
{
    text.parse::<L>().map(|all| all.into_iter().collect()).map_err(Into::into)
}

/// Error in a value: byte offset of the wrong character, description, and the name that was
/// probably meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidAxisValue {
    /// Byte offset of the wrong character.
    pub at: usize,
    /// Description of the problem.
    pub problem: String,
    /// Name that was probably meant.
    pub suggestion: Option<&'static str>,
}

impl From<SyntaxError> for InvalidAxisValue {
    fn from(error: SyntaxError) -> Self {
        Self { at: error.at, problem: error.problem, suggestion: error.suggestion }
    }
}

impl From<UnknownName> for InvalidAxisValue {
    fn from(error: UnknownName) -> Self {
        Self { at: 0, problem: error.to_string(), suggestion: error.nearest() }
    }
}

impl From<String> for InvalidAxisValue {
    fn from(problem: String) -> Self {
        Self { at: 0, problem, suggestion: None }
    }
}

/// An axis of a sweep: the values of one option; never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis<S>(Vec<S>);

impl<S: Setting> Axis<S> {
    /// Returns an axis with these values; there must be at least one.
    pub fn from_values<T>(values: impl IntoIterator<Item = T>, setting: impl Fn(T) -> S) -> Self {
        Self(values.into_iter().map(setting).collect())
    }

    /// True if the axis has this name.
    pub fn has_name(&self, name: &str) -> bool {
        self.name() == name
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
        let Some(values) = S::values(name) else {
            let names = S::names();
            let problem = format!("expected one of the axes {}", alternatives(&names));
            return Err(SyntaxError {
                suggestion: nearest(name, &names),
                ..cursor.error_at(0, problem)
            });
        };
        if alone && values.alone.is_empty() {
            return Err(cursor.error("expected '=' and values"));
        }
        if alone {
            return Ok(Self(values.alone));
        }
        let rest = cursor.rest();
        let start = cursor.position();
        let wrong = match values.list(rest, values.separator) {
            Ok(settings) => return Ok(Self(settings)),
            Err(wrong) => wrong,
        };
        // A list may have either separator, unless its values contain it.
        if let Some(other) = values.separator.and_then(|separator| other_separator(separator, rest))
            && let Ok(settings) = values.list(rest, Some(other))
        {
            return Ok(Self(settings));
        }
        let InvalidAxisValue { at, problem, suggestion } = wrong;
        Err(SyntaxError { suggestion, ..cursor.error_at(start + at, problem) })
    }
}

/// Returns the other separator if the list was probably written with it; `None` if it was not.
fn other_separator(own: char, list: &str) -> Option<char> {
    let other = if own == ',' { ';' } else { ',' };
    (list.contains(other) && !list.contains(own)).then_some(other)
}

/// Joins names: `threads, ranks or policy`.
fn alternatives(names: &[&str]) -> String {
    match names {
        [before @ .., last] if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        _ => names.concat(),
    }
}

/// Returns the parts of a list on the command line, with their positions. A separator inside quotes or after a
/// backslash does not split.
pub fn list_parts(text: &str, separator: char) -> Vec<(usize, &str)> {
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

/// Checks the axes before they are combined with the other options of the user.
///
/// # Errors
/// Fails if there are too many axes, if an axis is given twice, if an option is both fixed and swept, or if a value
/// sets an option that is also given elsewhere.
pub fn check<S: Setting>(axes: &[Axis<S>], options: &S::Options) -> Result<(), Failure> {
    for (i, axis) in axes.iter().enumerate() {
        let name = axis.name();
        if axes[..i].iter().any(|other| other.has_name(name)) {
            return Err(Failure::usage(format!("the axis {name} is given twice"))
                .hint(format!("give all values in one --sweep, e.g. --sweep {axis}")));
        }
    }
    if let Some(axis) = axes.iter().find(|axis| S::is_given(axis.name(), options)) {
        let name = axis.name();
        return Err(Failure::usage(format!("--{name} is both fixed and swept"))
            .hint(format!("leave out --{name}, e.g. --sweep {axis}")));
    }
    for value in axes.iter().flat_map(Axis::settings) {
        let Some(other) = value.linked_axis() else { continue };
        let is_swept = axes.iter().any(|axis| axis.has_name(other));
        if is_swept || S::is_given(other, options) {
            let option = if is_swept { format!("--sweep {other}") } else { format!("--{other}") };
            let name = value.axis();
            return Err(Failure::usage(format!(
                "{name} {value} and {option} both specify the {other}"
            ))
            .hint(format!("leave out {option}, or the part after '/' in the values of {name}")));
        }
    }
    if axes.len() > MAX_AXES {
        let failure = Failure::usage("a sweep has at most three axes");
        return Err(failure.hint("set one of the axes to a single value with its own option"));
    }
    Ok(())
}

/// Returns all distinct combinations of the axes' values, in order, with a notice of `gauge` for
/// each combination that occurs twice.
pub fn combinations<S: Setting>(axes: &[Axis<S>], gauge: &str) -> (Vec<Vec<S>>, Vec<Notice>) {
    let mut all: Vec<Vec<S>> = vec![Vec::new()];
    for axis in axes {
        let mut longer = Vec::new();
        for settings in &all {
            for value in axis.settings() {
                longer.push([&settings[..], std::slice::from_ref(value)].concat());
            }
        }
        all = longer;
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
    if combinations > MAX_COMBINATIONS {
        let message =
            format!("the sweep has {combinations} combinations; the maximum is {MAX_COMBINATIONS}");
        return Err(Failure::usage(message).hint("use fewer values"));
    }
    Ok(())
}

/// Formats a combination: `threads 4, pages thp`.
pub fn in_words<'s, S: Setting>(settings: impl IntoIterator<Item = &'s S>) -> String {
    let words = settings.into_iter().map(|value| format!("{} {value}", value.axis()));
    words.collect::<Vec<_>>().join(", ")
}

/// Combinations that this node cannot measure, all for the same reason.
struct OmittedCombinations<'s, S> {
    combinations: Vec<Vec<&'s S>>,
    reason: String,
}

impl<S: Setting> OmittedCombinations<'_, S> {
    /// Returns the combinations as text: `policy 0, 1, 2; ranks 4`. The name of an axis precedes
    /// consecutive values of this axis.
    fn in_words(&self) -> String {
        let mut text = String::new();
        let mut last_axis = None;
        for combination in &self.combinations {
            let axis = match combination.as_slice() {
                [value] => Some(value.axis()),
                _ => None,
            };
            if axis.is_some() && axis == last_axis {
                text += &format!(", {}", combination[0]);
            } else {
                let separator = if text.is_empty() { "" } else { "; " };
                text += &format!("{separator}{}", in_words(combination.iter().copied()));
            }
            last_axis = axis;
        }
        text
    }
}

/// Returns a notice for each reason why this node cannot measure combinations. If none of `kept`
/// has a certain value, the notice names only this value instead of all its combinations.
pub fn omission_notices<S: Setting>(
    all: &[(Vec<S>, Failure)],
    kept: &[&[S]],
    gauge: &str,
) -> Vec<Notice> {
    let mut groups: Vec<OmittedCombinations<'_, S>> = Vec::new();
    for (settings, why) in all {
        let mut values = settings.iter();
        let gone = values.find(|value| !kept.iter().any(|other| other.contains(value)));
        let what = match gone {
            Some(value) => vec![value],
            None => settings.iter().collect(),
        };
        if groups.iter().any(|group| group.combinations.contains(&what)) {
            continue;
        }
        let reason = why.single_line();
        match groups.iter_mut().find(|group| group.reason == reason) {
            Some(group) => group.combinations.push(what),
            None => groups.push(OmittedCombinations { combinations: vec![what], reason }),
        }
    }
    let mut notices = Vec::new();
    for group in groups {
        let text = format!("{} left out: {}", group.in_words(), group.reason);
        notices.push(Notice::new(NoticeId::LeftOut, gauge, text));
    }
    notices
}

/// Returns the cells that this node can measure, and notices of `gauge` about the combinations that it cannot measure.
/// `settings_of` returns the combination of a cell.
///
/// # Errors
/// Fails with the first error if no combination is supported, and with any error that does not depend on the machine.
pub fn keep_supported<S: Setting, C>(
    all: impl IntoIterator<Item = (Vec<S>, Result<C, Failure>)>,
    settings_of: impl Fn(&C) -> &[S],
    gauge: &str,
) -> Result<(Vec<C>, Vec<Notice>), Failure> {
    let mut kept: Vec<C> = Vec::new();
    let mut gone: Vec<(Vec<S>, Failure)> = Vec::new();
    for (settings, cell) in all {
        match cell {
            Ok(cell) => kept.push(cell),
            Err(why) if why.is_machine_failure() => gone.push((settings, why)),
            Err(why) => return Err(why),
        }
    }
    if kept.is_empty() && !gone.is_empty() {
        return Err(gone.swap_remove(0).1);
    }
    let supported: Vec<&[S]> = kept.iter().map(settings_of).collect();
    let notices = omission_notices(&gone, &supported, gauge);
    Ok((kept, notices))
}

/// Returns the value on each axis, in the form of the record.
pub fn coordinates<S: Setting>(settings: &[S]) -> Map<String, Value> {
    settings.iter().map(|value| (value.axis().to_owned(), value.to_string().into())).collect()
}

mod settings;
#[cfg(test)]
mod tests;

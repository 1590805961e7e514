//! The grammar of `KMP_AFFINITY`, the affinity variable of the Intel and LLVM OpenMP runtimes:
//! `[modifier,...]type[,permute][,offset]`.
//!
//! Pure. [`KmpAffinity::resolve`] gives each thread the CPUs that libomp would give it. A word
//! that libomp would warn about and ignore is an error here. Source: LLVM/OpenMP runtime
//! documentation, "KMP_AFFINITY".

mod resolve;

use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use std::fmt;
use std::str::FromStr;

const WHAT: &str = "KMP_AFFINITY";
const EXAMPLE: &str =
    "KMP_AFFINITY=granularity=fine,compact,1,0 or KMP_AFFINITY=proclist=[0-6:2],explicit";

/// What `KMP_AFFINITY` says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KmpAffinity {
    /// `verbose` or `noverbose`; accepted, placements are always shown on demand.
    pub verbose: Option<bool>,
    /// `warnings` or `nowarnings`; accepted without effect.
    pub warnings: Option<bool>,
    /// `respect` or `norespect` the affinity mask of the process; always respected.
    pub respect: Option<bool>,
    /// `reset` or `noreset` the affinity of the first thread; accepted without effect.
    pub reset: Option<bool>,
    /// What a thread is bound to; a core when absent.
    pub granularity: Option<Granularity>,
    /// How threads are ordered; absent when only modifiers are given, which places nothing.
    pub kind: Option<KmpKind>,
}

/// The hardware object that a thread is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// `fine` or `thread`: a hardware thread.
    Thread,
    /// `core`.
    Core,
    /// `tile`: the cores that share a level-2 cache.
    Tile,
    /// `l2_cache` or `l2`.
    L2,
    /// `l3_cache` or `l3`.
    L3,
    /// `ll_cache`: the last-level cache.
    Llc,
    /// `numa_domain`, `numa` or `node`.
    Numa,
    /// `socket` or `package`.
    Socket,
}

/// The type, with its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KmpKind {
    /// Neighbouring threads as close as possible.
    Compact(Numbers),
    /// Neighbouring threads as far apart as possible.
    Scatter(Numbers),
    /// As many threads on each core as on any other, consecutive ones on the same core.
    Balanced(Numbers),
    /// The CPUs of `proclist`, one entry a thread.
    Explicit(Vec<ProcItem>),
    /// Threads are not bound.
    None,
    /// The affinity interface is off: threads are not bound.
    Disabled,
}

/// `permute` and `offset`, 0 when absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Numbers {
    /// Levels taken from the other end: compact makes as many of the innermost levels the slowest
    /// to vary, scatter leaves as many of the outermost, besides the first, as compact has them.
    pub permute: u32,
    /// The position at which the first thread starts.
    pub offset: u32,
}

/// One entry of `proclist`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcItem {
    /// `first[-last[:stride]]`, one thread for each CPU.
    Range {
        /// The first CPU.
        first: u32,
        /// The last CPU at most; below `first` only when the stride is negative.
        last: u32,
        /// Not 0; 1 for a single CPU.
        stride: i32,
    },
    /// `{a,b}`: one thread that may run on any of these.
    Set(Vec<u32>),
}

impl Granularity {
    /// Words and what they mean; the first word of each is how it is printed.
    const WORDS: [(&'static str, Self); 14] = [
        ("fine", Self::Thread),
        ("thread", Self::Thread),
        ("core", Self::Core),
        ("tile", Self::Tile),
        ("l2_cache", Self::L2),
        ("l2", Self::L2),
        ("l3_cache", Self::L3),
        ("l3", Self::L3),
        ("ll_cache", Self::Llc),
        ("numa_domain", Self::Numa),
        ("numa", Self::Numa),
        ("node", Self::Numa),
        ("socket", Self::Socket),
        ("package", Self::Socket),
    ];

    /// As `KMP_AFFINITY` says it.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, meaning)| *meaning == self).map_or("core", |(word, _)| word)
    }
}

/// What has been read so far, with the places of words that can still turn out wrong.
#[derive(Default)]
struct Draft {
    affinity: KmpAffinity,
    kind: Option<&'static str>,
    proclist: Option<(usize, Vec<ProcItem>)>,
    numbers: Vec<(usize, u32)>,
}

/// The types.
const KINDS: [&str; 6] = ["compact", "scatter", "balanced", "explicit", "none", "disabled"];

impl FromStr for KmpAffinity {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(WHAT, EXAMPLE, text);
        let mut draft = Draft::default();
        loop {
            cursor.skip_blanks();
            if cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
                let at = cursor.position();
                let number = small(&mut cursor, "expected a number")?;
                if draft.numbers.len() == 2 {
                    return Err(cursor.error_at(at, "permute and offset are already given"));
                }
                draft.numbers.push((at, number));
            } else {
                word(&mut cursor, &mut draft)?;
            }
            cursor.skip_blanks();
            if cursor.at_end() {
                return finish(&cursor, draft);
            }
            cursor.expect(',', "expected ',' or the end")?;
        }
    }
}

fn word(cursor: &mut Cursor<'_>, draft: &mut Draft) -> Result<(), SyntaxError> {
    let at = cursor.position();
    let text = cursor.take_while(|c| c.is_ascii_alphanumeric()).to_ascii_lowercase();
    if let Some(kind) = KINDS.into_iter().find(|kind| *kind == text) {
        if draft.kind.replace(kind).is_some() {
            return Err(cursor.error_at(at, "a type is already given"));
        }
        return Ok(());
    }
    let affinity = &mut draft.affinity;
    match text.as_str() {
        "verbose" => affinity.verbose = Some(true),
        "noverbose" => affinity.verbose = Some(false),
        "warnings" => affinity.warnings = Some(true),
        "nowarnings" => affinity.warnings = Some(false),
        "respect" => affinity.respect = Some(true),
        "norespect" => affinity.respect = Some(false),
        "reset" => affinity.reset = Some(true),
        "noreset" => affinity.reset = Some(false),
        "granularity" | "gran" => {
            equals(cursor)?;
            affinity.granularity = Some(granularity(cursor)?);
        }
        "proclist" => {
            equals(cursor)?;
            if draft.proclist.is_some() {
                return Err(cursor.error_at(at, "a proclist is already given"));
            }
            draft.proclist = Some((at, proclist(cursor)?));
        }
        _ => {
            return Err(cursor.error_at(
                at,
                "expected compact, scatter, balanced, explicit, none, disabled or a modifier",
            ));
        }
    }
    Ok(())
}

fn equals(cursor: &mut Cursor<'_>) -> Result<(), SyntaxError> {
    cursor.skip_blanks();
    cursor.expect('=', "expected '='")?;
    cursor.skip_blanks();
    Ok(())
}

fn granularity(cursor: &mut Cursor<'_>) -> Result<Granularity, SyntaxError> {
    let at = cursor.position();
    let text = cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_').to_ascii_lowercase();
    let known = Granularity::WORDS.iter().find(|(word, _)| *word == text);
    known.map(|(_, meaning)| *meaning).ok_or_else(|| {
        cursor.error_at(
            at,
            "expected fine, core, tile, l2_cache, l3_cache, ll_cache, numa_domain or socket",
        )
    })
}

fn proclist(cursor: &mut Cursor<'_>) -> Result<Vec<ProcItem>, SyntaxError> {
    cursor.expect('[', "expected '[' before the CPUs")?;
    let mut items = Vec::new();
    loop {
        cursor.skip_blanks();
        items.push(if cursor.eat('{') { set(cursor)? } else { range(cursor)? });
        cursor.skip_blanks();
        if cursor.eat(']') {
            return Ok(items);
        }
        cursor.expect(',', "expected ',' or ']'")?;
    }
}

fn set(cursor: &mut Cursor<'_>) -> Result<ProcItem, SyntaxError> {
    let mut cpus = Vec::new();
    loop {
        cursor.skip_blanks();
        cpus.push(small(cursor, "expected a CPU number")?);
        cursor.skip_blanks();
        if cursor.eat('}') {
            return Ok(ProcItem::Set(cpus));
        }
        cursor.expect(',', "expected ',' or '}'")?;
    }
}

fn range(cursor: &mut Cursor<'_>) -> Result<ProcItem, SyntaxError> {
    let first = small(cursor, "expected a CPU number or '{'")?;
    cursor.skip_blanks();
    if !cursor.eat('-') {
        return Ok(ProcItem::Range { first, last: first, stride: 1 });
    }
    cursor.skip_blanks();
    let last_at = cursor.position();
    let last = small(cursor, "expected the last CPU after '-'")?;
    cursor.skip_blanks();
    let stride = if cursor.eat(':') {
        cursor.skip_blanks();
        let negative = cursor.eat('-');
        let at = cursor.position();
        let stride = small(cursor, "expected a stride after ':'")?;
        match i32::try_from(stride) {
            Ok(0) => return Err(cursor.error_at(at, "expected a stride other than 0")),
            Ok(stride) if negative => -stride,
            Ok(stride) => stride,
            Err(_) => return Err(cursor.error_at(at, "this number is too large")),
        }
    } else {
        1
    };
    match first.cmp(&last) {
        std::cmp::Ordering::Equal => Ok(ProcItem::Range { first, last, stride: 1 }),
        std::cmp::Ordering::Less if stride < 0 => {
            Err(cursor.error_at(last_at, "with a negative stride a range goes down"))
        }
        std::cmp::Ordering::Greater if stride > 0 => {
            Err(cursor.error_at(last_at, "a range goes up unless its stride is negative"))
        }
        _ => Ok(ProcItem::Range { first, last, stride }),
    }
}

fn small(cursor: &mut Cursor<'_>, problem: &str) -> Result<u32, SyntaxError> {
    let at = cursor.position();
    let number = cursor.number(problem)?;
    u32::try_from(number).map_err(|_| cursor.error_at(at, "this number is too large"))
}

/// Puts type, numbers and proclist together, once all is read: they may come in any order.
fn finish(cursor: &Cursor<'_>, draft: Draft) -> Result<KmpAffinity, SyntaxError> {
    let Draft { mut affinity, kind, proclist, numbers } = draft;
    let number = |index: usize| numbers.get(index).map_or(0, |(_, number)| *number);
    let permuted = Numbers { permute: number(0), offset: number(1) };
    // libomp takes a proclist without a type as explicit, too.
    let kind = kind.or(proclist.as_ref().map(|_| "explicit"));
    if let (Some((at, _)), Some(kind)) = (&proclist, kind)
        && kind != "explicit"
    {
        return Err(cursor.error_at(*at, "a proclist goes with the type explicit only"));
    }
    let ordered = matches!(kind, Some("compact" | "scatter" | "balanced"));
    if let Some((at, _)) = numbers.first()
        && !ordered
    {
        let problem = "permute and offset go with compact, scatter and balanced only";
        return Err(cursor.error_at(*at, problem));
    }
    affinity.kind = match kind {
        Some("compact") => Some(KmpKind::Compact(permuted)),
        Some("scatter") => Some(KmpKind::Scatter(permuted)),
        Some("balanced") => Some(KmpKind::Balanced(permuted)),
        Some("explicit") => match proclist {
            Some((_, items)) => Some(KmpKind::Explicit(items)),
            None => return Err(cursor.error("expected proclist=[...] with the type explicit")),
        },
        Some("none") => Some(KmpKind::None),
        Some("disabled") => Some(KmpKind::Disabled),
        _ => None,
    };
    Ok(affinity)
}

impl fmt::Display for KmpAffinity {
    /// Canonical: modifiers, granularity, proclist, type, permute, offset; absent and 0 left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = [
            (self.verbose, "verbose"),
            (self.warnings, "warnings"),
            (self.respect, "respect"),
            (self.reset, "reset"),
        ];
        let mut words: Vec<String> = flags
            .into_iter()
            .filter_map(|(flag, name)| Some(format!("{}{name}", if flag? { "" } else { "no" })))
            .collect();
        words.extend(self.granularity.map(|g| format!("granularity={}", g.as_str())));
        let mut ordered = |name: &str, numbers: &Numbers| {
            words.push(name.to_owned());
            if numbers.permute != 0 || numbers.offset != 0 {
                words.push(numbers.permute.to_string());
            }
            if numbers.offset != 0 {
                words.push(numbers.offset.to_string());
            }
        };
        match &self.kind {
            Some(KmpKind::Compact(numbers)) => ordered("compact", numbers),
            Some(KmpKind::Scatter(numbers)) => ordered("scatter", numbers),
            Some(KmpKind::Balanced(numbers)) => ordered("balanced", numbers),
            Some(KmpKind::Explicit(items)) => {
                let items: Vec<String> = items.iter().map(ProcItem::to_string).collect();
                words.push(format!("proclist=[{}]", items.join(",")));
                words.push("explicit".to_owned());
            }
            Some(KmpKind::None) => words.push("none".to_owned()),
            Some(KmpKind::Disabled) => words.push("disabled".to_owned()),
            None => {}
        }
        f.write_str(&words.join(","))
    }
}

impl fmt::Display for ProcItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { first, last, .. } if first == last => first.fmt(f),
            Self::Range { first, last, stride: 1 } => write!(f, "{first}-{last}"),
            Self::Range { first, last, stride } => write!(f, "{first}-{last}:{stride}"),
            Self::Set(cpus) => {
                let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
                write!(f, "{{{}}}", cpus.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Grammar of `KMP_AFFINITY`, the affinity variable of the Intel and LLVM OpenMP runtimes:
//! `[modifier,...]type[,permute][,offset]`.
//!
//! The module performs no system calls. [`KmpAffinity::resolve`] assigns to each thread the CPUs that libomp would
//! assign. A word that libomp would ignore with a warning is an error in this parser. Source: LLVM/OpenMP runtime
//! documentation, "KMP_AFFINITY".

mod resolve;

use crate::cpus::join_with_commas;
use crate::grammar;
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use std::fmt;
use std::str::FromStr;

const WHAT: &str = "KMP_AFFINITY";
const EXAMPLE: &str =
    "KMP_AFFINITY=granularity=fine,compact,1,0 or KMP_AFFINITY=proclist=[0-6:2],explicit";

/// Parsed value of `KMP_AFFINITY`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KmpAffinity {
    /// Modifiers in the order of [`FLAGS`]: true if given, false if given with the prefix `no`, `None` if absent. The
    /// modifiers have no effect, because placements are printed only on request, and the affinity mask of the process
    /// is always respected.
    pub(crate) flags: [Option<bool>; 4],
    /// Kind of hardware object to which a thread is bound; a core if absent.
    pub granularity: Option<Granularity>,
    /// Type, which determines the order of threads; `None` if only modifiers are given. The variable then does not
    /// affect the placement.
    pub kind: Option<KmpKind>,
}

/// Modifiers that accept the prefix `no`.
const FLAGS: [&str; 4] = ["verbose", "warnings", "respect", "reset"];
/// Index of `respect` in [`FLAGS`].
const RESPECT: usize = 2;

/// Kind of hardware object to which a thread is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// Hardware thread (`fine` or `thread`).
    Thread,
    /// Core (`core`).
    Core,
    /// Cores that share a level-2 cache (`tile`).
    Tile,
    /// Level-1 cache (`l1_cache`), which each core has.
    L1,
    /// Level-2 cache (`l2_cache`).
    L2,
    /// Level-3 cache (`l3_cache`).
    L3,
    /// Last-level cache (`ll_cache`).
    Llc,
    /// NUMA node (`numa_domain` or `node`).
    Numa,
    /// Die of a socket (`die`). Topologies do not contain dies; as in libomp, a core replaces a missing object.
    Die,
    /// Cores that share a module (`module`), which topologies do not contain, either.
    Module,
    /// Processor group of Windows (`proc_group`), which no other system has.
    ProcessorGroup,
    /// Socket (`socket` or `package`).
    Socket,
}

/// Type of affinity, with its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KmpKind {
    /// Threads are bound to hardware threads in this order, with the numbers `permute` and `offset`.
    Ordered(KmpOrder, KmpNumbers),
    /// Threads are bound to the CPUs and sets of `proclist`, in this order.
    Explicit(Vec<ProcItem>),
    /// Threads are not bound.
    None,
    /// The affinity interface is disabled, so that threads are not bound.
    Disabled,
}

/// Order in which threads occupy the hardware threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KmpOrder {
    /// Threads with consecutive numbers are as close as possible.
    Compact,
    /// Threads with consecutive numbers are as far apart as possible.
    Scatter,
    /// Every core gets an equal number of threads, with consecutive threads on the same core.
    Balanced,
}

/// Numbers `permute` and `offset`; 0 if absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KmpNumbers {
    /// Number `permute` of `KMP_AFFINITY`, which counts levels of the machine. With compact, this number of innermost
    /// levels varies slowest instead of fastest. With scatter, this number of outer levels, in addition to the
    /// outermost, has the order of compact.
    pub permute: u32,
    /// Position of the first thread in the order of hardware threads.
    pub offset: u32,
}

/// Entry of `proclist`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcItem {
    /// Range `first[-last[:stride]]` with one thread per CPU.
    Range {
        /// First CPU of the range.
        first: u32,
        /// Limit of the last CPU. It is less than `first` only if the stride is negative.
        last: u32,
        /// Distance between consecutive CPUs; never 0, and 1 for a single CPU.
        stride: i32,
    },
    /// Set `{a,b}` for one thread, which may run on any of these CPUs.
    Set(Vec<u32>),
}

impl Granularity {
    /// Accepted words with their meaning. Of several words with the same meaning, the first is canonical.
    const WORDS: [(&'static str, Self); 15] = [
        ("fine", Self::Thread),
        ("thread", Self::Thread),
        ("core", Self::Core),
        ("tile", Self::Tile),
        ("module", Self::Module),
        ("l1_cache", Self::L1),
        ("l2_cache", Self::L2),
        ("l3_cache", Self::L3),
        ("ll_cache", Self::Llc),
        ("die", Self::Die),
        ("numa_domain", Self::Numa),
        ("node", Self::Numa),
        ("proc_group", Self::ProcessorGroup),
        ("socket", Self::Socket),
        ("package", Self::Socket),
    ];

    /// Returns the canonical word in `KMP_AFFINITY`.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, meaning)| *meaning == self).map_or("core", |(word, _)| word)
    }
}

/// State of the parser, with the positions of words whose validity depends on later words.
#[derive(Default)]
struct Draft {
    affinity: KmpAffinity,
    proclist: Option<(usize, Vec<ProcItem>)>,
    numbers: Vec<(usize, u32)>,
}

/// Types by name. [`finish`] adds the numbers and the proclist.
const KINDS: [(&str, KmpKind); 6] = [
    ("compact", KmpKind::Ordered(KmpOrder::Compact, KmpNumbers { permute: 0, offset: 0 })),
    ("scatter", KmpKind::Ordered(KmpOrder::Scatter, KmpNumbers { permute: 0, offset: 0 })),
    ("balanced", KmpKind::Ordered(KmpOrder::Balanced, KmpNumbers { permute: 0, offset: 0 })),
    ("explicit", KmpKind::Explicit(Vec::new())),
    ("none", KmpKind::None),
    ("disabled", KmpKind::Disabled),
];

impl FromStr for KmpAffinity {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(WHAT, EXAMPLE, text);
        let mut draft = Draft::default();
        grammar::list(&mut cursor, None, "expected ',' or the end", |cursor| {
            let at = cursor.position();
            if !cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
                return word(cursor, &mut draft);
            }
            let number = grammar::number(cursor, "expected a number")?;
            if draft.numbers.len() == 2 {
                return Err(cursor.error_at(at, "permute and offset are already given"));
            }
            draft.numbers.push((at, number));
            Ok(())
        })?;
        finish(&cursor, draft)
    }
}

fn word(cursor: &mut Cursor<'_>, draft: &mut Draft) -> Result<(), SyntaxError> {
    let at = cursor.position();
    let text = cursor.take_while(|c| c.is_ascii_alphanumeric()).to_ascii_lowercase();
    if let Some((_, kind)) = KINDS.into_iter().find(|(name, _)| *name == text) {
        if draft.affinity.kind.replace(kind).is_some() {
            return Err(cursor.error_at(at, "a type is already given"));
        }
        return Ok(());
    }
    let (name, given) = match text.strip_prefix("no") {
        Some(name) => (name, false),
        None => (text.as_str(), true),
    };
    if let Some(flag) = FLAGS.iter().position(|flag| *flag == name) {
        draft.affinity.flags[flag] = Some(given);
        return Ok(());
    }
    match text.as_str() {
        "granularity" | "gran" => {
            equals(cursor)?;
            draft.affinity.granularity = Some(granularity(cursor)?);
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
            "expected fine, core, tile, module, l1_cache, l2_cache, l3_cache, ll_cache, die, numa_domain or socket",
        )
    })
}

fn proclist(cursor: &mut Cursor<'_>) -> Result<Vec<ProcItem>, SyntaxError> {
    cursor.expect('[', "expected '[' before the CPUs")?;
    grammar::list(cursor, Some(']'), "expected ',' or ']'", |cursor| {
        if cursor.eat('{') {
            grammar::list(cursor, Some('}'), "expected ',' or '}'", |cursor| {
                grammar::number(cursor, "expected a CPU number")
            })
            .map(ProcItem::Set)
        } else {
            range(cursor)
        }
    })
}

fn range(cursor: &mut Cursor<'_>) -> Result<ProcItem, SyntaxError> {
    let first = grammar::number(cursor, "expected a CPU number or '{'")?;
    cursor.skip_blanks();
    if !cursor.eat('-') {
        return Ok(ProcItem::Range { first, last: first, stride: 1 });
    }
    cursor.skip_blanks();
    let last_at = cursor.position();
    let last = grammar::number(cursor, "expected the last CPU after '-'")?;
    cursor.skip_blanks();
    let stride = if cursor.eat(':') {
        cursor.skip_blanks();
        let negative = cursor.eat('-');
        let at = cursor.position();
        let stride = grammar::number(cursor, "expected a stride after ':'")?;
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
        std::cmp::Ordering::Less if stride < 0 => Err(cursor.error_at(
            last_at,
            "with a negative stride, a range must begin with the larger number",
        )),
        std::cmp::Ordering::Greater if stride > 0 => Err(cursor.error_at(
            last_at,
            "a range must begin with the smaller number unless the stride is negative",
        )),
        _ => Ok(ProcItem::Range { first, last, stride }),
    }
}

/// Combines the type, the numbers and the proclist after the whole text is parsed, because they may occur in any order.
fn finish(cursor: &Cursor<'_>, draft: Draft) -> Result<KmpAffinity, SyntaxError> {
    let Draft { mut affinity, proclist, numbers } = draft;
    if proclist.is_some() {
        // As in libomp, a proclist without a type implies the type explicit.
        affinity.kind.get_or_insert(KmpKind::Explicit(Vec::new()));
    }
    match (&mut affinity.kind, proclist, numbers.first()) {
        (Some(KmpKind::Ordered(_, taken)), None, Some((_, permute))) => {
            let offset = numbers.get(1).map_or(0, |(_, offset)| *offset);
            *taken = KmpNumbers { permute: *permute, offset };
        }
        (Some(KmpKind::Explicit(items)), Some((_, listed)), None) => *items = listed,
        (Some(KmpKind::Explicit(_)), None, None) => {
            return Err(cursor.error("expected proclist=[...] with the type explicit"));
        }
        (kind, Some((at, _)), _) if !matches!(kind, Some(KmpKind::Explicit(_))) => {
            return Err(cursor.error_at(at, "a proclist requires the type explicit"));
        }
        (_, _, Some((at, _))) => {
            let problem = "permute and offset require the type compact, scatter or balanced";
            return Err(cursor.error_at(*at, problem));
        }
        (_, _, None) => {}
    }
    Ok(affinity)
}

impl fmt::Display for KmpAffinity {
    /// Formats the canonical form: modifiers, granularity, proclist, type, permute, offset. Absent parts and zeros are
    /// omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = std::iter::zip(self.flags, FLAGS)
            .filter_map(|(flag, name)| Some(format!("{}{name}", if flag? { "" } else { "no" })))
            .collect();
        words.extend(self.granularity.map(|g| format!("granularity={}", g.as_str())));
        match &self.kind {
            Some(KmpKind::Ordered(order, KmpNumbers { permute, offset })) => {
                words.push(format!("{order:?}").to_lowercase());
                match (permute, offset) {
                    (0, 0) => {}
                    (_, 0) => words.push(permute.to_string()),
                    _ => words.push(format!("{permute},{offset}")),
                }
            }
            Some(KmpKind::Explicit(items)) => {
                words.push(format!("proclist=[{}],explicit", join_with_commas(items)));
            }
            Some(KmpKind::None) => words.push("none".to_owned()),
            Some(KmpKind::Disabled) => words.push("disabled".to_owned()),
            None => {}
        }
        f.write_str(&join_with_commas(words))
    }
}

impl fmt::Display for ProcItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { first, last, .. } if first == last => first.fmt(f),
            Self::Range { first, last, stride: 1 } => write!(f, "{first}-{last}"),
            Self::Range { first, last, stride } => write!(f, "{first}-{last}:{stride}"),
            Self::Set(cpus) => write!(f, "{{{}}}", join_with_commas(cpus)),
        }
    }
}

#[cfg(test)]
mod tests;

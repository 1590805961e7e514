//! Host names, and launcher options that start the same number of ranks on each of several hosts. The functions are
//! pure.
//!
//! Launchers pass host names to ssh, which interprets a name with a leading hyphen as an option. Therefore only valid
//! host names are accepted.

use super::LauncherKind;
use nodegauge_measure::grammar::{Cursor, SyntaxError};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::str::FromStr;

/// List of hosts in the notation of users and of Slurm: names (RFC 1123, and underscores, which Slurm permits) or
/// IPv6 addresses, separated by commas. A name may contain any number of ranges in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostList(pub Vec<String>);

/// Maximum number of hosts in a list. It is Slurm's limit for a job (`MAX_SLURM_NODES`).
const MAX_HOSTS: usize = 65_536;
/// Maximum number of characters of a host name (RFC 1123, 2.1). The next constant is the maximum for each part between
/// points (RFC 1035, 2.3.4).
const MAX_CHARACTERS: usize = 253;
const MAX_PART_CHARACTERS: usize = 63;

impl FromStr for HostList {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("hosts", "node1,node2 or node[01-16].site", text);
        let mut hosts = Vec::new();
        loop {
            let start = cursor.position();
            let names = names(&mut cursor)?;
            if let Some(why) = names.iter().find_map(|name| name_error(name)) {
                return Err(cursor.error_at(start, why));
            }
            hosts.extend(names);
            if hosts.len() > MAX_HOSTS {
                return Err(cursor.error_at(start, format!("expected at most {MAX_HOSTS} hosts")));
            }
            if !cursor.eat(',') {
                break;
            }
        }
        cursor.finish("expected ',', '[' or the end after a host")?;
        Ok(Self(hosts))
    }
}

impl HostList {
    /// Separates valid names from invalid names, which must not be passed to another program.
    pub fn split_invalid_names(names: &[String]) -> (Vec<String>, Vec<String>) {
        names.iter().cloned().partition(|name| {
            name.parse::<Self>().is_ok_and(|list| list.0.len() == 1 && list.0[0] == *name)
        })
    }

    /// Returns the names as one word with ranges, as Slurm and ClusterShell write them: `n[01-04,09],login`.
    /// Parsing the word returns the names sorted and without duplicates.
    pub fn fold_names(names: &[String]) -> String {
        let mut families: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        let mut words: BTreeSet<String> = BTreeSet::new();
        for name in names.iter().collect::<BTreeSet<_>>() {
            match last_number(name) {
                Some((before, digits, after)) => {
                    families.entry((before, after)).or_default().push(digits);
                }
                None => {
                    words.insert(name.clone());
                }
            }
        }
        for ((before, after), numbers) in families {
            // If some numbers are padded with zeros, numbers of the same length without a leading zero belong to them.
            let padded: BTreeSet<usize> =
                numbers.iter().filter(|n| is_padded(n)).map(|n| n.len()).collect();
            let mut of_width: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
            for digits in numbers {
                let width = if padded.contains(&digits.len()) { digits.len() } else { 0 };
                of_width.entry(width).or_default().extend(digits.parse::<u64>());
            }
            for (width, mut values) in of_width {
                values.sort_unstable();
                words.insert(format!("{before}{}{after}", in_ranges(&values, width)));
            }
        }
        words.into_iter().collect::<Vec<_>>().join(",")
    }
}

/// True if a number is written with leading zeros.
fn is_padded(digits: &str) -> bool {
    digits.len() > 1 && digits.starts_with('0')
}

/// Splits a name at its last number: the part before the number, its digits, and the part after it. A number with more
/// than 18 digits is treated as text.
fn last_number(name: &str) -> Option<(&str, &str, &str)> {
    const MAX_DIGITS: usize = 18;
    if name.contains(':') {
        return None;
    }
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = name[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    let start = if name.is_char_boundary(start) { start } else { return None };
    let digits = &name[start..end];
    (digits.len() <= MAX_DIGITS).then(|| (&name[..start], digits, &name[end..]))
}

/// Formats ascending numbers as `7` or `[01-04,09]`.
fn in_ranges(values: &[u64], width: usize) -> String {
    if let [only] = values {
        return format!("{only:0width$}");
    }
    let ranges: Vec<String> = values
        .chunk_by(|one, next| one + 1 == *next)
        .map(|run| match run {
            [only] => format!("{only:0width$}"),
            [first, .., last] => format!("{first:0width$}-{last:0width$}"),
            [] => String::new(),
        })
        .collect();
    format!("[{}]", ranges.join(","))
}

/// Parses one word with ranges and returns the host names.
fn names(cursor: &mut Cursor<'_>) -> Result<Vec<String>, SyntaxError> {
    let mut names = vec![String::new()];
    loop {
        let part = cursor.take_while(|c| c.is_ascii_alphanumeric() || ".-_:".contains(c));
        names.iter_mut().for_each(|name| name.push_str(part));
        if !cursor.eat('[') {
            if names[0].is_empty() {
                return Err(cursor.error("expected the name of a host"));
            }
            return Ok(names);
        }
        let start = cursor.position();
        let numbers = numbers(cursor)?;
        if names.len() * numbers.len() > MAX_HOSTS {
            return Err(cursor.error_at(start, format!("expected at most {MAX_HOSTS} hosts")));
        }
        let mut numbered = Vec::new();
        for name in &names {
            numbered.extend(numbers.iter().map(|number| format!("{name}{number}")));
        }
        names = numbered;
    }
}

/// Parses the content of a bracket and its end, such as `01-04,7]`. The numbers of a range have as many digits as its
/// first number.
fn numbers(cursor: &mut Cursor<'_>) -> Result<Vec<String>, SyntaxError> {
    let mut all = Vec::new();
    loop {
        let start = cursor.position();
        let first = cursor.number("expected a number")?;
        let digits = cursor.position() - start;
        let last = if cursor.eat('-') {
            cursor.number("expected the last number of the range")?
        } else {
            first
        };
        if last < first || last - first >= MAX_HOSTS as u64 {
            return Err(cursor.error_at(
                start,
                format!("expected an ascending range of at most {MAX_HOSTS} hosts"),
            ));
        }
        all.extend((first..=last).map(|n| format!("{n:0digits$}")));
        if !cursor.eat(',') {
            break;
        }
    }
    cursor.expect(']', "expected ',', '-' or ']' after a number")?;
    Ok(all)
}

/// Returns the reason why a host name is invalid; `None` for a valid name.
fn name_error(name: &str) -> Option<&'static str> {
    if name.contains(':') {
        let fits = name.parse::<Ipv6Addr>().is_ok();
        return (!fits).then_some("expected an IPv6 address");
    }
    let fits =
        name.len() <= MAX_CHARACTERS && !name.starts_with('_') && name.split('.').all(is_name_part);
    (!fits).then_some(
        "expected parts of 1 to 63 letters, digits, hyphens and underscores, no hyphen at their ends",
    )
}

/// True if the text may stand between two points of a host name.
fn is_name_part(part: &str) -> bool {
    let has_hyphen_at_end = part.starts_with('-') || part.ends_with('-');
    !part.is_empty() && part.len() <= MAX_PART_CHARACTERS && !has_hyphen_at_end
}

/// Ranks on several hosts, with the same number of ranks per host, bound to cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRanks<'a> {
    /// Names of the hosts.
    pub hosts: &'a [String],
    /// Number of ranks per host.
    pub per_host: usize,
    /// Number of cores per rank; `None` if the launcher decides.
    pub threads: Option<usize>,
}

impl HostRanks<'_> {
    /// Returns the arguments with which the launcher places the ranks on the hosts.
    pub fn arguments(&self, launcher: LauncherKind) -> Vec<String> {
        let Self { hosts, per_host, threads } = *self;
        let nodes = hosts.len();
        let ranks = nodes * per_host;
        let names = hosts.join(",");
        let text = match launcher {
            LauncherKind::OpenMpi => {
                let slots: Vec<String> =
                    hosts.iter().map(|host| format!("{host}:{per_host}")).collect();
                let map = threads.map_or("node".to_owned(), |threads| {
                    format!("ppr:{per_host}:node:PE={threads}")
                });
                let slots = slots.join(",");
                format!("-np {ranks} --host {slots} --map-by {map} --bind-to core")
            }
            LauncherKind::Hydra => {
                let cores = threads.map_or(String::new(), |threads| format!(":{threads}"));
                format!("-np {ranks} -ppn {per_host} -hosts {names} -bind-to core{cores}")
            }
            LauncherKind::Slurm => {
                let cores =
                    threads.map_or(String::new(), |threads| format!(" --cpus-per-task={threads}"));
                format!(
                    "--nodes={nodes} --ntasks={ranks} --ntasks-per-node={per_host}{cores} --nodelist={names} --cpu-bind=cores"
                )
            }
        };
        // The text can be split at spaces, because host names contain no spaces.
        text.split(' ').map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        text.parse::<HostList>().unwrap().0
    }

    #[test]
    fn host_list_accepts_names_addresses_and_ranges() {
        assert_eq!(read("a,b-1.site,10.0.0.7,fe80::1"), ["a", "b-1.site", "10.0.0.7", "fe80::1"]);
        assert_eq!(read("n[08-10,3],x"), ["n08", "n09", "n10", "n3", "x"]);
        assert_eq!(read("r[0-1]n[1-2]-ib"), ["r0n1-ib", "r0n2-ib", "r1n1-ib", "r1n2-ib"]);
        assert_eq!(read("n[1-4]").len(), 4);
        assert_eq!(read("gpu_3,rack_[1-2]_a"), ["gpu_3", "rack_1_a", "rack_2_a"]);
        let gpus = ["gpu_3", "gpu_4"].map(str::to_owned);
        assert_eq!(
            (HostList::fold_names(&gpus).as_str(), HostList::split_invalid_names(&gpus).1.len()),
            ("gpu_[3-4]", 0)
        );
        assert_eq!(read(&"a".repeat(63)).len(), 1);
        assert_eq!(read("n[1-65535],m").len(), MAX_HOSTS);
        assert!("n[1-65535],m,o".parse::<HostList>().is_err());
    }

    #[test]
    fn unsafe_host_names_are_refused() {
        let at = |text: &str| text.parse::<HostList>().unwrap_err().at;
        assert_eq!((at("-oProxyCommand=id"), at("a,-oX"), at("a,b=c")), (0, 2, 3));
        assert_eq!((at("$(id)"), at("a;id"), at("a b"), at("a,,b"), at("")), (0, 1, 1, 2, 0));
        assert_eq!((at("a-"), at("a..b"), at(".a"), at("a."), at("u@h")), (0, 0, 0, 0, 1));
        assert_eq!(at("_a"), 0);
        assert_eq!((at("a:b"), at("n[2-1]"), at("n[1"), at("n[1-9999999]")), (0, 2, 3, 2));
        assert_eq!((at("n[1-300][1-300]"), at("näh"), at("a\n")), (9, 1, 1));
        assert_eq!(at(&"a".repeat(64)), 0);
    }

    #[test]
    fn folded_host_names_round_trip() {
        let folded = |names: &[&str]| {
            HostList::fold_names(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(folded(&["n09", "n01", "n02", "n03", "n04", "login"]), "login,n[01-04,09]");
        assert_eq!(folded(&["n8", "n9", "n10", "n08", "n12"]), "n[08,10,12],n[8-9]");
        assert_eq!(folded(&["r0n1-ib", "r0n2-ib", "r1n1-ib"]), "r0n[1-2]-ib,r1n1-ib");
        assert_eq!(folded(&["a", "a"]), "a");
        assert_eq!(folded(&["10.0.0.7", "10.0.0.8", "fe80::1"]), "10.0.0.[7-8],fe80::1");
        assert_eq!(folded(&[]), "");
        let names: Vec<String> = (95..106).map(|n| format!("node{n:03}.site")).collect();
        assert_eq!(read(&HostList::fold_names(&names)), names);
        let (valid, odd) = HostList::split_invalid_names(&[
            "n1".to_owned(),
            "$(id)".to_owned(),
            "n[1-2]".to_owned(),
        ]);
        assert_eq!((valid, odd.len()), (vec!["n1".to_owned()], 2));
    }

    #[test]
    fn host_arguments_depend_on_launcher() {
        let hosts = ["a".to_owned(), "b".to_owned()];
        let words = |kind, per_host, threads| {
            HostRanks { hosts: &hosts, per_host, threads }.arguments(kind).join(" ")
        };
        assert_eq!(
            words(LauncherKind::OpenMpi, 2, Some(3)),
            "-np 4 --host a:2,b:2 --map-by ppr:2:node:PE=3 --bind-to core"
        );
        assert_eq!(
            words(LauncherKind::OpenMpi, 1, None),
            "-np 2 --host a:1,b:1 --map-by node --bind-to core"
        );
        assert_eq!(
            words(LauncherKind::Hydra, 2, Some(3)),
            "-np 4 -ppn 2 -hosts a,b -bind-to core:3"
        );
        assert_eq!(
            words(LauncherKind::Slurm, 2, Some(3)),
            "--nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=3 --nodelist=a,b --cpu-bind=cores"
        );
    }
}

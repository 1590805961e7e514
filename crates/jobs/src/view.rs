//! Page of `where`: findings, picture of the node, processes, threads, and parts that were not read.

use crate::document::{JobHost, JobProcess, JobThread, WhereDocument};
use nodegauge_gauge::view::{Block, ColumnList, Note, Section, Tone, distinct};
use nodegauge_machine::number_ranges;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::Severity;
use nodegauge_measure::{Bytes, Fraction};
use std::collections::BTreeSet;

/// Maximum number of threads on the page without `--verbose`.
const LISTED_THREADS: usize = 512;

/// Row of the table of threads.
struct ThreadRow<'d> {
    host: &'d JobHost,
    process: &'d JobProcess,
    thread: &'d JobThread,
}

/// Row of the table of processes.
struct ProcessRow<'d> {
    host: &'d JobHost,
    process: &'d JobProcess,
}

/// Returns the sections of the page. With `verbose`, idle threads and all variables are listed.
pub fn sections(document: &WhereDocument, verbose: bool) -> Vec<Section> {
    let mut sections = vec![head(document)];
    sections.extend(findings(document));
    sections.extend(pictures(document));
    sections.push(processes(document));
    sections.extend(threads(document, verbose));
    sections.extend(variables(document, verbose));
    sections.push(unread(document));
    sections
}

/// Returns the first section of the page, with a line for each host and for each reason why hosts or ranks are missing.
fn head(document: &WhereDocument) -> Section {
    let mut section = Section::new("where");
    for host in &document.hosts {
        let mut text = format!("{}: {}", host.host, host.in_words());
        if host.readings > 1 {
            text.push_str(&format!(", read {} times in {}", host.readings, host.window));
        }
        if host.in_place {
            text.push_str(", started in place of a program");
        }
        section.note("where", text);
    }
    for missing in &document.missing {
        section.push(Note::new("missing", missing.as_str()).tone(Tone::Bad));
    }
    section
}

fn findings(document: &WhereDocument) -> Option<Section> {
    if document.findings.is_empty() {
        return None;
    }
    let mut section = Section::new("findings");
    for finding in &document.findings {
        let (label, tone) = match finding.severity {
            Severity::Critical => ("critical", Tone::Bad),
            Severity::Warning => ("warning", Tone::Warning),
            Severity::Info => ("info", Tone::Plain),
        };
        section.push(Note::new(label, finding.text.as_str()).tone(tone));
        section.push(Note::new("remedy", finding.remedy.as_str()).nested());
    }
    Some(section)
}

/// Returns the pictures of the hosts. Hosts with equal pictures share one picture.
fn pictures(document: &WhereDocument) -> Option<Section> {
    let mut section = Section::new("picture");
    let mut shown: Vec<(String, Vec<&str>)> = Vec::new();
    for host in &document.hosts {
        let picture = picture(host);
        match shown.iter_mut().find(|(known, _)| *known == picture) {
            Some((_, hosts)) => hosts.push(&host.host),
            None => shown.push((picture, vec![&host.host])),
        }
    }
    shown.retain(|(picture, _)| !picture.is_empty());
    if shown.is_empty() {
        return None;
    }
    for (picture, hosts) in &shown {
        if document.hosts.len() > 1 {
            section.push(Block::Heading(hosts.join(", ")));
        }
        section.push(Block::Text(picture.clone()));
    }
    let first = &document.hosts.first()?.processes;
    let noun = if first.iter().any(|process| process.rank.is_some()) { "rank" } else { "process" };
    section.push(Block::Text(format!(
        "one cell per core: number of the {noun} that ran there; . idle, x not available, | next last-level cache"
    )));
    Some(section)
}

fn picture(host: &JobHost) -> String {
    let names: Vec<String> = (0..)
        .zip(&host.processes)
        .map(|(at, process)| process.rank.unwrap_or(at).to_string())
        .collect();
    let mut lines = Vec::new();
    for node in &host.picture {
        let numa = node.numa_node.map_or(String::new(), |number| format!(" NUMA {number}"));
        lines.push(format!("socket {}{numa}: {}", node.socket, node.text(&names)));
    }
    lines.join("\n")
}

fn processes(document: &WhereDocument) -> Section {
    let several = document.hosts.len() > 1;
    let mut rows = Vec::new();
    for host in &document.hosts {
        rows.extend(host.processes.iter().map(|process| ProcessRow { host, process }));
    }
    let has_ranks = rows.iter().any(|row| row.process.rank.is_some());
    let nodes: BTreeSet<u32> = rows
        .iter()
        .filter_map(|row| row.process.memory.as_ref())
        .flat_map(|memory| memory.nodes.keys().copied())
        .collect();
    let columns = ColumnList::<ProcessRow<'_>>::new()
        .add_if(several, |columns| columns.left("host", |row| row.host.host.clone()))
        .add_if(has_ranks, |columns| {
            columns.right_or_dash("rank", |row| Some(row.process.rank?.to_string()))
        })
        .right("process", |row| row.process.pid.to_string())
        .left("program", |row| row.process.name.clone())
        .right("threads", |row| row.process.threads.len().to_string())
        .left("policy", |row| {
            row.process.memory.as_ref().map_or("-".to_owned(), |memory| memory.policy.clone())
        })
        .right_or_dash("memory", |row| {
            let private = row.process.memory.as_ref().map(|memory| Bytes(memory.bytes()));
            Some(private.or(row.process.resident.map(Bytes))?.to_string())
        })
        .add_if(nodes.len() > 1, |columns| {
            columns.columns_for_each(
                nodes,
                |node| format!("NUMA {node}"),
                |row, node| {
                    let memory = row.process.memory.as_ref();
                    let bytes = memory.and_then(|memory| memory.nodes.get(node));
                    bytes.map_or("-".to_owned(), |bytes| Bytes(*bytes).to_string())
                },
            )
        })
        .right_or_dash("local", |row| percent(row.process.memory.as_ref()?.local))
        .right_or_dash("huge pages", |row| percent(row.process.memory.as_ref()?.huge_page_share()))
        .right_or_dash("swapped", |row| {
            Some(Bytes(row.process.swapped.filter(|bytes| *bytes > 0)?).to_string())
        })
        .right_or_dash("quota", |row| Some(format!("{:.2}", row.process.cpu_quota?)))
        .right_or_dash("limit", |row| Some(Bytes(row.process.memory_limit?).to_string()))
        .left("GPU", |row| devices(row.process, false))
        .left("network", |row| devices(row.process, true));
    let mut section = Section::new("processes");
    section.push(columns.table(&rows));
    section
}

fn percent(share: Option<Fraction>) -> Option<String> {
    Some(share?.in_whole_percent())
}

/// Returns the devices of a kind with their distance: `renderD128 (far, NUMA 1)`.
fn devices(process: &JobProcess, is_network: bool) -> String {
    let mut words = Vec::new();
    for device in process.devices.iter().filter(|device| device.is_network == is_network) {
        let node = device.numa_node.map(|node| format!("NUMA {node}"));
        let distance = match device.near {
            Some(true) => Some("near".to_owned()),
            Some(false) => Some("far".to_owned()),
            None => None,
        };
        let details: Vec<String> = distance.into_iter().chain(node).collect();
        if details.is_empty() {
            words.push(device.name.clone());
        } else {
            words.push(format!("{} ({})", device.name, details.join(", ")));
        }
    }
    words.join(", ")
}

/// Returns the table of the busy threads, or of all threads if `verbose` is true.
fn threads(document: &WhereDocument, verbose: bool) -> Option<Section> {
    let several = document.hosts.len() > 1;
    let mut rows = Vec::new();
    let mut idle = 0;
    for host in &document.hosts {
        for process in &host.processes {
            let shown: BTreeSet<u32> = process.working_threads().map(|thread| thread.tid).collect();
            for thread in &process.threads {
                if verbose || shown.contains(&thread.tid) {
                    rows.push(ThreadRow { host, process, thread });
                } else {
                    idle += 1;
                }
            }
        }
    }
    let mut section = Section::new("threads");
    if rows.len() > LISTED_THREADS && !verbose {
        let count = count_in_words(rows.len(), "busy thread");
        section.push(Block::Text(format!("{count}; --verbose lists them, --json has them")));
        return Some(section);
    }
    if rows.is_empty() {
        return None;
    }
    let has_ranks = rows.iter().any(|row| row.process.rank.is_some());
    let has_caches = rows.iter().any(|row| row.thread.llc.is_some());
    let in_place = document.hosts.iter().all(|host| host.in_place);
    let columns = ColumnList::<ThreadRow<'_>>::new()
        .add_if(several, |columns| columns.left("host", |row| row.host.host.clone()))
        .add_if(has_ranks, |columns| {
            columns.right_or_dash("rank", |row| Some(row.process.rank?.to_string()))
        })
        .right("thread", |row| row.thread.tid.to_string())
        .left("allowed", |row| row.thread.allowed.clone())
        .right("CPU", |row| row.thread.cpu.to_string())
        .right_or_dash("core", |row| Some(row.thread.core?.to_string()))
        .add_if(has_caches, |columns| {
            columns.right_or_dash("LLC", |row| Some(row.thread.llc?.to_string()))
        })
        .right_or_dash("socket", |row| Some(row.thread.socket?.to_string()))
        .right_or_dash("NUMA", |row| Some(row.thread.numa_node?.to_string()))
        .add_if(!in_place, |columns| {
            columns
                .right_or_dash("running", |row| percent(row.thread.running))
                .right_or_dash("waiting", |row| {
                    percent(row.thread.waiting.filter(|_| row.thread.busy))
                })
                .right_or_dash("moved", |row| Some(row.thread.migrations?.to_string()))
                .right_or_dash("preempted", |row| {
                    Some(row.thread.involuntary_switches?.to_string())
                })
        });
    section.push(columns.table(&rows).with_optional_columns(&["LLC", "core", "preempted"]));
    if idle > 0 {
        let count = count_in_words(idle, "idle thread");
        section.push(Block::Text(format!("and {count}, which --verbose lists")));
    }
    Some(section)
}

/// Returns the variables of the processes. A value that all processes share is listed once.
fn variables(document: &WhereDocument, verbose: bool) -> Option<Section> {
    let mut section = Section::new("variables");
    let processes: Vec<&JobProcess> =
        document.hosts.iter().flat_map(|host| &host.processes).collect();
    let names: BTreeSet<&str> = processes
        .iter()
        .flat_map(|process| process.environment.keys().map(String::as_str))
        .collect();
    let mut texts = Vec::new();
    for name in names {
        let values = distinct(
            processes
                .iter()
                .map(|process| process.environment.get(name).map_or("(unset)", String::as_str)),
        );
        match values[..] {
            [value] => texts.push(format!("{name}={value}")),
            [first, ..] if verbose || is_placement(name) => {
                let others = count_in_words(values.len() - 1, "other value");
                texts.push(format!("{name}={first} and {others}"));
            }
            _ => {}
        }
    }
    if texts.is_empty() {
        return None;
    }
    section.note("variables", texts.join(" "));
    Some(section)
}

/// True for variables that should have the same value in all processes.
fn is_placement(name: &str) -> bool {
    let of_slurm = ["SLURM_CPU_BIND", "SLURM_CPUS_PER_TASK", "SLURM_DISTRIBUTION"];
    ["OMP_", "GOMP_", "KMP_"].iter().any(|prefix| name.starts_with(prefix))
        || of_slurm.contains(&name)
}

/// Returns the section with the parts that could not be read, and with the time that the readings took.
fn unread(document: &WhereDocument) -> Section {
    let mut section = Section::new("unread");
    for host in &document.hosts {
        let prefix =
            if document.hosts.len() > 1 { format!("{}: ", host.host) } else { String::new() };
        let mut reasons: Vec<(String, Vec<&JobProcess>)> = Vec::new();
        for process in &host.processes {
            for reason in &process.unread {
                match reasons.iter_mut().find(|(known, _)| known == reason) {
                    Some((_, own)) => own.push(process),
                    None => reasons.push((reason.clone(), vec![process])),
                }
            }
        }
        for (reason, own) in reasons {
            let users: BTreeSet<u32> = own.iter().map(|process| process.user).collect();
            let mut text = format!("{prefix}{reason} ({})", owners(&own));
            if reason.ends_with("permission denied") {
                let users = number_ranges(&users);
                text.push_str(&format!(
                    "; they belong to user {users}; root with CAP_SYS_PTRACE can read them"
                ));
            } else if reason.contains("skipped") {
                text.push_str("; use a longer --pages");
            }
            section.note("not read", text);
        }
        for reason in &host.unread {
            section.note("not read", format!("{prefix}{reason}"));
        }
        if !host.idle.is_empty() {
            let names = distinct(host.idle.iter().map(|process| process.name.as_str()));
            let listed = names[..names.len().min(6)].join(", ");
            let count = host.idle.len();
            let processes = count_in_words(count, "process");
            section.note("idle", format!("{prefix}{processes}: {listed}"));
        }
        let pages = match host.pages_time.0 {
            0.0 => String::new(),
            _ => format!(", {} for pages", host.pages_time),
        };
        section.note("cost", format!("{prefix}{} of CPU time for the readings{pages}", host.cost));
    }
    section
}

fn owners(processes: &[&JobProcess]) -> String {
    let ranks: Vec<u32> = processes.iter().filter_map(|process| process.rank).collect();
    match processes {
        [one] => one.title(),
        _ if ranks.len() == processes.len() => format!("ranks {}", number_ranges(&ranks)),
        _ => format!("{} processes", processes.len()),
    }
}

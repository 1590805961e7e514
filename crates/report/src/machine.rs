//! The text of `machine` and `doctor`.

use crate::table::{LABEL, Loudness, Style, loud_paragraph, paragraph, table};
use nodegauge_machine::number_ranges;
use nodegauge_measure::record::{Cache, Finding, Machine, Severity};
use nodegauge_measure::{Bytes, BytesPerSec, FlopsPerSec, Hertz};

/// What the node is, one topic a paragraph.
pub fn render(machine: &Machine, style: Style) -> String {
    let mut out = String::new();
    let mut say = |label: &str, text: String| out.push_str(&paragraph(style, label, &text));
    if let Some(host) = &machine.host {
        say("host", host.clone());
    }
    say("processor", processor(machine));
    if !machine.processor.isa.is_empty() {
        say("isa", machine.processor.isa.join(" "));
    }
    say("peak", peak(machine));
    for cache in &machine.caches {
        say("cache", cache_in_words(cache));
    }
    say("memory", memory(machine));
    for dimm in &machine.memory.dimms {
        let rate = dimm.transfers_per_s.map(|t| format!(" at {:.0} MT/s", t / 1e6));
        say(
            "dimm",
            format!(
                "{}: {}{}{}",
                dimm.slot,
                Bytes(dimm.bytes),
                dimm.technology.as_ref().map(|t| format!(" {t}")).unwrap_or_default(),
                rate.unwrap_or_default()
            ),
        );
    }
    for node in &machine.numa_nodes {
        let memory = node.bytes.map_or("memory unknown".to_owned(), |b| Bytes(b).to_string());
        let free = node.free.map(|free| format!(", {} free", Bytes(free))).unwrap_or_default();
        say("node", format!("{}: {memory}{free}, cpus {}", node.id, number_ranges(&node.cpus)));
    }
    if let Some(pages) = pages(machine) {
        say("pages", pages);
    }
    if machine.source == "live" {
        say("kernel", kernel(machine));
    }
    out
}

/// Model, counts, clock.
pub(crate) fn processor(machine: &Machine) -> String {
    let p = &machine.processor;
    let mut text = p.model.clone().unwrap_or_else(|| "unknown processor".to_owned());
    if let Some(architecture) = &p.microarchitecture {
        text.push_str(&format!(" ({architecture})"));
    }
    let plural = |n: u32, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    text.push_str(&format!(
        ", {}, {}, {}",
        plural(p.sockets, "socket"),
        plural(p.cores, "core"),
        plural(p.threads, "hardware thread")
    ));
    if let Some(hz) = p.hz {
        let basis = p.hz_basis.as_deref().unwrap_or("?");
        text.push_str(&format!(", {} ({basis})", Hertz(hz)));
    }
    text
}

fn peak(machine: &Machine) -> String {
    let p = &machine.processor;
    match (&machine.peak_flops, p.flops_per_cycle) {
        (Some(peak), Some(per_cycle)) => {
            let basis = p.flops_basis.as_deref().unwrap_or("?");
            format!(
                "{} double precision: {}; {per_cycle} FLOP a cycle: {basis}",
                FlopsPerSec(peak.value),
                peak.basis
            )
        }
        (None, Some(per_cycle)) => {
            format!("unknown: the clock is not known; {per_cycle} FLOP a cycle a core")
        }
        _ => "unknown: the table does not know this processor".to_owned(),
    }
}

fn cache_in_words(cache: &Cache) -> String {
    let size = cache.bytes.map_or("size unknown".to_owned(), |bytes| Bytes(bytes).to_string());
    let shared = match cache.cores {
        0 | 1 => "one a core".to_owned(),
        n => format!("each shared by {n} cores"),
    };
    format!("L{} {}: {} x {size}, {shared}", cache.level, cache.kind, cache.count)
}

/// Size, what can be had, and the theoretical bandwidth with its basis.
fn memory(machine: &Machine) -> String {
    let m = &machine.memory;
    let mut parts =
        vec![m.bytes.map_or("size unknown".to_owned(), |bytes| Bytes(bytes).to_string())];
    if let Some(available) = m.available {
        parts.push(format!("{} can be had now", Bytes(available)));
    }
    if let Some(limit) = m.cgroup_limit {
        parts.push(format!("limited to {} by the control group", Bytes(limit)));
    }
    if let Some(swap) = m.swap_used.filter(|swap| *swap > 0) {
        parts.push(format!("{} of swap in use", Bytes(swap)));
    }
    parts.push(theoretical(machine));
    parts.join("\n")
}

/// The theoretical bandwidth and how it is made up.
pub(crate) fn theoretical(machine: &Machine) -> String {
    let m = &machine.memory;
    let Some(figure) = &m.theoretical else {
        return "theoretical bandwidth unknown: give --dimms COUNTxMT/s, e.g. --dimms 16x3200"
            .to_owned();
    };
    let made = match (m.channels, m.transfers_per_s) {
        (Some(channels), Some(rate)) => {
            let technology = m.technology.as_deref().unwrap_or("DDR");
            format!(" = {channels} channels x {technology}-{:.0} x 8 B", rate / 1e6)
        }
        _ => String::new(),
    };
    let basis = figure.detail.as_ref().unwrap_or(&figure.basis);
    format!("{} theoretical{made} ({basis})", BytesPerSec(figure.value))
}

fn pages(machine: &Machine) -> Option<String> {
    let pages = machine.pages.as_ref()?;
    let mut parts = vec![format!("base {}", Bytes(pages.base))];
    parts.push(match &pages.thp {
        Some(mode) => format!("transparent huge pages: {mode}"),
        None => "no transparent huge pages".to_owned(),
    });
    for huge in &pages.huge {
        parts.push(format!(
            "{} pages: {} reserved, {} free",
            Bytes(huge.bytes),
            huge.total,
            huge.free
        ));
    }
    Some(parts.join("; "))
}

fn kernel(machine: &Machine) -> String {
    let mut parts = vec![machine.kernel.clone().unwrap_or_else(|| "unknown".to_owned())];
    parts.push(match &machine.virtualisation {
        Some(hypervisor) => format!("virtual machine ({hypervisor})"),
        None => "no virtualisation seen".to_owned(),
    });
    parts.push(match &machine.governor {
        Some(governor) => format!("frequency governor {governor}"),
        None => "frequency governor not shown".to_owned(),
    });
    parts.join("; ")
}

/// What would spoil a measurement, worst first.
pub fn findings(findings: &[Finding], style: Style) -> String {
    if findings.is_empty() {
        return "nothing found that would spoil a measurement\n".to_owned();
    }
    let mut out = String::new();
    for finding in findings {
        out.push_str(&finding_line(finding, style));
        let mut say = |label: &str, text: &str| {
            let line = paragraph(
                Style { width: style.width.saturating_sub(LABEL as u16), ..style },
                label,
                text,
            );
            out.push_str(&crate::table::indent(&line, LABEL));
        };
        if let Some(cost) = &finding.cost {
            say("cost", cost);
        }
        say("remedy", &finding.remedy);
    }
    out
}

/// One finding with its severity.
pub(crate) fn finding_line(finding: &Finding, style: Style) -> String {
    let label = match finding.severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        Severity::Info => "info",
    };
    let loudness = match finding.severity {
        Severity::Critical => Loudness::Bad,
        Severity::Warning => Loudness::Warning,
        Severity::Info => Loudness::Plain,
    };
    loud_paragraph(style, loudness, label, &finding.text)
}

/// The caches of the last level and the memory in a few words, for the one-page summary.
pub(crate) fn brief(machine: &Machine, style: Style) -> String {
    if machine.source == "import" {
        return paragraph(style, "machine", "not known: the figures were imported");
    }
    let mut out = paragraph(style, "machine", &processor(machine));
    let mut parts = Vec::new();
    if let Some(cache) = machine.caches.iter().rev().find(|cache| cache.kind != "instruction") {
        parts.push(cache_in_words(cache));
    }
    if let Some(bytes) = machine.memory.bytes {
        parts.push(format!("{} of memory", Bytes(bytes)));
    }
    if let Some(mode) = machine.pages.as_ref().and_then(|pages| pages.thp.as_ref()) {
        parts.push(format!("THP {mode}"));
    }
    if let Some(hypervisor) = &machine.virtualisation {
        parts.push(format!("{hypervisor} guest"));
    }
    parts.push(match &machine.memory.theoretical {
        Some(figure) => {
            format!("{} theoretical ({})", BytesPerSec(figure.value), figure.basis)
        }
        None => theoretical(machine),
    });
    out.push_str(&paragraph(style, "", &parts.join("; ")));
    out
}

/// A short table of the machine's NUMA distances, when there is more than one node.
pub fn distances(machine: &Machine, style: Style) -> Option<String> {
    if machine.numa_nodes.len() < 2 {
        return None;
    }
    let rows: Option<Vec<Vec<String>>> = machine
        .numa_nodes
        .iter()
        .map(|node| {
            let distances = node.distances.as_ref()?;
            let head = std::iter::once(format!("node {}", node.id));
            Some(head.chain(distances.iter().map(ToString::to_string)).collect())
        })
        .collect();
    let rows = rows?;
    let header: Vec<String> = std::iter::once("distance".to_owned())
        .chain(machine.numa_nodes.iter().map(|node| node.id.to_string()))
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let right: Vec<usize> = (1..header.len()).collect();
    Some(table(style, &header, &rows, &right))
}

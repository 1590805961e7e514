//! Whether a machine is still the one it was: what a choice that was measured once rests on. Pure.

use nodegauge_measure::record::Machine;

/// What differs between a machine as it was and as it is now, in words, as far as it decides which
/// configuration is fastest: host, processors, caches, NUMA nodes, memory channels, huge pages,
/// kernel, hypervisor. Free memory, clocks and loads come and go and are left out.
pub fn changes(then: &Machine, now: &Machine) -> Vec<String> {
    let mut changes = Vec::new();
    let mut hold = |what: &str, then: String, now: String| {
        if then != now {
            changes.push(format!("{what}: {then}, now {now}"));
        }
    };
    for (what, of) in ASPECTS {
        hold(what, of(then), of(now));
    }
    changes
}

/// An aspect of a machine in words.
type Aspect = fn(&Machine) -> String;

fn or_unknown<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "unknown".to_owned(), ToString::to_string)
}

const ASPECTS: [(&str, Aspect); 9] = [
    ("host", |m| or_unknown(m.host.as_ref())),
    ("processor", |m| {
        let p = &m.processor;
        format!("{} ({})", or_unknown(p.model.as_ref()), or_unknown(p.identification.as_ref()))
    }),
    ("cores", |m| {
        let p = &m.processor;
        format!("{} sockets, {} cores, {} threads", p.sockets, p.cores, p.threads)
    }),
    ("caches", |m| {
        let each: Vec<String> = m
            .caches
            .iter()
            .map(|c| {
                format!(
                    "{} x L{} {} of {} B",
                    c.count,
                    c.level,
                    c.kind,
                    or_unknown(c.bytes.as_ref())
                )
            })
            .collect();
        each.join(", ")
    }),
    ("NUMA nodes", |m| {
        let each: Vec<String> =
            m.numa_nodes.iter().map(|node| format!("{}: cpus {:?}", node.id, node.cpus)).collect();
        each.join(", ")
    }),
    ("memory channels", |m| or_unknown(m.memory.channels.as_ref())),
    ("huge pages", |m| {
        let Some(pages) = &m.pages else { return "unknown".to_owned() };
        let pools: Vec<String> = pages
            .huge
            .iter()
            .filter(|pool| pool.total > 0)
            .map(|pool| format!("{} of {} B reserved", pool.total, pool.bytes))
            .collect();
        format!("transparent {} {}", or_unknown(pages.thp.as_ref()), pools.join(", "))
            .trim_end()
            .to_owned()
    }),
    ("kernel", |m| or_unknown(m.kernel.as_ref())),
    ("hypervisor", |m| m.virtualisation.clone().unwrap_or_else(|| "none".to_owned())),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_is_told_and_the_rest_is_not() {
        let then = Machine { kernel: Some("Linux 6.1.0".to_owned()), ..Machine::default() };
        let mut now = then.clone();
        now.memory.available = Some(7);
        assert!(changes(&then, &now).is_empty());
        now.kernel = Some("Linux 6.12.1".to_owned());
        assert_eq!(changes(&then, &now), ["kernel: Linux 6.1.0, now Linux 6.12.1"]);
    }
}

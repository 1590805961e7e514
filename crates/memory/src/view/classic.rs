//! The table of stream.c 5.10, line for line in its shape, so that existing parsers read it, headed
//! as a variant. MB are 10^6 bytes, as there. Kernels that stream.c lacks are left out.

use super::figures;
use super::words::VARIANT;
use crate::arrays::Layout;
use nodegauge_measure::record::{Counts, Measurement, Record};

const RULE: &str = "-------------------------------------------------------------";
/// stream.c's names, which its parsers look for, and the arrays whose bytes each kernel counts.
const NAMES: [(&str, &str, f64); 4] = [
    ("copy", "Copy:", 2.0),
    ("scale", "Scale:", 2.0),
    ("add", "Add:", 3.0),
    ("triad", "Triad:", 3.0),
];

/// One run in stream.c's words. Returns `None` when a figure is missing or failed its check: no
/// table that looks whole.
pub fn render(record: &Record) -> Option<String> {
    let native = figures::native(record);
    let (first, config) = native.iter().find(|(m, _)| NAMES.iter().any(|(n, ..)| m.name == *n))?;
    let version = &record.tool.version;
    let (elements, bytes, threads) = (config.array_elements?, config.array_bytes?, config.threads?);
    let element = bytes / elements.max(1);
    let offset = match config.layout {
        Some(Layout::Sequential { offset }) => offset,
        _ => 0,
    };
    // The samples of the record are rates; stream.c prints times.
    let times = |m: &Measurement, arrays: f64| -> Vec<f64> {
        // stream.c leaves out the first alone.
        let disturbed = m.disturbed.iter().filter(|one| one.counts == Counts::Best);
        let rates = m.samples.iter().copied().chain(disturbed.map(|one| one.value));
        rates.map(|rate| arrays * bytes as f64 / rate).collect()
    };
    let passes = times(first, 1.0).len() + 1;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    line(RULE);
    line(&format!("STREAM variant: nodegauge {version}, {VARIANT}"));
    line(RULE);
    line(&format!("This system uses {element} bytes per array element."));
    line(RULE);
    line(&format!("Array size = {elements} (elements), Offset = {offset} (elements)"));
    line(&format!("Memory per array = {:.1} MiB (= {:.1} GiB).", mib(bytes), mib(bytes) / 1024.0));
    line(&format!(
        "Total memory required = {:.1} MiB (= {:.1} GiB).",
        3.0 * mib(bytes),
        3.0 * mib(bytes) / 1024.0
    ));
    line(&format!("Each kernel will be executed {passes} times."));
    line(" The *best* time for each kernel (excluding the first iteration)");
    line(" will be used to compute the reported bandwidth.");
    line(RULE);
    line(&format!("Number of Threads requested = {threads}"));
    line(&format!("Number of Threads counted = {threads}"));
    line(RULE);
    let granularity = config.clock_granularity_s? * 1e6;
    let arrays = NAMES.iter().find(|(name, ..)| first.name == *name)?.2;
    let typical = times(first, arrays).into_iter().fold(f64::INFINITY, f64::min) * 1e6;
    if granularity >= 1.0 {
        line(&format!(
            "Your clock granularity/precision appears to be {granularity:.0} microseconds."
        ));
    } else {
        line("Your clock granularity appears to be less than one microsecond.");
    }
    line(&format!("Each test below will take on the order of {typical:.0} microseconds."));
    line(&format!("   (= {:.0} clock ticks)", typical / granularity.max(1.0)));
    line("Increase the size of the arrays if this shows that");
    line("you are not getting at least 20 clock ticks per test.");
    line(RULE);
    line("WARNING -- The above is only a rough guideline.");
    line("For best results, please be sure you know the");
    line("precision of your system timer.");
    line(RULE);
    line("Function    Best Rate MB/s  Avg time     Min time     Max time");
    for (name, label, arrays) in NAMES {
        let Some((m, _)) = native.iter().find(|(m, _)| m.name == name) else { continue };
        let best = m.value?;
        let times = times(m, arrays);
        let min = times.iter().copied().fold(f64::INFINITY, f64::min);
        let max = times.iter().copied().fold(0.0, f64::max);
        let average = times.iter().sum::<f64>() / times.len() as f64;
        line(&format!(
            "{label:<11}{:>12.1}  {average:>11.6}  {min:>11.6}  {max:>11.6}",
            best / 1e6
        ));
    }
    line(RULE);
    let tolerance = if element == 4 { 1e-6 } else { 1e-13 };
    line(&format!(
        "Solution Validates: avg error less than {} on all three arrays",
        c_exponent(tolerance)
    ));
    line(RULE);
    Some(out)
}

/// A number as C's `%e` prints it: `1.000000e-13`.
fn c_exponent(x: f64) -> String {
    let text = format!("{x:.6e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let value: i32 = exponent.parse().unwrap_or(0);
            let sign = if value < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", value.abs())
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn exponents_are_printed_as_c_does() {
        assert_eq!(super::c_exponent(1e-13), "1.000000e-13");
        assert_eq!(super::c_exponent(1e-6), "1.000000e-06");
    }
}

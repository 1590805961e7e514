//! Output in the format of stream.c 5.10, line by line, so that existing parsers can read it. The heading states that
//! the code is a variant of STREAM. MB are 10^6 bytes, as in stream.c. Kernels that stream.c does not have are omitted.

use super::figures;
use super::statistics;
use super::words::VARIANT_DESIGNATION;
use nodegauge_arena::ArrayLayout;
use nodegauge_measure::record::Record;

const RULE: &str = "-------------------------------------------------------------";
/// Names of the kernels in stream.c's table, which parsers expect.
const NAMES: [(&str, &str); 4] =
    [("copy", "Copy:"), ("scale", "Scale:"), ("add", "Add:"), ("triad", "Triad:")];

/// Returns the results of a run in stream.c's format. Returns `None` if a measured kernel has no value, e.g. after a
/// failed check, because a reader could not see that its line is missing.
pub fn render(record: &Record) -> Option<String> {
    let native = figures::native(record);
    let (first, config) = native.iter().find(|(m, _)| NAMES.iter().any(|(n, _)| m.name == *n))?;
    let version = &record.tool.version;
    let elements = config.array_elements?;
    let bytes = config.array_bytes?;
    let threads = config.threads?;
    let element = bytes / elements.max(1);
    let arrays = config.array_count() as f64;
    let offset = match config.layout {
        Some(ArrayLayout::Sequential { offset }) => offset,
        _ => 0,
    };
    let passes = statistics::rates(first).count() + 1;
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    line(RULE);
    line(&format!("STREAM variant: nodegauge {version}, {VARIANT_DESIGNATION}"));
    line(RULE);
    line(&format!("This system uses {element} bytes per array element."));
    line(RULE);
    if let Some(ranks) = config.processes {
        // The next lines have the format of stream_mpi.c 1.8.
        let all = mib(ranks * bytes);
        line(&format!("Total Aggregate Array size = {} (elements)", ranks * elements));
        line(&format!("Total Aggregate Memory per array = {}", memory(all)));
        line(&format!("Total Aggregate memory required = {}", memory(arrays * all)));
        line(&format!("Data is distributed across {ranks} MPI ranks"));
        line(&format!("   Array size per MPI rank = {elements} (elements)"));
        line(&format!("   Memory per array per MPI rank = {}", memory(mib(bytes))));
        line(&format!("   Total memory per MPI rank = {}", memory(arrays * mib(bytes))));
        line(RULE);
    } else {
        line(&format!("Array size = {elements} (elements), Offset = {offset} (elements)"));
        line(&format!("Memory per array = {}", memory(mib(bytes))));
        line(&format!("Total memory required = {}", memory(arrays * mib(bytes))));
    }
    line(&format!("Each kernel will be executed {passes} times."));
    line(" The *best* time for each kernel (excluding the first iteration)");
    line(" will be used to compute the reported bandwidth.");
    line(RULE);
    line(&format!("Number of Threads requested = {threads}"));
    line(&format!("Number of Threads counted = {threads}"));
    line(RULE);
    let granularity = config.clock_granularity_s? * 1e6;
    let typical = statistics::times(first, config)?.least.0 * 1e6;
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
    for (name, label) in NAMES {
        let Some((m, kernel_config)) = native.iter().find(|(m, _)| m.name == name) else {
            continue;
        };
        let best = m.value?;
        let times = statistics::times(m, kernel_config)?;
        let [average, least, greatest] = [times.average.0, times.least.0, times.greatest.0];
        line(&format!(
            "{label:<11}{:>12.1}  {average:>11.6}  {least:>11.6}  {greatest:>11.6}",
            best / 1e6
        ));
    }
    line(RULE);
    let tolerance = if element == 4 { 1e-6 } else { 1e-13 };
    let validated = if config.array_count() == 4 { "four" } else { "three" };
    line(&format!(
        "Solution Validates: avg error less than {} on all {validated} arrays",
        c_exponent(tolerance)
    ));
    line(RULE);
    Some(out)
}

/// Converts bytes to MiB.
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Formats an amount of memory as stream.c does, from MiB.
fn memory(mib: f64) -> String {
    format!("{mib:.1} MiB (= {:.1} GiB).", mib / 1024.0)
}

/// Formats a number like `%e` in C: `1.000000e-13`.
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
    fn exponents_are_printed_as_in_c() {
        assert_eq!(super::c_exponent(1e-13), "1.000000e-13");
        assert_eq!(super::c_exponent(1e-6), "1.000000e-06");
    }
}

//! Columns of the tables of the OSU micro-benchmarks, parsed from the header.

/// Meaning of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OsuColumn {
    /// Size of a message.
    Size,
    /// Number of bytes that are sent (`-D`).
    TransmitSize,
    /// Time or rate that the test measures.
    Value,
    /// Messages per second.
    Messages,
    /// Minimum time over the ranks.
    Min,
    /// Maximum time over the ranks.
    Max,
    /// Percentile of the times or rates (`-z`).
    Percentile(u8),
    /// Time of an operation that overlaps a computation.
    Overall,
    /// Share of the communication time that the computation hides, percent.
    Overlap,
    /// Result of the data check (`-c`).
    Validation,
    /// Column without a figure, e.g. iterations, or parts of the time of a non-blocking operation.
    Other,
}

/// Columns of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OsuColumns(pub(super) Vec<OsuColumn>);

/// Complete names of columns without a unit, or the last word of such names.
const NAMES: [&str; 4] = ["Size", "Messages/s", "Iterations", "Validation"];
/// Units that end the names of columns.
const UNITS: [&str; 4] = ["(us)", "MB/s", "(%)", "(ms)"];

/// True if a line is the header of a table.
pub(super) fn is_header(line: &str) -> bool {
    line.starts_with('#') && (line.contains("(us)") || line.contains("MB/s"))
}

impl OsuColumns {
    /// Parses the header of a table. A column name ends at a word that is one of [`NAMES`] or contains a unit.
    ///
    /// # Errors
    /// Fails if a column is unknown, or if two columns have the same meaning.
    pub(super) fn from_header(header: &str) -> Result<Self, String> {
        let mut columns = Vec::new();
        let mut name: Vec<&str> = Vec::new();
        for word in header.trim_start_matches('#').split_whitespace() {
            name.push(word);
            if NAMES.contains(&word) || UNITS.iter().any(|unit| word.contains(unit)) {
                let column = column(&name.join(" "))?;
                if column != OsuColumn::Other && columns.contains(&column) {
                    return Err(format!("its table has the column {:?} twice", name.join(" ")));
                }
                columns.push(column);
                name.clear();
            }
        }
        if !name.is_empty() {
            return Err(format!("its table has an unknown column: {:?}", name.join(" ")));
        }
        Ok(Self(columns))
    }

    /// Returns the position of a column.
    pub(super) fn position(&self, column: OsuColumn) -> Option<usize> {
        self.0.iter().position(|known| *known == column)
    }

    /// Returns each percentile with the position of its column.
    pub(super) fn percentiles(&self) -> impl Iterator<Item = (u8, usize)> {
        self.0.iter().enumerate().filter_map(|(at, column)| match column {
            OsuColumn::Percentile(percent) => Some((*percent, at)),
            _ => None,
        })
    }
}

/// Returns the meaning of a column with this name.
fn column(name: &str) -> Result<OsuColumn, String> {
    let lower = name.to_lowercase().replace([' ', '.'], "");
    if let Some(rest) = lower.strip_prefix('p')
        && let Some((percent, _)) = rest.split_once("tail")
    {
        let known = percent.parse().ok().filter(|percent| (1..100).contains(percent));
        return known
            .map(OsuColumn::Percentile)
            .ok_or_else(|| format!("its table has an unknown column: {name:?}"));
    }
    Ok(match lower.as_str() {
        "size" => OsuColumn::Size,
        "transmitsize" => OsuColumn::TransmitSize,
        "latency(us)" | "avglatency(us)" | "avglat(us)" | "purecomm(us)" | "mb/s"
        | "bandwidth(mb/s)" | "bi-bandwidth(mb/s)" | "avgbw(mb/s)" | "avgmb/s" => OsuColumn::Value,
        "messages/s" => OsuColumn::Messages,
        "minlatency(us)" | "minlat(us)" | "mincomm(us)" => OsuColumn::Min,
        "maxlatency(us)" | "maxlat(us)" | "maxcomm(us)" => OsuColumn::Max,
        "overall(us)" => OsuColumn::Overall,
        "overlap(%)" => OsuColumn::Overlap,
        "validation" => OsuColumn::Validation,
        "iterations" | "compute(us)" | "collinit(us)" | "mpi_test(us)" | "mpi_wait(us)"
        | "init(us)" => OsuColumn::Other,
        _ => return Err(format!("its table has an unknown column: {name:?}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_columns_are_parsed() {
        use OsuColumn::*;
        for (header, columns) in [
            ("# Size          Latency (us)        Validation", vec![Size, Value, Validation]),
            ("# Size      Bandwidth (MB/s)", vec![Size, Value]),
            ("# Size                  MB/s        Messages/s", vec![Size, Value, Messages]),
            (
                "# Size   Avg Lat(us)  Min Lat(us) Max Lat(us)  Iterations",
                vec![Size, Value, Min, Max, Other],
            ),
            ("# Avg Latency(us)", vec![Value]),
            (
                "# Size  Avg Lat(us)  P50 Tail Lat(us)  P99 Tail Lat(us)",
                vec![Size, Value, Percentile(50), Percentile(99)],
            ),
            (
                "# Size  Overall(us)  Compute(us)  Pure Comm.(us)  Overlap(%)",
                vec![Size, Overall, Other, Value, Overlap],
            ),
        ] {
            assert_eq!(OsuColumns::from_header(header), Ok(OsuColumns(columns)), "{header}");
        }
        assert!(OsuColumns::from_header("# Size Latency (us) Speed (us)").is_err());
        assert!(OsuColumns::from_header("# Size Latency (us) Latency (us)").is_err());
        assert!(OsuColumns::from_header("# Size Latency (us) more").is_err());
    }
}

//! A system from a file: Matrix Market's dense format, by columns. b is the sums of rows, so that a
//! regular matrix gives x of ones.

use crate::residual::GivenSystem;
use nodegauge_measure::{Bytes, Failure};
use std::path::Path;

/// Reads a dense square matrix where so much memory is `available`.
///
/// # Errors
/// When the file cannot be read, holds something else, or is too long for the memory.
pub fn read(path: &Path, available: Bytes) -> Result<GivenSystem, Failure> {
    let shown = path.display();
    // An element of two characters, the least, takes four times as much as a number.
    let bytes = nodegauge_os::read_file(path, available.0 / 5)
        .map_err(|cause| Failure::usage(format!("cannot read {shown}: {cause}")))?;
    let text =
        String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{shown} is no text")))?;
    parse(&text).map_err(|what| {
        Failure::usage(format!("{shown}: {what}")).hint(
            "expected '%%MatrixMarket matrix array real general', a line 'N N', then N x N \
                 numbers by columns",
        )
    })
}

fn parse(text: &str) -> Result<GivenSystem, String> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default().to_lowercase();
    if head.split_whitespace().collect::<Vec<_>>()
        != ["%%matrixmarket", "matrix", "array", "real", "general"]
    {
        return Err("not a dense real matrix of Matrix Market".to_owned());
    }
    let mut words = lines.filter(|line| !line.starts_with('%')).flat_map(str::split_whitespace);
    let mut size = || words.next()?.parse::<usize>().ok();
    let (Some(rows), Some(columns)) = (size(), size()) else {
        return Err("the line with its size is missing".to_owned());
    };
    if rows != columns || rows == 0 {
        return Err(format!("it has {rows} rows and {columns} columns, which is not square"));
    }
    let count = rows.checked_mul(rows).filter(|count| *count < text.len());
    let mut elements = Vec::with_capacity(count.ok_or("it is shorter than its size says")? + rows);
    for word in words {
        let number: f64 = word.parse().map_err(|_| format!("invalid number '{word}'"))?;
        if !number.is_finite() {
            return Err(format!("'{word}' is not a finite number"));
        }
        elements.push(number);
    }
    if Some(elements.len()) != rows.checked_mul(rows) {
        return Err(format!("it has {} elements, not {rows} x {rows}", elements.len()));
    }
    let sums = (0..rows).map(|i| (0..rows).map(|j| elements[j * rows + i]).sum());
    let sums: Vec<f64> = sums.collect();
    elements.extend(sums);
    Ok(GivenSystem { order: rows, elements })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_read_by_columns_and_b_is_its_row_sums() {
        let text = "%%MatrixMarket matrix array real general\n% a comment\n2 2\n1\n3\n2\n4\n";
        assert_eq!(
            parse(text),
            Ok(GivenSystem { order: 2, elements: vec![1.0, 3.0, 2.0, 4.0, 3.0, 7.0] })
        );
    }

    #[test]
    fn what_is_not_a_square_matrix_is_refused() {
        let with = |rest: &str| parse(&format!("%%MatrixMarket matrix array real general\n{rest}"));
        assert!(with("2 3\n1 2 3 4 5 6").unwrap_err().contains("not square"));
        assert!(with("2 2\n1 2 3").unwrap_err().contains("3 elements"));
        assert!(with("2 2\n1 2 x 4").unwrap_err().contains("'x'"));
        assert!(with("1 1\nnan").unwrap_err().contains("finite"));
        assert!(parse("1 2 3").is_err());
    }
}

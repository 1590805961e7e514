//! Writer of HPL.dat: all lines in the order in which HPL 2.3 reads them. The file hpccinf.txt of hpcc begins with the
//! same lines. This module does no I/O.

use nodegauge_lu::residual::THRESHOLD;

/// Returns numbers separated by spaces.
fn list(numbers: impl Iterator<Item = usize>) -> String {
    numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
}

/// Returns the file for one N and all combinations of NB and grids. All other values follow the advice for one node in
/// HPL's file TUNING. HPL skips the first two lines and reads the first words of the other lines. `basis` describes how
/// N was chosen; it is written on the second line.
pub fn format_input(order: usize, nbs: &[usize], grids: &[(usize, usize)], basis: &str) -> String {
    let order = order.to_string();
    let threshold = format!("{THRESHOLD:.1}");
    let b = nbs.len().to_string();
    let nbs = list(nbs.iter().copied());
    let g = grids.len().to_string();
    let ps = list(grids.iter().map(|grid| grid.0));
    let qs = list(grids.iter().map(|grid| grid.1));
    let lines = [
        ("HPL.out", "output file name (if any)"),
        ("6", "device out (6=stdout,7=stderr,file)"),
        ("1", "# of problems sizes (N)"),
        (&order, "Ns"),
        (&b, "# of NBs"),
        (&nbs, "NBs"),
        ("0", "PMAP process mapping (0=Row-,1=Column-major)"),
        (&g, "# of process grids (P x Q)"),
        (&ps, "Ps"),
        (&qs, "Qs"),
        (&threshold, "threshold"),
        ("1", "# of panel fact"),
        ("2", "PFACTs (0=left, 1=Crout, 2=Right)"),
        ("1", "# of recursive stopping criterium"),
        ("4", "NBMINs (>= 1)"),
        ("1", "# of panels in recursion"),
        ("2", "NDIVs"),
        ("1", "# of recursive panel fact."),
        ("1", "RFACTs (0=left, 1=Crout, 2=Right)"),
        ("1", "# of broadcast"),
        ("1", "BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)"),
        ("1", "# of lookahead depth"),
        ("1", "DEPTHs (>=0)"),
        ("2", "SWAP (0=bin-exch,1=long,2=mix)"),
        ("64", "swapping threshold"),
        ("0", "L1 in (0=transposed,1=no-transposed) form"),
        ("0", "U  in (0=transposed,1=no-transposed) form"),
        ("1", "Equilibration (0=no,1=yes)"),
        ("8", "memory alignment in double (> 0)"),
    ];
    // A long list of values shifts the description to the right.
    let lines = lines.map(|(value, meaning)| format!("{value:<12} {meaning}\n"));
    let basis = basis.replace('\n', " ");
    format!("HPLinpack benchmark input file\nwritten by nodegauge; N {basis}\n{}", lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hpl_dat_has_all_lines_in_order() {
        let text = format_input(8000, &[128, 192, 256], &[(1, 2)], "as requested");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 31);
        assert_eq!(lines[4], "1            # of problems sizes (N)");
        assert_eq!(lines[5], "8000         Ns");
        assert_eq!(lines[7], "128 192 256  NBs");
        assert_eq!((lines[10], lines[11]), ("1            Ps", "2            Qs"));
        assert_eq!(lines[12], "16.0         threshold");
        assert_eq!(lines[30], "8            memory alignment in double (> 0)");
    }
}

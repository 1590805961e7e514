//! Table of the operations. Each row has the number of the IOzone test, the calls, the order of the blocks, and whether
//! the operation creates the file.
//!
//! A new operation is a new row. A new way to transfer a block is a new [`TransferCall`] with its own file in
//! `engine`.

use crate::pattern::AccessPattern;
use nodegauge_measure::UnknownName;
use std::str::FromStr;

/// Direction in which an operation transfers data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Reads from the file.
    Read,
    /// Writes to the file.
    Write,
    /// Reads and writes in a given ratio.
    Mixed,
}

/// Calls that transfer a block. Every engine can perform operations with [`TransferCall::Plain`]; other operations
/// require specific calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferCall {
    /// `read` and `write` if the blocks are visited in order, otherwise `pread` and `pwrite`. Engines other than
    /// `sync` use their own calls.
    Plain,
    /// `pread`, `pwrite`.
    Positional,
    /// `preadv`, `pwritev`.
    Vector,
    /// `fread`, `fwrite`.
    Stdio,
}

/// Operation on a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Operation {
    /// Name in options, records and tables.
    pub name: &'static str,
    /// Number of the IOzone test (`-i`) that measures the operation; `None` if IOzone has no such test.
    pub iozone: Option<u8>,
    /// Direction of the transfers.
    pub direction: Direction,
    /// Calls that transfer a block.
    pub calls: TransferCall,
    /// Order of the blocks.
    pub pattern: AccessPattern,
    /// True if the operation creates the file; other operations require an existing file.
    pub creates: bool,
    /// True if the operation is measured by default.
    pub is_default: bool,
}

/// Creates a row of the table; `iozone` is the number of the IOzone test.
const fn row(
    name: &'static str,
    iozone: u8,
    direction: Direction,
    calls: TransferCall,
    pattern: AccessPattern,
) -> Operation {
    Operation {
        name,
        iozone: Some(iozone),
        direction,
        calls,
        pattern,
        creates: false,
        is_default: true,
    }
}

impl Operation {
    const fn creating(mut self) -> Self {
        self.creates = true;
        self
    }
    const fn on_request(mut self) -> Self {
        self.is_default = false;
        self
    }
}

use AccessPattern::{Backward, Forward, Random, Same, Stride};
use Direction::{Mixed, Read, Write};
use TransferCall::{Plain, Positional, Stdio, Vector};

/// All operations in the order of measurement, which is the order of the columns in IOzone's table.
pub const OPERATIONS: &[Operation] = &[
    row("write", 0, Write, Plain, Forward).creating(),
    row("rewrite", 0, Write, Plain, Forward),
    row("read", 1, Read, Plain, Forward),
    row("reread", 1, Read, Plain, Forward),
    row("random_read", 2, Read, Plain, Random),
    row("random_write", 2, Write, Plain, Random),
    row("bkwd_read", 3, Read, Plain, Backward),
    row("record_rewrite", 4, Write, Plain, Same),
    row("stride_read", 5, Read, Plain, Stride),
    row("fwrite", 6, Write, Stdio, Forward),
    row("frewrite", 6, Write, Stdio, Forward),
    row("fread", 7, Read, Stdio, Forward),
    row("freread", 7, Read, Stdio, Forward),
    row("random_mix", 8, Mixed, Plain, Random).on_request(),
    row("pwrite", 9, Write, Positional, Forward).creating().on_request(),
    row("repwrite", 9, Write, Positional, Forward).on_request(),
    row("pread", 10, Read, Positional, Forward).on_request(),
    row("repread", 10, Read, Positional, Forward).on_request(),
    row("pwritev", 11, Write, Vector, Forward).creating().on_request(),
    row("repwritev", 11, Write, Vector, Forward).on_request(),
    row("preadv", 12, Read, Vector, Forward).on_request(),
    row("repreadv", 12, Read, Vector, Forward).on_request(),
];

/// Returns the operation with this name.
pub fn find(name: &str) -> Option<&'static Operation> {
    OPERATIONS.iter().find(|operation| operation.name == name)
}

/// Prefix of the POSIX asynchronous operations in IOzone's list of tests, e.g. `aio_read`.
const ASYNCHRONOUS: &str = "aio_";

/// Operations that a user selects: the name of one operation, `usual`, or `all`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationList {
    /// Selected operations, in the order of the table.
    pub operations: Vec<&'static Operation>,
    /// True if the name has the prefix of POSIX asynchronous operations, e.g. `aio_read`.
    pub is_asynchronous: bool,
}

impl FromStr for OperationList {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let wanted = text.trim().replace('-', "_");
        if let Some(name) = wanted.strip_prefix(ASYNCHRONOUS)
            && let Some(operation) = find(name).filter(|operation| operation.calls == Plain)
        {
            return Ok(Self { operations: vec![operation], is_asynchronous: true });
        }
        let chosen: Vec<&'static Operation> = match wanted.as_str() {
            "all" => OPERATIONS.iter().collect(),
            "usual" => OPERATIONS.iter().filter(|operation| operation.is_default).collect(),
            name => find(name).into_iter().collect(),
        };
        if chosen.is_empty() {
            let names = OPERATIONS.iter().map(|operation| operation.name);
            return Err(UnknownName {
                what: "operation",
                given: text.to_owned(),
                known: ["usual", "all"].into_iter().chain(names).collect(),
            });
        }
        Ok(Self { operations: chosen, is_asynchronous: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_names_are_unique_and_repetitions_have_same_calls() {
        for (i, operation) in OPERATIONS.iter().enumerate() {
            assert!(OPERATIONS[..i].iter().all(|other| other.name != operation.name));
        }
        for [before, again] in OPERATIONS.array_windows() {
            if again.name.replacen("re", "", 1) == before.name {
                assert_eq!((before.pattern, before.calls), (again.pattern, again.calls));
                assert!(before.direction == again.direction && !again.creates);
            }
        }
        assert_eq!(OPERATIONS.iter().filter(|o| o.is_default).count(), 13, "IOzone's columns");
    }

    #[test]
    fn operation_list_accepts_hyphens_and_refuses_unknown_names() {
        let one = |text: &str| text.parse::<OperationList>().unwrap();
        assert_eq!(one("random-read").operations[0].name, "random_read");
        assert_eq!(one("all").operations.len(), OPERATIONS.len());
        assert!(
            "reed"
                .parse::<OperationList>()
                .unwrap_err()
                .to_string()
                .contains("expected usual, all")
        );
        // The C library's streams and positional calls have no asynchronous form.
        for name in ["aio_fread", "aio_pread", "aio_", "aio_all"] {
            assert!(name.parse::<OperationList>().is_err(), "{name}");
        }
    }
}

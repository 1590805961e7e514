//! Choice of the operations and of the engine that measures them.

use nodegauge_blocks::engine::IoEngine;
use nodegauge_blocks::operation::{OPERATIONS, Operation, OperationList};
use nodegauge_measure::Failure;

/// Selected operations and the engine that measures them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationChoice {
    /// Operations in the order of the table, without duplicates; empty for the default operations.
    pub operations: Vec<&'static Operation>,
    /// Operations that the user named as POSIX asynchronous I/O (`aio_*`); all of them are also in `operations`.
    pub aio_operations: Vec<&'static Operation>,
    /// Engine for the operations.
    pub engine: IoEngine,
}

/// Merges several selections. If an operation is named as POSIX asynchronous I/O, io_uring measures all operations of
/// the run.
///
/// Fails if such operations are combined with other operations or with another engine.
pub fn choose_operations(
    chosen: &[OperationList],
    engine: Option<IoEngine>,
) -> Result<OperationChoice, Failure> {
    let (asynchronous, others): (Vec<&OperationList>, Vec<&OperationList>) =
        chosen.iter().partition(|list| list.is_asynchronous);
    let all: Vec<&OperationList> = chosen.iter().collect();
    let operations = selected(&all);
    let of_aio = selected(&asynchronous);
    let Some(first) = of_aio.first() else {
        return Ok(OperationChoice {
            operations,
            aio_operations: of_aio,
            engine: engine.unwrap_or(IoEngine::Sync),
        });
    };
    let name = first.name;
    match engine {
        None | Some(IoEngine::Uring) if others.is_empty() => {
            Ok(OperationChoice { operations, aio_operations: of_aio, engine: IoEngine::Uring })
        }
        Some(engine) if engine != IoEngine::Uring => {
            let text = format!(
                "aio_{name} is measured with io_uring, not with --engine {}",
                engine.name()
            );
            Err(Failure::usage(text).hint(format!("leave out --engine, or request {name}")))
        }
        _ => {
            let other = others.iter().find_map(|list| list.operations.first());
            let other = other.map_or("", |operation| operation.name);
            let text = format!("aio_{name} and {other} require different engines");
            Err(Failure::usage(text).hint(format!(
                "measure them in two runs, or all with --engine uring -o {name},{other}"
            )))
        }
    }
}

/// Returns the operations of several selections, in the order of the table.
fn selected(lists: &[&OperationList]) -> Vec<&'static Operation> {
    let all = OPERATIONS.iter();
    all.filter(|operation| lists.iter().any(|list| list.operations.contains(operation))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&'static Operation]) -> Vec<&'static str> {
        list.iter().map(|operation| operation.name).collect()
    }

    fn lists(text: &str) -> Vec<OperationList> {
        text.split(',').map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn chosen_operations_are_in_table_order() {
        let chosen = |text: &str| choose_operations(&lists(text), None).unwrap().operations;
        assert_eq!(names(&chosen("read,write,read")), ["write", "read"]);
    }

    #[test]
    fn asynchronous_operations_require_io_uring() {
        let choice = choose_operations(&lists("aio_read,aio_write"), None).unwrap();
        assert_eq!(names(&choice.operations), ["write", "read"]);
        assert_eq!(
            (names(&choice.aio_operations), choice.engine),
            (vec!["write", "read"], IoEngine::Uring)
        );
        assert_eq!(
            choose_operations(&lists("aio_read"), Some(IoEngine::Uring)).unwrap().engine,
            IoEngine::Uring
        );
        let refused =
            |text: &str, engine| choose_operations(&lists(text), engine).unwrap_err().to_string();
        assert!(
            refused("aio_read,write", None)
                .contains("aio_read and write require different engines")
        );
        assert!(refused("aio_read", Some(IoEngine::Mmap)).contains("not with --engine mmap"));
        assert_eq!(choose_operations(&[], None).unwrap().engine, IoEngine::Sync);
    }
}

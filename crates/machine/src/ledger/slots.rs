//! Slots of memory modules: assigns the module names of the EDAC driver to slots in the firmware's list (SMBIOS).
//!
//! A slot is named only if the assignment is certain: the label contains the name of the slot, like the
//! labels of `ghes_edac` and `ras-mc-ctl --register-labels`, or both sides number sockets, channels and modules. A
//! wrong assignment would lead to the replacement of an intact module.

use crate::dimms::{self, ModuleLocator};
use crate::root::SysRoot;
use nodegauge_measure::record::{EventCount, HardwareEvent};

fn is_memory_event(kind: HardwareEvent) -> bool {
    matches!(kind, HardwareEvent::MemoryCorrected | HardwareEvent::MemoryUncorrected)
}

/// Adds the slots to errors of memory modules.
pub(super) fn add_slots(root: &SysRoot, events: &mut [EventCount]) {
    let mut of_memory = events.iter_mut().filter(|event| is_memory_event(event.kind)).peekable();
    if of_memory.peek().is_none() {
        return;
    }
    let locators = dimms::locators(root);
    for event in of_memory {
        event.slot = slot(&event.component, &locators);
    }
}

/// Returns the slot of the module with this name; `None` if the assignment is uncertain.
fn slot(component: &str, locators: &[ModuleLocator]) -> Option<String> {
    let (_, label) = component.split_once(", ")?;
    let mut found: Vec<&ModuleLocator> =
        locators.iter().filter(|locator| has_words(label, &locator.slot)).collect();
    // Boards repeat the names of slots for each bank.
    if found.len() > 1 {
        found.retain(|locator| has_words(label, &locator.bank));
    }
    if found.is_empty() {
        let of_label = numbers_in_label(label)?;
        found = locators
            .iter()
            .filter(|locator| numbers_in_bank(&locator.bank) == Some(of_label))
            .collect();
    }
    match found.as_slice() {
        [only] => Some(only.slot.clone()),
        _ => None,
    }
}

/// True if `text` contains `words` and neither a letter nor a digit is next to them.
fn has_words(text: &str, words: &str) -> bool {
    let mut places = text.match_indices(words);
    !words.is_empty()
        && places.any(|(at, _)| {
            !text[..at].ends_with(char::is_alphanumeric)
                && !text[at + words.len()..].starts_with(char::is_alphanumeric)
        })
}

/// Socket, channel and module in a name.
type ModulePlace = [u32; 3];

/// Returns the numbers in a label of Intel's drivers with one memory controller per socket, such as
/// `CPU_SrcID#0_Ha#0_Chan#2_DIMM#1`. With several controllers, the channel numbers of labels restart at each
/// controller, and the channel in the firmware's list is unknown.
fn numbers_in_label(label: &str) -> Option<ModulePlace> {
    let numbers = numbers_after(label, &["SrcID#", "Chan#", "DIMM#"])?;
    (is_absent_or_zero(label, "MC#") && is_absent_or_zero(label, "Ha#")).then_some(numbers)
}

/// True if `label` has no number after `name`, or the number 0.
fn is_absent_or_zero(label: &str, name: &str) -> bool {
    numbers_after(label, &[name]).is_none_or(|[number]| number == 0)
}

/// Returns the numbers in a bank locator such as `NODE 1 CHANNEL 2 DIMM 0`.
fn numbers_in_bank(bank: &str) -> Option<ModulePlace> {
    let upper = bank.to_uppercase();
    numbers_after(&upper, &["NODE ", "CHANNEL ", "DIMM "])
}

/// Returns the numbers that follow each of `names` in `text`.
fn numbers_after<const N: usize>(text: &str, names: &[&str; N]) -> Option<[u32; N]> {
    let mut numbers = [0; N];
    for (number, name) in numbers.iter_mut().zip(names) {
        let rest = &text[text.find(name)? + name.len()..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        *number = rest[..end].parse().ok()?;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locators(of: &[(&str, &str)]) -> Vec<ModuleLocator> {
        let locator = |(slot, bank): &(&str, &str)| ModuleLocator {
            slot: (*slot).to_owned(),
            bank: (*bank).to_owned(),
        };
        of.iter().map(locator).collect()
    }

    #[test]
    fn label_containing_slot_name_identifies_slot() {
        let board = locators(&[("DIMM_A1", "P0 CHANNEL A"), ("DIMM_A12", "P0 CHANNEL L")]);
        assert_eq!(slot("mc0 dimm0, P0 CHANNEL A DIMM_A1", &board).as_deref(), Some("DIMM_A1"));
        assert_eq!(slot("mc0 dimm0, DIMM_A12", &board).as_deref(), Some("DIMM_A12"));
        assert_eq!(slot("mc0 dimm0, mc#0csrow#0channel#0", &board), None);
        assert_eq!(slot("mc0 dimm0", &board), None);
        let twice = locators(&[("DIMM 0", "P0 CHANNEL A"), ("DIMM 0", "P0 CHANNEL B")]);
        let second = slot("mc0 dimm1, P0 CHANNEL B DIMM 0", &twice);
        assert_eq!(second.as_deref(), Some("DIMM 0"));
        assert_eq!(slot("mc0 dimm1, DIMM 0", &twice), None);
    }

    #[test]
    fn matching_numbers_identify_the_slot_for_the_first_controller_only() {
        let board = locators(&[
            ("CPU1_DIMM_A1", "NODE 0 CHANNEL 0 DIMM 0"),
            ("CPU2_DIMM_C1", "NODE 1 CHANNEL 2 DIMM 0"),
        ]);
        let label = "mc1 dimm4, CPU_SrcID#1_Ha#0_Chan#2_DIMM#0";
        assert_eq!(slot(label, &board).as_deref(), Some("CPU2_DIMM_C1"));
        // The second controller has a channel 0 of its own.
        assert_eq!(slot("mc1 dimm0, CPU_SrcID#0_MC#1_Chan#0_DIMM#0", &board), None);
        assert_eq!(slot("mc0 dimm9, CPU_SrcID#0_MC#0_Chan#7_DIMM#0", &board), None);
    }
}

//! Contents of a shared object: its code, its functions by name and address, and the symbol names of the slots that
//! the dynamic linker fills with addresses.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use object::{
    Architecture, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind, SymbolKind,
};
use std::collections::BTreeMap;

pub(super) struct SharedObjectImage<'a> {
    /// Address and bytes of each code section.
    code: Vec<(u64, &'a [u8])>,
    /// Functions by address; several functions may have the same address.
    functions: Vec<Function>,
    /// Names of symbols by the address of the slot in which the dynamic linker stores the address of the symbol.
    slots: BTreeMap<u64, String>,
}

#[derive(Debug, Clone)]
pub(super) struct Function {
    pub name: String,
    pub start: u64,
    pub size: u64,
}

/// Maximum number of instructions in a stub of the procedure linkage table: a landing pad and the jump.
const STUB: usize = 3;
/// Maximum size of a function whose symbol contains no size, in bytes. The start of the next function also ends the
/// function.
const LONGEST: u64 = 1 << 20;

impl<'a> SharedObjectImage<'a> {
    /// Parses a shared object; `None` if it is not for x86-64.
    pub(super) fn parse(data: &'a [u8]) -> Result<Option<Self>, object::Error> {
        let file = object::File::parse(data)?;
        if file.architecture() != Architecture::X86_64 {
            return Ok(None);
        }
        let mut code = Vec::new();
        for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
            code.push((section.address(), section.data()?));
        }
        let mut functions: Vec<Function> = file
            .dynamic_symbols()
            .chain(file.symbols())
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
            .filter_map(|symbol| {
                let name = symbol.name().ok()?.to_owned();
                Some(Function { name, start: symbol.address(), size: symbol.size() })
            })
            .collect();
        functions.sort_by_key(|function| function.start);
        let starts: Vec<u64> = functions.iter().map(|function| function.start).collect();
        for function in functions.iter_mut().filter(|function| function.size == 0) {
            let next = starts.iter().find(|start| **start > function.start);
            function.size = next.map_or(LONGEST, |next| next - function.start).min(LONGEST);
        }
        let mut slots = BTreeMap::new();
        for (at, relocation) in file.dynamic_relocations().into_iter().flatten() {
            if let RelocationTarget::Symbol(index) = relocation.target()
                && let Some(table) = file.dynamic_symbol_table()
                && let Ok(symbol) = object::ObjectSymbolTable::symbol_by_index(&table, index)
                && let Ok(name) = symbol.name()
            {
                slots.insert(at, name.to_owned());
            }
        }
        Ok(Some(Self { code, functions, slots }))
    }

    pub(super) fn function(&self, name: &str) -> Option<Function> {
        self.functions.iter().find(|function| function.name == name).cloned()
    }

    /// Returns the parts of a function that the compiler placed elsewhere under names such as `name.cold` or
    /// `name.part.0`.
    pub(super) fn parts(&self, function: &Function) -> Vec<Function> {
        let prefix = format!("{}.", function.name);
        self.functions.iter().filter(|other| other.name.starts_with(&prefix)).cloned().collect()
    }

    /// Returns at most `length` bytes, beginning at an address; empty if the address is outside the code sections.
    pub(super) fn bytes(&self, start: u64, length: u64) -> &'a [u8] {
        let section = self.code.iter().find(|(address, data)| {
            (*address..address.saturating_add(data.len() as u64)).contains(&start)
        });
        let Some((address, data)) = section else { return &[] };
        let from = (start - address) as usize;
        let to = from.saturating_add(length as usize).min(data.len());
        &data[from..to]
    }

    /// Returns the name of the function at the target of a call or a jump. If the target is a stub of the procedure
    /// linkage table, returns the name of the symbol to which the stub jumps.
    pub(super) fn name_at(&self, target: u64) -> Option<&str> {
        if let Some(function) = self.functions.iter().find(|function| function.start == target) {
            return Some(&function.name);
        }
        let bytes = self.bytes(target, 32);
        let mut decoder = Decoder::with_ip(64, bytes, target, DecoderOptions::NONE);
        let jump = decoder
            .iter()
            .take(STUB)
            .find(|instruction| instruction.flow_control() == FlowControl::IndirectBranch)?;
        self.symbol_slot(&jump)
    }

    /// Returns the symbol name of the slot from which a call or jump instruction reads its target.
    pub(super) fn symbol_slot(&self, instruction: &Instruction) -> Option<&str> {
        let through_slot = instruction.op0_kind() == OpKind::Memory
            && instruction.memory_base() == Register::RIP
            && instruction.memory_index() == Register::None;
        let slot = self.slots.get(&instruction.memory_displacement64());
        slot.filter(|_| through_slot).map(String::as_str)
    }
}

//! A shared object as its code sees it: functions by name and address, and which name stands
//! behind a slot that the dynamic linker fills.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use object::{
    Architecture, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind, SymbolKind,
};
use std::collections::BTreeMap;

pub(super) struct Image<'a> {
    /// Address and bytes of each section with code.
    code: Vec<(u64, &'a [u8])>,
    /// Address, size and name of each function; several may share an address.
    functions: Vec<Function>,
    /// Address of a slot to the name of the symbol whose address goes there.
    slots: BTreeMap<u64, String>,
}

#[derive(Debug, Clone)]
pub(super) struct Function {
    pub name: String,
    pub start: u64,
    pub size: u64,
}

/// Instructions of a stub of the procedure linkage table at most: a landing pad, and the jump.
const STUB: usize = 3;
/// A function without a size ends where the next begins, and is not longer than this.
const LONGEST: u64 = 1 << 20;

impl<'a> Image<'a> {
    /// Parses the file; `None` when it is for another processor than x86-64.
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

    /// Parts of a function that a compiler keeps elsewhere: `name.cold`, `name.part.0`.
    pub(super) fn parts(&self, function: &Function) -> Vec<Function> {
        let prefix = format!("{}.", function.name);
        self.functions.iter().filter(|other| other.name.starts_with(&prefix)).cloned().collect()
    }

    /// The bytes from an address on, `length` at most; empty outside all code.
    pub(super) fn bytes(&self, start: u64, length: u64) -> &'a [u8] {
        let section = self.code.iter().find(|(address, data)| {
            (*address..address.saturating_add(data.len() as u64)).contains(&start)
        });
        let Some((address, data)) = section else { return &[] };
        let from = (start - address) as usize;
        let to = from.saturating_add(length as usize).min(data.len());
        &data[from..to]
    }

    /// The name behind the address that a call or a jump leads to: a function's own, or that of the
    /// symbol to which a stub of the procedure linkage table jumps.
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
        self.slot_of(&jump)
    }

    /// The name behind the memory slot through which an instruction calls or jumps.
    pub(super) fn slot_of(&self, instruction: &Instruction) -> Option<&str> {
        let through_slot = instruction.op0_kind() == OpKind::Memory
            && instruction.memory_base() == Register::RIP
            && instruction.memory_index() == Register::None;
        let slot = self.slots.get(&instruction.memory_displacement64());
        slot.filter(|_| through_slot).map(String::as_str)
    }
}

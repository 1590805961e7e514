//! The instructions of one function: which loop is hot, and what it does.
//!
//! A loop is what lies between a jump backwards and its target. Of the loops that contain no other,
//! the hot one is the one that moves most bytes a turn: a vectorised loop moves several vectors, the
//! loops around it that reach an aligned address or do the rest move an element. This can be told
//! without knowing the compiler; where a compiler makes two loops that move equally much and takes
//! its choice at run time, it is the wider, then the first.

use super::Code;
use super::image::{Function, Image};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// A function's instructions, those of its parts elsewhere included.
pub(super) struct Body {
    instructions: Vec<Instruction>,
    /// From the first address to behind the last of each part.
    parts: Vec<(u64, u64)>,
}

/// A loop: first and last index into the instructions.
type Loop = (usize, usize);

impl Body {
    pub(super) fn decode(image: &Image<'_>, function: &Function) -> Self {
        let mut instructions = Vec::new();
        let mut parts = Vec::new();
        for part in std::iter::once(function.clone()).chain(image.parts(function)) {
            let bytes = image.bytes(part.start, part.size);
            instructions.extend(&mut Decoder::with_ip(64, bytes, part.start, DecoderOptions::NONE));
            parts.push((part.start, part.start.saturating_add(bytes.len() as u64)));
        }
        Self { instructions, parts }
    }

    pub(super) fn code(&self, image: &Image<'_>) -> Code {
        let hot = self.hot_loop().map_or(&[][..], |(from, to)| &self.instructions[from..=to]);
        Code {
            vector_bits: hot.iter().filter_map(width).max().map(|bytes| bytes * 8),
            nontemporal: hot.iter().any(is_nontemporal),
            fma: hot.iter().any(is_fused),
            prefetch: hot.iter().any(is_prefetch),
            calls: self.calls(image),
        }
    }

    /// The innermost loop that moves most bytes a turn; none when no loop touches data.
    fn hot_loop(&self) -> Option<Loop> {
        let branch = [FlowControl::ConditionalBranch, FlowControl::UnconditionalBranch];
        let jumps = self.instructions.iter().enumerate();
        let loops: Vec<Loop> = jumps
            .filter(|(_, instruction)| branch.contains(&instruction.flow_control()))
            .filter_map(|(i, instruction)| {
                let target = instruction.near_branch_target();
                // A jump to itself or backwards, within its own part.
                let to = self.instructions.iter().position(|other| other.ip() == target)?;
                let same_part = self.part_of(target) == self.part_of(instruction.ip());
                (to <= i && same_part).then_some((to, i))
            })
            .collect();
        let contains =
            |outer: &Loop, inner: &Loop| outer != inner && outer.0 <= inner.0 && inner.1 <= outer.1;
        let mut best: Option<(u32, u32, Loop)> = None;
        for candidate in &loops {
            let turn = &self.instructions[candidate.0..=candidate.1];
            let bytes: u32 = turn.iter().filter_map(data_bytes).sum();
            // A loop inside that touches no data, such as a wait, takes nothing from the loop around it.
            let inner = loops.iter().any(|other| {
                contains(candidate, other)
                    && self.instructions[other.0..=other.1].iter().any(|i| data_bytes(i).is_some())
            });
            if bytes == 0 || inner {
                continue;
            }
            let width = turn.iter().filter_map(width).max().unwrap_or(0);
            if best.is_none_or(|(most, widest, _)| (bytes, width) > (most, widest)) {
                best = Some((bytes, width, *candidate));
            }
        }
        best.map(|(_, _, hot)| hot)
    }

    fn part_of(&self, address: u64) -> Option<usize> {
        self.parts.iter().position(|(from, to)| (*from..*to).contains(&address))
    }

    /// The functions that it calls, each once; a jump out of the function is a call at its end.
    fn calls(&self, image: &Image<'_>) -> Vec<String> {
        let mut calls: Vec<String> = Vec::new();
        for instruction in &self.instructions {
            let name = match instruction.flow_control() {
                FlowControl::Call | FlowControl::UnconditionalBranch
                    if instruction.op0_kind() == OpKind::NearBranch64 =>
                {
                    let target = instruction.near_branch_target();
                    let outside = self.part_of(target).is_none();
                    outside.then(|| image.name_at(target).unwrap_or("?"))
                }
                // A jump through a register is as well a switch within the function.
                FlowControl::IndirectCall => Some(image.slot_of(instruction).unwrap_or("?")),
                FlowControl::IndirectBranch => image.slot_of(instruction),
                _ => string_operation(instruction),
            };
            let Some(name) = name else { continue };
            // Versions of symbols say nothing here, and neither does the watch over the stack.
            let name = name.split('@').next().unwrap_or_default();
            if name != "__stack_chk_fail" && calls.iter().all(|known| known != name) {
                calls.push(name.to_owned());
            }
        }
        calls
    }
}

/// The processor's own memcpy and memset.
fn string_operation(instruction: &Instruction) -> Option<&'static str> {
    if !instruction.has_rep_prefix() && !instruction.has_repe_prefix() {
        return None;
    }
    match instruction.mnemonic() {
        Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsq => Some("rep movs"),
        // The vector instruction of the same name has no such operands.
        Mnemonic::Movsd if instruction.op0_kind() == OpKind::MemoryESRDI => Some("rep movs"),
        Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => Some("rep stos"),
        _ => None,
    }
}

/// Bytes of the arrays that an instruction reads or writes; `None` when it touches none of them: the
/// stack and constants are no arrays, and an address is no access.
fn data_bytes(instruction: &Instruction) -> Option<u32> {
    let has_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
    // Without a frame pointer its register may lead to an array; a frame lies below it.
    let own = match instruction.memory_base() {
        _ if instruction.memory_index() != Register::None => false,
        Register::RSP | Register::RIP => true,
        Register::RBP => (instruction.memory_displacement64() as i64) < 0,
        _ => false,
    };
    if !has_memory || own || is_prefetch(instruction) {
        return None;
    }
    match instruction.mnemonic() {
        Mnemonic::Lea | Mnemonic::Nop | Mnemonic::Jmp | Mnemonic::Call => None,
        _ => Some(instruction.memory_size().size() as u32).filter(|bytes| *bytes > 0),
    }
}

/// Bytes that an instruction works on at once, as far as it tells: those that it moves, or those of
/// the widest vector it names. The narrowest vector registers hold scalars, too, so only what is
/// moved tells of them.
fn width(instruction: &Instruction) -> Option<u32> {
    let registers = (0..instruction.op_count())
        .filter(|i| instruction.op_kind(*i) == OpKind::Register)
        .map(|i| instruction.op_register(i))
        .filter(|register| register.is_ymm() || register.is_zmm())
        .map(|register| register.size() as u32);
    // A value that is spread over a vector is read once and says nothing of the vector.
    let moved = data_bytes(instruction).filter(|_| !instruction.is_broadcast());
    registers.chain(moved).max()
}

fn is_nontemporal(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(instruction.mnemonic(), Movntdq | Movnti | Movntpd | Movntps | Movntq)
        || matches!(instruction.mnemonic(), Movntsd | Movntss | Vmovntdq | Vmovntpd | Vmovntps)
}

/// `vfmadd…`, `vfmsub…`, `vfnmadd…`, `vfnmsub…`: some hundred instructions that begin alike.
fn is_fused(instruction: &Instruction) -> bool {
    let name = format!("{:?}", instruction.mnemonic());
    ["Vfmadd", "Vfmsub", "Vfnmadd", "Vfnmsub"].iter().any(|prefix| name.starts_with(prefix))
}

fn is_prefetch(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(instruction.mnemonic(), Prefetch | Prefetchnta | Prefetchw | Prefetchwt1)
        || matches!(instruction.mnemonic(), Prefetcht0 | Prefetcht1 | Prefetcht2)
}

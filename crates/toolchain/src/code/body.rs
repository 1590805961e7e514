//! Instructions of one function: detection and analysis of its hot loop.
//!
//! A loop is the code between a backward jump and the target of the jump. Of the innermost loops, the hot loop is the
//! one that moves the most bytes per iteration: a vectorised loop moves several vectors, but its prologue and remainder
//! loops move one element. This rule does not depend on the compiler. If several loops move the same number of bytes,
//! because the program selects one of them at run time, the hot loop is the first one with the widest vectors.

use super::CodeProperties;
use super::image::{Function, SharedObjectImage};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// Instructions of a function, including parts that the compiler placed at other addresses.
pub(super) struct FunctionBody {
    instructions: Vec<Instruction>,
    /// Address range of each part of the function; the end is exclusive.
    parts: Vec<(u64, u64)>,
}

/// Loop in the instructions of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Loop {
    /// Index of the first instruction of the loop.
    first: usize,
    /// Index of the last instruction of the loop, which is the jump.
    last: usize,
}

impl Loop {
    /// True if `inner` is a different loop within this loop.
    fn contains(&self, inner: &Self) -> bool {
        self != inner && self.first <= inner.first && inner.last <= self.last
    }
}

impl FunctionBody {
    pub(super) fn decode(image: &SharedObjectImage<'_>, function: &Function) -> Self {
        let mut instructions = Vec::new();
        let mut parts = Vec::new();
        for part in std::iter::once(function.clone()).chain(image.parts(function)) {
            let bytes = image.bytes(part.start, part.size);
            instructions.extend(&mut Decoder::with_ip(64, bytes, part.start, DecoderOptions::NONE));
            parts.push((part.start, part.start.saturating_add(bytes.len() as u64)));
        }
        Self { instructions, parts }
    }

    pub(super) fn code(&self, image: &SharedObjectImage<'_>) -> CodeProperties {
        let hot = self.hot_loop().map_or(&[][..], |hot| self.loop_instructions(&hot));
        CodeProperties {
            vector_bits: hot.iter().filter_map(width).max().map(|bytes| bytes * 8),
            nontemporal: hot.iter().any(is_nontemporal),
            fma: hot.iter().any(is_fused),
            prefetch: hot.iter().any(is_prefetch),
            calls: self.calls(image),
        }
    }

    fn loop_instructions(&self, of: &Loop) -> &[Instruction] {
        &self.instructions[of.first..=of.last]
    }

    /// Returns the hot loop, i.e. the innermost loop that moves the most bytes per iteration; `None` if no loop
    /// accesses data.
    fn hot_loop(&self) -> Option<Loop> {
        let branch = [FlowControl::ConditionalBranch, FlowControl::UnconditionalBranch];
        let jumps = self.instructions.iter().enumerate();
        let loops: Vec<Loop> = jumps
            .filter(|(_, instruction)| branch.contains(&instruction.flow_control()))
            .filter_map(|(i, instruction)| {
                let target = instruction.near_branch_target();
                // Only jumps backwards, or to themselves, within one part of the function end a loop.
                let first = self.instructions.iter().position(|other| other.ip() == target)?;
                let same_part = self.part_at(target) == self.part_at(instruction.ip());
                (first <= i && same_part).then_some(Loop { first, last: i })
            })
            .collect();
        let mut best: Option<(u32, u32, Loop)> = None;
        for candidate in &loops {
            let iteration = self.loop_instructions(candidate);
            let bytes: u32 = iteration.iter().filter_map(data_bytes).sum();
            // An inner loop without data access, e.g. one that waits, does not exclude the outer loop.
            let inner = loops.iter().any(|other| {
                candidate.contains(other)
                    && self.loop_instructions(other).iter().any(|i| data_bytes(i).is_some())
            });
            if bytes == 0 || inner {
                continue;
            }
            let width = iteration.iter().filter_map(width).max().unwrap_or(0);
            if best.is_none_or(|(max, widest, _)| (bytes, width) > (max, widest)) {
                best = Some((bytes, width, *candidate));
            }
        }
        best.map(|(_, _, hot)| hot)
    }

    fn part_at(&self, address: u64) -> Option<usize> {
        self.parts.iter().position(|(from, to)| (*from..*to).contains(&address))
    }

    /// Returns the called functions without duplicates. A jump out of the function is a tail call.
    fn calls(&self, image: &SharedObjectImage<'_>) -> Vec<String> {
        let mut calls: Vec<String> = Vec::new();
        for instruction in &self.instructions {
            let symbol = match instruction.flow_control() {
                FlowControl::Call | FlowControl::UnconditionalBranch
                    if instruction.op0_kind() == OpKind::NearBranch64 =>
                {
                    let target = instruction.near_branch_target();
                    let outside = self.part_at(target).is_none();
                    outside.then(|| image.name_at(target).unwrap_or("?"))
                }
                // A jump through a register may be a switch statement within the function, so it does not count as a
                // call.
                FlowControl::IndirectCall => Some(image.symbol_slot(instruction).unwrap_or("?")),
                FlowControl::IndirectBranch => image.symbol_slot(instruction),
                _ => string_operation(instruction),
            };
            let Some(symbol) = symbol else { continue };
            // Versions of symbols and calls of the stack protector are ignored.
            let name = symbol.split('@').next().unwrap_or_default();
            if name != "__stack_chk_fail" && calls.iter().all(|known| known != name) {
                calls.push(name.to_owned());
            }
        }
        calls
    }
}

/// Returns the name of a string instruction (`rep movs` or `rep stos`), which works like memcpy or memset.
fn string_operation(instruction: &Instruction) -> Option<&'static str> {
    if !instruction.has_rep_prefix() && !instruction.has_repe_prefix() {
        return None;
    }
    match instruction.mnemonic() {
        Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsq => Some("rep movs"),
        // `movsd` is also the name of a vector instruction, which has other operands.
        Mnemonic::Movsd if instruction.op0_kind() == OpKind::MemoryESRDI => Some("rep movs"),
        Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => Some("rep stos"),
        _ => None,
    }
}

/// Returns the number of array bytes that an instruction reads or writes; `None` if it accesses no array. Stack frames
/// and constants do not count as arrays, and the computation of an address does not count as access.
fn data_bytes(instruction: &Instruction) -> Option<u32> {
    let has_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
    // RBP may point to an array if the function has no frame pointer. In a stack frame, its displacements are negative.
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

/// Returns the number of bytes that an instruction processes together, if it is known. It is the number of bytes
/// that the instruction moves, or the width of its widest vector register. XMM registers are not considered,
/// because they may contain scalars.
fn width(instruction: &Instruction) -> Option<u32> {
    let registers = (0..instruction.op_count())
        .filter(|i| instruction.op_kind(*i) == OpKind::Register)
        .map(|i| instruction.op_register(i))
        .filter(|register| register.is_ymm() || register.is_zmm())
        .map(|register| register.size() as u32);
    // A broadcast reads one element, so the number of moved bytes is smaller than the vector width.
    let moved = data_bytes(instruction).filter(|_| !instruction.is_broadcast());
    registers.chain(moved).max()
}

fn is_nontemporal(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(instruction.mnemonic(), Movntdq | Movnti | Movntpd | Movntps | Movntq)
        || matches!(instruction.mnemonic(), Movntsd | Movntss | Vmovntdq | Vmovntpd | Vmovntps)
}

/// True for a fused multiply-add. There are about a hundred such instructions, with the prefixes `vfmadd`, `vfmsub`,
/// `vfnmadd` and `vfnmsub`.
fn is_fused(instruction: &Instruction) -> bool {
    let name = format!("{:?}", instruction.mnemonic());
    ["Vfmadd", "Vfmsub", "Vfnmadd", "Vfnmsub"].iter().any(|prefix| name.starts_with(prefix))
}

fn is_prefetch(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(instruction.mnemonic(), Prefetch | Prefetchnta | Prefetchw | Prefetchwt1)
        || matches!(instruction.mnemonic(), Prefetcht0 | Prefetcht1 | Prefetcht2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes one instruction of x86-64.
    fn decoded(code: &[u8]) -> Instruction {
        Decoder::new(64, code, DecoderOptions::NONE).decode()
    }

    #[test]
    fn only_array_accesses_count_bytes() {
        let bytes = |code: &[u8]| data_bytes(&decoded(code));
        // movaps xmm0,[rax]; mov rax,[rbp+0x10]: RBP may point to an array.
        assert_eq!(bytes(&[0x0f, 0x28, 0x00]), Some(16));
        assert_eq!(bytes(&[0x48, 0x8b, 0x45, 0x10]), Some(8));
        assert_eq!(bytes(&[0x48, 0x8b, 0x45, 0x00]), Some(8));
        // mov rax,[rsp+rcx*8]: an array on the stack has an index.
        assert_eq!(bytes(&[0x48, 0x8b, 0x04, 0xcc]), Some(8));
        // mov rax,[rbp-8]; mov rax,[rsp+8]; movaps xmm0,[rip+8]: stack frames and constants.
        assert_eq!(bytes(&[0x48, 0x8b, 0x45, 0xf8]), None);
        assert_eq!(bytes(&[0x48, 0x8b, 0x44, 0x24, 0x08]), None);
        assert_eq!(bytes(&[0x0f, 0x28, 0x05, 8, 0, 0, 0]), None);
        // lea rax,[rbx+8]; prefetcht0 [rax]; prefetchnta [rax]; add rax,rbx.
        assert_eq!(bytes(&[0x48, 0x8d, 0x43, 0x08]), None);
        assert_eq!(bytes(&[0x0f, 0x18, 0x08]), None);
        assert_eq!(bytes(&[0x0f, 0x18, 0x00]), None);
        assert_eq!(bytes(&[0x48, 0x01, 0xd8]), None);
    }

    #[test]
    fn string_instructions_are_recognised() {
        let name = |code: &[u8]| string_operation(&decoded(code));
        // rep movsb; rep movsd; rep stosq; movsq without a prefix; movsd xmm0,[rax].
        assert_eq!(name(&[0xf3, 0xa4]), Some("rep movs"));
        assert_eq!(name(&[0xf3, 0xa5]), Some("rep movs"));
        assert_eq!(name(&[0xf3, 0x48, 0xab]), Some("rep stos"));
        assert_eq!(name(&[0x48, 0xa5]), None);
        assert_eq!(name(&[0xf2, 0x0f, 0x10, 0x00]), None);
    }

    #[test]
    fn nontemporal_stores_and_fma_are_recognised() {
        // vmovntpd [rax],zmm0; vmovapd [rax],zmm0; vfmadd231pd ymm0,ymm1,ymm2; vmulpd ymm0,ymm1,ymm2.
        assert!(is_nontemporal(&decoded(&[0x62, 0xf1, 0xfd, 0x48, 0x2b, 0x00])));
        assert!(!is_nontemporal(&decoded(&[0x62, 0xf1, 0xfd, 0x48, 0x29, 0x00])));
        assert!(is_fused(&decoded(&[0xc4, 0xe2, 0xf5, 0xb8, 0xc2])));
        assert!(!is_fused(&decoded(&[0xc5, 0xf5, 0x59, 0xc2])));
        assert_eq!(width(&decoded(&[0xc5, 0xf5, 0x59, 0xc2])), Some(32));
        assert_eq!(width(&decoded(&[0x62, 0xf1, 0xfd, 0x48, 0x29, 0x00])), Some(64));
    }
}

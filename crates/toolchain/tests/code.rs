//! Tests of the analysis of machine code. The instructions of each function are known from the compiler flags, or from
//! intrinsics and assembly in the source.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/skip.rs"]
mod skip;

use nodegauge_toolchain::code::{CodeProperties, SharedObject};
use nodegauge_toolchain::{Compiler, ScratchFolder, ToolchainError};
use skip::{Part, skip};
use std::path::Path;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

const LOOPS: &str = r#"
#include <stddef.h>
#include <string.h>
void copy(double *restrict c, const double *restrict a, ptrdiff_t n)
{ for (ptrdiff_t j = 0; j < n; j++) c[j] = a[j]; }
void zero(double *restrict c, ptrdiff_t n)
{ for (ptrdiff_t j = 0; j < n; j++) c[j] = 0; }
void triad(double *restrict a, const double *restrict b, const double *restrict c, double s, ptrdiff_t n)
{ for (ptrdiff_t j = 0; j < n; j++) a[j] = b[j] + s * c[j]; }
void triadf(float *restrict a, const float *restrict b, const float *restrict c, float s, ptrdiff_t n)
{ for (ptrdiff_t j = 0; j < n; j++) a[j] = b[j] + s * c[j]; }
"#;

fn never() -> bool {
    false
}

/// Compiles `source` with `command` and returns the shared object; `None` if the compiler is missing.
fn compiled(command: &str, source: &str) -> Option<(ScratchFolder, SharedObject)> {
    let scratch = ScratchFolder::new().unwrap();
    let file = scratch.path().join("loops.c");
    std::fs::write(&file, source).unwrap();
    let compiler = match Compiler::find(command.parse().unwrap(), LONG, &never) {
        Err(ToolchainError::NoCompiler { program }) => {
            skip(Part::Compilers, &format!("there is no {program}"));
            return None;
        }
        other => other.unwrap(),
    };
    let flags = ["-fPIC", "-shared"].map(str::to_owned);
    let library = compiler.compile(LONG, &[&file], &flags, &scratch, "loops.so", &never).unwrap();
    let object = SharedObject::open(&library.path).unwrap();
    Some((scratch, object))
}

fn code(object: &SharedObject, name: &str) -> CodeProperties {
    object.function_code(name).unwrap().unwrap_or_else(|| panic!("there is no {name}"))
}

/// Returns the vector width of a function in bits, and whether it has non-temporal stores and fused multiply-adds.
fn summary(object: &SharedObject, name: &str) -> (Option<u32>, bool, bool) {
    let code = code(object, name);
    (code.vector_bits, code.nontemporal, code.fma)
}

#[test]
fn code_properties_follow_compiler_flags() {
    let v256 = "-O3 -mavx2 -mfma";
    let v512 = "-O3 -mavx512f -mprefer-vector-width=512 -ffp-contract=off";
    for compiler in ["gcc", "clang"] {
        let Some((_scratch, plain)) = compiled(&format!("{compiler} -O0"), LOOPS) else { continue };
        for (name, bits) in [("copy", 64), ("triad", 64), ("triadf", 32)] {
            assert_eq!(summary(&plain, name), (Some(bits), false, false), "{compiler} -O0 {name}");
            assert!(code(&plain, name).calls.is_empty());
        }
        let (_wide_scratch, wide) = compiled(&format!("{compiler} {v256}"), LOOPS).unwrap();
        let fused = summary(&wide, "triad").2;
        // By default, gcc generates fused multiply-adds, as clang does since version 14.
        assert!(compiler == "clang" || fused);
        assert_eq!(summary(&wide, "triad"), (Some(256), false, fused), "{compiler} {v256}");
        assert_eq!(summary(&wide, "triadf").0, Some(256));
        let (_wider_scratch, wider) = compiled(&format!("{compiler} {v512}"), LOOPS).unwrap();
        assert_eq!(summary(&wider, "triad"), (Some(512), false, false), "{compiler} {v512}");
        let (_sse_scratch, sse) = compiled(&format!("{compiler} -O3 -msse2"), LOOPS).unwrap();
        assert_eq!(summary(&sse, "triad"), (Some(128), false, false), "{compiler} -O3 -msse2");
    }
}

#[test]
fn calls_that_replace_loops_are_named() {
    for flags in ["-O3", "-O3 -fno-plt", "-O3 -fcf-protection=full", "-O3 -Wl,-z,now", "-O3 -s"] {
        for compiler in ["gcc", "clang"] {
            let Some((_scratch, object)) = compiled(&format!("{compiler} {flags}"), LOOPS) else {
                continue;
            };
            for (name, call) in [("copy", "memcpy"), ("zero", "memset")] {
                let code = code(&object, name);
                assert_eq!(code.calls, [call], "{compiler} {flags}: {code:?}");
                assert_eq!(code.vector_bits, None, "{compiler} {flags}: {code:?}");
            }
            assert!(code(&object, "triad").calls.is_empty());
        }
    }
    let kept = compiled("gcc -O3 -mavx2 -fno-tree-loop-distribute-patterns", LOOPS).unwrap();
    let code = code(&kept.1, "copy");
    assert_eq!((code.calls, code.vector_bits), (vec![], Some(256)));
}

#[test]
fn nontemporal_stores_are_detected_in_every_form() {
    let intrinsics = r#"
        #include <emmintrin.h>
        #include <stddef.h>
        void nt(double *c, const double *a, ptrdiff_t n)
        { ptrdiff_t j = 0;
          for (; j < n && ((size_t)(c + j) & 15); j++) c[j] = a[j];
          for (; j + 2 <= n; j += 2) _mm_stream_pd(c + j, _mm_loadu_pd(a + j));
          for (; j < n; j++) c[j] = a[j]; }
        void ints(int *c, const int *a, ptrdiff_t n)
        { for (ptrdiff_t j = 0; j < n; j++) _mm_stream_si32(c + j, a[j]); }
        void ahead(double *c, const double *a, ptrdiff_t n)
        { for (ptrdiff_t j = 0; j < n; j++) {
            _mm_prefetch((const char *)(a + j + 64), _MM_HINT_T0); c[j] = a[j]; } }"#;
    let (_scratch, object) = compiled("gcc -O2 -fno-tree-vectorize", intrinsics).unwrap();
    assert_eq!(summary(&object, "nt"), (Some(128), true, false));
    assert_eq!(summary(&object, "ints"), (Some(32), true, false));
    let ahead = code(&object, "ahead");
    assert_eq!((ahead.prefetch, ahead.vector_bits), (true, Some(64)));
    let builtin = r#"
        #include <stddef.h>
        typedef double four __attribute__((vector_size(32)));
        void nt(four *restrict c, const four *restrict a, double s, ptrdiff_t n)
        { for (ptrdiff_t j = 0; j < n; j++) __builtin_nontemporal_store(s * a[j], c + j); }"#;
    if let Some((_clang_scratch, clang_object)) = compiled("clang -O3 -mavx2", builtin) {
        assert_eq!(summary(&clang_object, "nt"), (Some(256), true, false));
    }
    // AOCC's clang supports the flag; the clang of llvm.org does not.
    let scratch = ScratchFolder::new().unwrap();
    let file = scratch.path().join("loops.c");
    std::fs::write(&file, LOOPS).unwrap();
    if let Ok(clang) = Compiler::find("clang -O3 -mavx2 -fnt-store".parse().unwrap(), LONG, &never)
    {
        let flags = ["-fPIC", "-shared"].map(str::to_owned);
        match clang.compile(LONG, &[&file], &flags, &scratch, "nt.so", &never) {
            Ok(library) => {
                let library_object = SharedObject::open(&library.path).unwrap();
                assert!(summary(&library_object, "triad").1);
            }
            Err(error) => assert!(error.to_string().contains("-fnt-store"), "{error}"),
        }
    }
}

#[test]
fn hot_loop_is_found_between_prologue_and_remainder() {
    let assembly = r#"
        __asm__(".globl by_hand\n.type by_hand,@function\nby_hand:\n"
            "1: movsd (%rsi),%xmm0\n movsd %xmm0,(%rdi)\n add $8,%rsi\n add $8,%rdi\n dec %rcx\n jnz 1b\n"
            "2: vmovupd (%rsi),%ymm0\n vfmadd231pd (%rdx),%ymm1,%ymm0\n vmovntpd %ymm0,(%rdi)\n"
            " vmovupd 32(%rsi),%ymm0\n vmovntpd %ymm0,32(%rdi)\n"
            " add $64,%rsi\n add $64,%rdi\n sub $64,%r8\n jg 2b\n"
            "3: movsd (%rsi),%xmm0\n movsd %xmm0,(%rdi)\n add $8,%rsi\n dec %r9\n jnz 3b\n"
            " sfence\n ret\n.size by_hand,.-by_hand\n"
            ".globl nested\n.type nested,@function\nnested:\n"
            "1: vmovupd (%rsi),%zmm0\n mov %r8,%rcx\n"
            "2: vmovupd (%rdx),%ymm1\n vmovupd %ymm1,(%rdi)\n add $32,%rdi\n dec %rcx\n jnz 2b\n"
            " dec %r9\n jnz 1b\n ret\n.size nested,.-nested\n"
            ".globl no_size\n.type no_size,@function\nno_size:\n rep movsq\n jmp away@PLT\n"
            ".globl through\n.type through,@function\nthrough:\n call *%rax\n ret\n.size through,.-through\n");"#;
    let (_scratch, object) = compiled("gcc -O1", assembly).unwrap();
    assert_eq!(summary(&object, "by_hand"), (Some(256), true, true));
    // The outer loop moves more bytes per iteration, but only the inner loop is hot.
    assert_eq!(summary(&object, "nested"), (Some(256), false, false));
    let no_size = code(&object, "no_size");
    assert_eq!(
        (no_size.calls, no_size.vector_bits),
        (vec!["rep movs".into(), "away".into()], None)
    );
    assert_eq!(code(&object, "through").calls, ["?"]);
    assert_eq!(object.function_code("nothing").unwrap(), None);
}

#[test]
fn invalid_shared_object_is_refused() {
    let missing = SharedObject::open(Path::new("/no/such.so")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read \"/no/such.so\""), "{missing}");
    let scratch = ScratchFolder::new().unwrap();
    let file = scratch.path().join("text.so");
    std::fs::write(&file, "no object").unwrap();
    let error = SharedObject::open(&file).unwrap().function_code("copy").unwrap_err().to_string();
    assert!(error.contains("is not a shared object"), "{error}");
    // A truncated file is refused or contains no functions, but never causes a crash.
    let (made, _) = compiled("gcc -O3", LOOPS).unwrap();
    let whole = std::fs::read(made.path().join("loops.so")).unwrap();
    for length in (0..whole.len()).step_by(97) {
        std::fs::write(&file, &whole[..length]).unwrap();
        let _ = SharedObject::open(&file).unwrap().function_code("triad");
    }
}

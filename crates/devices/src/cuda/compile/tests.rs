use super::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of clang with which the included PTX was built.
const MADE_BY: &str = "clang version 14.0.6";

fn probes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("probes")
}

/// Compiles a build to PTX; `None` if this version of clang is not installed.
fn compiled(source: &KernelSource) -> Option<String> {
    let version = Command::new("clang").arg("--version").output().ok()?;
    if !String::from_utf8_lossy(&version.stdout).contains(MADE_BY) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("device.cu");
    std::fs::write(&text, KernelSource::text()).unwrap();
    let words = "--target=x86_64-linux-gnu -x cuda --cuda-device-only --cuda-gpu-arch=sm_60 -nocudainc \
                 -nocudalib -nostdinc -O3 -ffp-contract=fast -S -o -";
    let output = Command::new("clang")
        .args(words.split_whitespace())
        .args(source.defines().map(|(name, value)| format!("-D{name}={value}")))
        .arg("-include")
        .args([&probes().join("ptx.h"), &text])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ptx = String::from_utf8(output.stdout).unwrap();
    // The first line names the build; comments of clang and empty lines are not compared.
    let build: Vec<String> = source.defines().into_iter().map(|(_, value)| value).collect();
    let lines = ptx.lines().filter(|line| !line.is_empty() && !line.trim_start().starts_with("//"));
    let build = format!("// build {}\n", build.join(" "));
    Some(lines.fold(build, |joined, line| joined + line + "\n"))
}

#[test]
fn embedded_ptx_matches_the_output_of_clang() {
    for (source, carried) in EMBEDDED_BUILDS {
        let Some(made) = compiled(&source) else { return };
        let strided = if source.strided { "-strided" } else { "" };
        let name =
            format!("{}-{}x{}{strided}.ptx", source.element.name(), source.items, source.width);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(probes().join("ptx").join(&name), &made).unwrap();
        } else {
            assert!(made == carried, "{name}: UPDATE_GOLDEN=1 makes it again");
        }
    }
}

/// Returns the PTX lines of a kernel.
fn entry<'t>(ptx: &'t str, name: &str) -> Vec<&'t str> {
    let lines = ptx.lines().skip_while(|line| !line.ends_with(&format!(".entry {name}(")));
    lines.take_while(|line| *line != "}").collect()
}

#[test]
fn embedded_loops_have_the_declared_width() {
    for (source, ptx) in EMBEDDED_BUILDS {
        for kernel in crate::kernels::kernels() {
            let lines = entry(ptx, &format!("nodegauge_{}", kernel.name));
            let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count() as u32;
            let (loads, stores) = (count("ld.global"), count("st.global"));
            // An instruction moves at most 16 bytes.
            let vector = (source.width * source.element.bytes() as u32).div_ceil(16);
            let reads = kernel.reads.len() as u32 * source.items * vector;
            // A reduction writes the sum of its group.
            let writes = if kernel.writes.is_some() { source.items } else { 1 } * vector;
            assert_eq!((loads, stores), (reads, writes), "{} {source:?}", kernel.name);
        }
    }
}

#[test]
fn chains_use_fused_multiply_adds() {
    for (source, ptx) in EMBEDDED_BUILDS {
        let lines = entry(ptx, crate::kernels::CHAINS);
        let fused = lines.iter().filter(|line| line.contains("fma.rn.")).count() as u64;
        let round = crate::kernels::FMAS_PER_ROUND * u64::from(source.items * source.width);
        assert!(fused >= round && fused.is_multiple_of(round), "{fused} {source:?}");
    }
}

#[test]
fn installed_nvrtc_compiles_the_source() {
    if !is_available(VendorApi::Cuda) {
        return;
    }
    for (source, _) in EMBEDDED_BUILDS {
        let image = compile_at_run_time(VendorApi::Cuda, &source, Some("sm_90")).unwrap();
        assert!(image.bytes().starts_with(b"\x7fELF"), "{source:?}");
    }
    let error =
        compile_at_run_time(VendorApi::Cuda, &EMBEDDED_BUILDS[0].0, Some("sm_1")).err().unwrap();
    assert!(error.kind == FailureClass::Build && !error.detail.is_empty(), "{error:?}");
}

//! Compresses the scripts of HTML reports. The compressed scripts are about a tenth of the program file.

use std::path::Path;

/// Compression level of zlib. The maximum level would save less than 1 % more.
const LEVEL: u8 = 6;

fn main() {
    let out = std::env::var("OUT_DIR").expect("cargo says where output goes");
    for name in ["echarts.min.js", "echarts-gl.min.js"] {
        let path = Path::new("assets").join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        let script = std::fs::read(&path).expect("the script is in this folder");
        let compressed = miniz_oxide::deflate::compress_to_vec_zlib(&script, LEVEL);
        std::fs::write(Path::new(&out).join(name), compressed)
            .expect("the output folder can be written");
    }
}

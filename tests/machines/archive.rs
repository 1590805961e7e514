//! Archive in cpio's format `newc`, from which Linux fills its first file system. The format is described in the
//! documentation of the kernel (driver-api/early-userspace/buffer-format). Several archives in sequence give one file
//! system.

/// Modes of folders and of executable files.
const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
/// Name of the last entry of an archive.
const END: &str = "TRAILER!!!";

/// Archive in memory.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a folder, whose parent must exist.
    pub fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER, &[]);
    }

    /// Adds an executable file, whose folder must exist.
    pub fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, FILE, content);
    }

    /// Returns the bytes of the complete archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry(END, 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let name = name.trim_start_matches('/');
        let size = u32::try_from(content.len()).expect("files of the guest are small");
        let name_size = name.len() as u32 + 1;
        // The fields without a comment are owner, group, device numbers and checksum.
        let fields = [
            self.entries, // inode
            mode,
            0,
            0,
            1, // links
            0, // time
            size,
            0,
            0,
            0,
            0,
            name_size,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    /// Adds zeros up to the next multiple of four bytes.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[test]
fn archive_entries_begin_at_multiples_of_four_bytes() {
    let mut archive = Archive::default();
    archive.folder("bin");
    archive.file("/bin/a", b"12345");
    let bytes = archive.finish();
    let text = String::from_utf8(bytes).unwrap();
    let at: Vec<usize> = text.match_indices("070701").map(|(at, _)| at).collect();
    assert_eq!((at.len(), at.iter().all(|at| at % 4 == 0)), (3, true));
    assert!(text.contains("bin/a\0") && text.contains("12345\0"));
}

//! Cache of the dynamic loader, `/etc/ld.so.cache` (glibc, sysdeps/generic/dl-cache.h).

/// Beginning of the table; an older table may precede it.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Size of the header, in bytes.
const HEADER: usize = 48;
/// Size of an entry, in bytes.
const ENTRY: usize = 24;
/// Bits of the flags that contain the architecture and the width of pointers.
const ARCHITECTURE: u32 = 0xff00;
/// Value of these bits for libraries that this program can load; `None` accepts all libraries.
const OWN_ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0x0300)
} else if cfg!(target_arch = "aarch64") {
    Some(0x0a00)
} else {
    None
};

/// Library in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CachedLibrary<'a> {
    /// Name by which programs request the library.
    pub(super) name: &'a str,
    /// Path of the library file.
    pub(super) path: &'a str,
}

/// Returns the libraries of this architecture, without builds for specific processors. Damaged entries are omitted.
pub(super) fn entries(cache: &[u8]) -> Vec<CachedLibrary<'_>> {
    let Some(start) = cache.windows(MAGIC.len()).position(|bytes| bytes == MAGIC) else {
        return Vec::new();
    };
    let table = &cache[start..];
    let count = word(table, MAGIC.len()).unwrap_or_default() as usize;
    let mut found = Vec::new();
    for number in 0..count {
        let at = HEADER.saturating_add(number.saturating_mul(ENTRY));
        // The table ends before the number of entries that it declares.
        let Some(flags) = word(table, at) else { break };
        let is_own = OWN_ARCHITECTURE.is_none_or(|own| flags & ARCHITECTURE == own);
        let is_general = word(table, at + 16) == Some(0) && word(table, at + 20) == Some(0);
        if let Some(name) = referenced_text(table, at + 4)
            && let Some(path) = referenced_text(table, at + 8)
            && is_own
            && is_general
        {
            found.push(CachedLibrary { name, path });
        }
    }
    found
}

/// Returns the number at a position.
fn word(table: &[u8], at: usize) -> Option<u32> {
    let bytes = table.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Returns the text whose position is stored at `at`.
fn referenced_text(table: &[u8], at: usize) -> Option<&str> {
    text(table, word(table, at)? as usize)
}

/// Returns the text at a position, which ends with a zero byte.
fn text(table: &[u8], at: usize) -> Option<&str> {
    let rest = table.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a cache with these libraries.
    pub(crate) fn cache(libraries: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((libraries.len() as u32).to_ne_bytes());
        bytes.resize(HEADER, 0);
        let mut texts: Vec<u8> = Vec::new();
        let base = HEADER + libraries.len() * ENTRY;
        for (name, path) in libraries {
            bytes.extend((OWN_ARCHITECTURE.unwrap_or_default() | 3).to_ne_bytes());
            for word in [name, path] {
                bytes.extend(((base + texts.len()) as u32).to_ne_bytes());
                texts.extend(word.as_bytes());
                texts.push(0);
            }
            bytes.extend([0; 12]);
        }
        bytes.extend(texts);
        bytes
    }

    #[test]
    fn loader_cache_behind_older_table_is_read() {
        let mut bytes = b"ld.so-1.7.0\0\0\0\0\0".to_vec();
        bytes.extend(cache(&[("libm.so.6", "/lib/libm.so.6")]));
        let found = entries(&bytes);
        assert_eq!(found, [CachedLibrary { name: "libm.so.6", path: "/lib/libm.so.6" }]);
        assert!(entries(b"musl has none").is_empty());
    }

    proptest! {
        #[test]
        fn damaged_loader_cache_never_panics(at in 0usize..200, byte: u8, length in 0usize..200) {
            let mut bytes = cache(&[("libm.so.6", "/lib/libm.so.6"), ("libc.so.6", "/c")]);
            if let Some(one) = bytes.get_mut(at) {
                *one = byte;
            }
            bytes.truncate(length);
            prop_assert!(entries(&bytes).len() <= 2);
        }
    }
}

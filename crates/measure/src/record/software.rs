//! Software of a node, as in the record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Software and settings that may differ between nodes of one kind. An entry that is missing in a map does not exist on
/// the node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Software {
    /// Name and version of the distribution, e.g. `Rocky Linux 9.4 (Blue Onyx)`.
    pub distribution: Option<String>,
    /// Kernel parameters that affect speed, by the names of sysctl(8), e.g. `vm.swappiness`.
    pub sysctl: BTreeMap<String, String>,
    /// Versions of loaded kernel modules of networks, accelerators and file systems.
    pub modules: BTreeMap<String, String>,
    /// File systems that store data, by mount point.
    pub mounts: BTreeMap<String, MountedFileSystem>,
    /// Libraries that programs often load, by the name that the dynamic loader resolves, e.g.
    /// `libmpi.so.40`.
    pub libraries: BTreeMap<String, InstalledLibrary>,
}

/// Mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MountedFileSystem {
    /// Type: `ext4`, `nfs4`, `lustre`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// Server and exported path; `null` for a device of this node.
    pub export: Option<String>,
    /// Options of the mount and of the file system, without addresses of this node.
    pub options: String,
}

/// Displays the type, the source and the options: `nfs4 server:/home rw,hard`.
impl fmt::Display for MountedFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if let Some(export) = &self.export {
            write!(f, " {export}")?;
        }
        write!(f, " {}", self.options)
    }
}

/// Library that the dynamic loader finds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct InstalledLibrary {
    /// Path of the library file after all symbolic links; the file name often contains the version.
    pub file: String,
    /// Build ID that the linker has written to the file, shortened; `null` if the file has none.
    pub build_id: Option<String>,
}

/// Displays the file and the build ID: `/usr/lib64/libmpi.so.40.30.4, build 1f2e3d4c`.
impl fmt::Display for InstalledLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match &self.build_id {
            Some(build) => write!(f, ", build {build}"),
            None => Ok(()),
        }
    }
}

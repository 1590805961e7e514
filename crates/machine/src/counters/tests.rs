use super::*;
use std::fs;
use std::path::Path;

/// Creates the kernel's files of a machine from a list of the processor and lines `pmu/file content`. The lists
/// were not recorded on such machines; they are derived from sources and documentation of the kernel, which each
/// list names.
fn machine(name: &str) -> (tempfile::TempDir, SysRoot) {
    let folder = tempfile::tempdir().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pmus/{name}.txt"));
    let write = |file: String, content: &str| {
        let copy = folder.path().join(file);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::write(copy, format!("{content}\n")).unwrap();
    };
    for line in fs::read_to_string(path).unwrap().lines().filter(|line| !line.starts_with('#')) {
        let (file, content) = line.split_once(' ').unwrap();
        if file == "cpuinfo" {
            let words: Vec<&str> = content.split(' ').collect();
            let text = if words[0].starts_with("0x") {
                format!(
                    "CPU implementer : {}\nCPU part : {:#x}\nCPU revision : 0",
                    words[0],
                    words[2].parse::<u32>().unwrap()
                )
            } else {
                format!(
                    "vendor_id : {}\ncpu family : {}\nmodel : {}\nmodel name : x\nstepping : 1\nflags : fpu {}",
                    words[0],
                    words[1],
                    words[2],
                    words.get(3).unwrap_or(&"")
                )
            };
            write("proc/cpuinfo".to_owned(), &text);
        } else {
            write(format!("{DEVICES}/{file}"), content);
        }
    }
    let root = SysRoot::recorded(folder.path());
    (folder, root)
}

/// Returns the family and the events, each event in the form `pmu type config cpu direction bytes`.
fn events(name: &str) -> (String, Vec<String>) {
    let (_folder, root) = machine(name);
    let plan = find(&root).unwrap_or_else(|absent| panic!("{name}: {absent}"));
    let reported = |event: &PmuEvent| {
        let PmuEvent { pmu, kind, config, cpu, direction, bytes } = event;
        format!("{pmu} {kind} {:#x} {cpu} {direction:?} {bytes}", config[0])
    };
    (plan.family, plan.events.iter().map(reported).collect())
}

#[test]
fn counter_table_is_consistent() {
    for family in &table().family {
        let are_distinguished = !family.read.is_empty() && !family.write.is_empty();
        assert_ne!(are_distinguished, !family.both.is_empty(), "{}", family.name);
        assert!(family.bytes > 0.0);
        assert!(family.models.is_empty() || family.vendor.is_some(), "{}", family.name);
    }
}

#[test]
fn zen_4_memory_controllers_have_own_events() {
    let (family, events) = events("genoa");
    assert_eq!(family, "AMD UMC");
    assert_eq!(
        events,
        [
            "amd_umc_0 24 0x10a 0 Read 64",
            "amd_umc_0 24 0x20a 0 Write 64",
            "amd_umc_1 25 0x10a 0 Read 64",
            "amd_umc_1 25 0x20a 0 Write 64",
        ]
    );
}

#[test]
fn zen_2_data_fabric_has_events_per_socket() {
    let (family, events) = events("rome");
    assert_eq!((family.as_str(), events.len()), ("AMD data fabric", 16));
    assert_eq!(events[0], "amd_df 13 0x3807 0 Both 64");
    assert_eq!(events[1], "amd_df 13 0x3807 64 Both 64");
    // The upper bits of the event number are in a separate field of the configuration.
    assert_eq!(events[8], "amd_df 13 0x100003807 0 Both 64");
}

#[test]
fn intel_memory_events_depend_on_model() {
    assert_eq!(
        events("icelake-server").1,
        [
            "uncore_imc_0 60 0xf04 0 Read 64",
            "uncore_imc_0 60 0xf04 40 Read 64",
            "uncore_imc_0 60 0x3004 0 Write 64",
            "uncore_imc_0 60 0x3004 40 Write 64",
        ]
    );
    assert_eq!(
        events("sapphire-rapids").1,
        [
            "uncore_imc_0 90 0xcf05 0 Read 64",
            "uncore_imc_0 90 0xcf05 56 Read 64",
            "uncore_imc_0 90 0xf005 0 Write 64",
            "uncore_imc_0 90 0xf005 56 Write 64",
        ]
    );
    assert_eq!(
        events("granite-rapids").1,
        [
            "uncore_imc_0 95 0xcf05 0 Read 64",
            "uncore_imc_0 95 0xcf06 0 Read 64",
            "uncore_imc_0 95 0xf005 0 Write 64",
            "uncore_imc_0 95 0xf006 0 Write 64",
        ]
    );
    let (family, events) = events("alder-lake");
    assert_eq!(family, "Intel IMC, free running");
    assert_eq!(
        events,
        [
            "uncore_imc_free_running_0 27 0x20ff 0 Read 64",
            "uncore_imc_free_running_0 27 0x30ff 0 Write 64"
        ]
    );
}

#[test]
fn arm_memory_events_come_from_the_fabric() {
    assert_eq!(
        events("grace").1,
        [
            "nvidia_scf_pmu_0 40 0x1a5 0 Read 32",
            "nvidia_scf_pmu_0 40 0x1db 0 Write 1",
            "nvidia_scf_pmu_1 41 0x1a5 72 Read 32",
            "nvidia_scf_pmu_1 41 0x1db 72 Write 1",
        ]
    );
    assert_eq!(events("altra").1, ["arm_cmn_0 12 0xd0005 0 Both 64"]);
}

#[test]
fn guest_without_memory_counters_is_reported_with_the_reason() {
    let (_folder, root) = machine("kvm-guest");
    let absent = find(&root).unwrap_err();
    assert!(
        absent.0.starts_with("the counters of the memory controllers are not available"),
        "{absent}"
    );
}

#[test]
fn missing_pmu_or_event_has_reason() {
    let (folder, root) = machine("genoa");
    fs::remove_file(folder.path().join(DEVICES).join("amd_umc_1/format/rdwrmask")).unwrap();
    assert_eq!(
        find(&root).unwrap_err().to_string(),
        "the counters of these memory controllers are not supported"
    );
    fs::remove_dir_all(folder.path().join(DEVICES)).unwrap();
    assert_eq!(find(&root).unwrap_err().to_string(), "the kernel provides no performance counters");
    fs::create_dir_all(folder.path().join(DEVICES).join("cpu")).unwrap();
    assert_eq!(
        find(&root).unwrap_err().to_string(),
        "the kernel provides no counters of the memory controllers; run modprobe amd_uncore as root, or use a newer kernel"
    );
}

#[test]
fn event_terms_are_encoded_by_format() {
    let format = |term: &str| {
        let place = match term {
            "event" => "config:0-7,32-35",
            "umask" => "config:8-15",
            "edge" => "config:18",
            "thresh" => "config1:0-63",
            _ => return None,
        };
        Some(place.to_owned())
    };
    assert_eq!(encode("event=0x1c7,umask=0x38", format), Some([0x1_0000_38c7, 0, 0]));
    assert_eq!(encode("event=4,edge", format), Some([0x4_0004, 0, 0]));
    assert_eq!(encode("thresh=0xffffffffffffffff", format), Some([0, u64::MAX, 0]));
    assert_eq!(encode("config2=7", format), Some([0, 0, 7]));
    assert_eq!(encode("event=0x1fff", format), None, "too large for its place");
    assert_eq!(encode("other=1", format), None);
    assert_eq!(encode("event=0xzz", format), None);
}

//! Tests of the grammar of `--dimms`, of SMBIOS tables that are built byte by byte, and of the precedence of the
//! sources.

use super::*;
use crate::topology::TopologySource;
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Measurement, NumaNode, QuotedStatistic};
use proptest::prelude::*;

/// Returns an SMBIOS type 17 structure (version 3.3, 84 bytes) with the given fields.
fn device(slot: &str, bank: &str, mib: u32, mts: u16, kind: u8) -> Vec<u8> {
    let mut bytes = vec![0u8; 84];
    bytes[0] = 17;
    bytes[1] = 84;
    bytes[0x08..0x0a].copy_from_slice(&72u16.to_le_bytes());
    bytes[0x0a..0x0c].copy_from_slice(&64u16.to_le_bytes());
    // A size that does not fit into the field is in the extended field.
    let small = if mib == 0xffff { 0xffff } else { mib.min(0x7fff) as u16 };
    bytes[0x0c..0x0e].copy_from_slice(&small.to_le_bytes());
    bytes[0x1c..0x20].copy_from_slice(&mib.to_le_bytes());
    bytes[0x10] = 1;
    bytes[0x11] = 2;
    bytes[0x12] = kind;
    bytes[0x15..0x17].copy_from_slice(&4800u16.to_le_bytes());
    bytes[0x20..0x22].copy_from_slice(&mts.to_le_bytes());
    bytes[0x28] = 3;
    for text in [slot, bank] {
        bytes.extend(text.as_bytes());
        bytes.push(0);
    }
    bytes.push(0);
    bytes
}

const DDR4: u8 = 0x1a;
const DDR5: u8 = 0x22;

fn table(devices: &[Vec<u8>]) -> MemoryModules {
    parse(devices.concat()).unwrap()
}

#[test]
fn dimms_option_sets_channels_and_transfer_rate() {
    let spec: DimmSpec = "16x3200".parse().unwrap();
    assert_eq!(spec, DimmSpec { channels: 16, mt_per_s: 3200 });
    let known = describe_memory(Some(spec), None, None, 2, false);
    let figure = known.theoretical.unwrap();
    assert_eq!((figure.value, figure.basis.as_str()), (409.6e9, "option"));
    assert_eq!(
        figure.detail.as_deref(),
        Some("16 channels x 3200 MT/s x 8 B, from --dimms 16x3200")
    );
}

#[test]
fn second_module_per_channel_adds_no_bandwidth() {
    let rome = SocketMemory {
        channels: 8,
        channel_bytes: CHANNEL_BYTES,
        transfers_per_s: TransfersPerSec(3200e6),
        technology: "DDR4".to_owned(),
        at_most: false,
        note: None,
    };
    let of = |text: &str, sockets, guest| {
        let known = Some((&rome, "EPYC 7F52"));
        let memory = describe_memory(Some(text.parse().unwrap()), None, known, sockets, guest);
        let figure = memory.theoretical.unwrap();
        ((figure.value / 1e8).round() / 10.0, figure.detail.unwrap())
    };
    let (gbs, detail) = of("24x2666", 2, false);
    assert_eq!(gbs, 341.2);
    assert!(
        detail.ends_with("--dimms 24x2666; a node with EPYC 7F52 has 16 channels, so the given number counts modules"),
        "{detail}"
    );
    assert_eq!(of("24x2666", 1, false).0, 170.6);
    // A guest that sees one socket may run on a node with two.
    assert_eq!(of("24x2666", 1, true).0, 341.2);
    assert_eq!(of("16x3200", 1, true).0, 409.6);
    assert_eq!(of("12x2666", 2, false).0, 255.9);
    // No board has four modules per channel.
    assert_eq!(of("64x3200", 2, false).0, 1638.4);
}

#[test]
fn invalid_dimms_option_is_reported_with_its_column() {
    let error = |text: &str| text.parse::<DimmSpec>().unwrap_err();
    assert_eq!(
        error("16*3200").to_string(),
        "dimms \"16*3200\": expected 'x' after the number of channels, found '*'\n  16*3200\n    ^\n\
         hint: e.g. --dimms 16x3200 (channels x MT/s)"
    );
    for (text, at) in [
        ("", 0),
        ("x3200", 0),
        ("16x", 3),
        ("3200x16", 0),
        ("16x16", 3),
        ("0x3200", 0),
        ("8x3200MHz", 6),
    ] {
        assert_eq!(error(text).at, at, "{text}");
    }
}

#[test]
fn modules_with_different_bank_locators_are_two_channels() {
    let modules = table(&[
        device("DIMM_A1", "P0 CHANNEL A", 65536, 4800, DDR5),
        device("DIMM_B1", "P0 CHANNEL B", 16384, 4400, DDR5),
    ]);
    assert_eq!((modules.dimms.len(), modules.channels), (2, 2));
    assert_eq!((modules.dimms[0].bytes, modules.dimms[1].bytes), (64 << 30, 16 << 30));
    assert_eq!(modules.dimms[1].slot, "DIMM_B1");
    assert_eq!(modules.technology.as_deref(), Some("DDR5"));
    assert_eq!(modules.transfers_per_s, Some(TransfersPerSec(4400e6)));
    let figure = describe_memory(None, Some(&modules), None, 1, false).theoretical.unwrap();
    assert_eq!((figure.value, figure.basis.as_str()), (70.4e9, "DMI"));
    assert_eq!(
        figure.detail.as_deref(),
        Some(
            "2 channels x 4400 MT/s x 8 B (channels by bank locator, 16 GiB to 64 GiB per channel)"
        )
    );
}

#[test]
fn empty_slots_and_flash_are_excluded() {
    let table = [
        device("A1", "BANK 0", 0, 0, DDR4),
        device("ROM", "BANK 1", 64, 0, 0x09),
        device("A2", "BANK 2", 0xffff, 3200, DDR4),
    ];
    assert_eq!(parse(table.concat()), None);
    assert_eq!(parse(vec![17, 3, 0, 0, 0]), None);
}

#[test]
fn two_modules_of_one_channel_count_as_one_channel() {
    let counted = |slots: &[&str]| {
        let devices: Vec<Vec<u8>> =
            slots.iter().map(|slot| device(slot, "BANK", 16384, 3200, DDR4)).collect();
        let modules = table(&devices);
        (modules.channels, modules.basis)
    };
    let by_slot = "channels by slot name";
    assert_eq!(counted(&["P1-DIMMA1", "P1-DIMMA2", "P1-DIMMB1", "P2-DIMMA1"]), (3, by_slot));
    assert_eq!(counted(&["CPU1_DIMM_A1", "CPU1_DIMM_A2"]), (1, by_slot));
    let assumed = "one module per channel assumed";
    // The letter is the socket and the number is the slot, so that these names do not identify the channel.
    assert_eq!(counted(&["A1", "A2", "A12", "B1"]), (4, assumed));
    assert_eq!(counted(&["DIMM 0", "DIMM 1"]), (2, assumed));
}

#[test]
fn unnamed_channels_are_limited_to_known_channels() {
    let devices: Vec<Vec<u8>> =
        (1..=16).map(|n| device(&format!("A{n}"), "NONE", 16384, 2933, DDR4)).collect();
    let rome = crate::catalog::find_by_name("EPYC 7H12").unwrap().memory.unwrap();
    let known = describe_memory(None, Some(&table(&devices)), Some((&rome, "EPYC 7H12")), 1, false);
    assert_eq!(known.channels, Some(8));
    assert_eq!(
        known.theoretical.unwrap().detail.as_deref(),
        Some(
            "8 channels x 2933 MT/s x 8 B (more modules than channels, every channel assumed to be populated)"
        )
    );
    assert_eq!(describe_memory(None, Some(&table(&devices)), None, 1, false).channels, Some(16));
}

#[test]
fn bank_locators_with_different_nodes_are_different_channels() {
    let names = ["NODE 0 CHANNEL 0 DIMM 0", "NODE 0 CHANNEL 0 DIMM 1", "NODE 1 CHANNEL 0 DIMM 0"];
    let devices: Vec<Vec<u8>> =
        names.iter().map(|bank| device("DIMM", bank, 16384, 2666, DDR4)).collect();
    assert_eq!(table(&devices).channels, 2);
}

#[test]
fn channel_with_only_empty_slots_is_empty() {
    let slot = |name: &str, gib: u32| device(name, "BANK", gib << 10, 3200, DDR4);
    // Two slots per channel: A and B have two modules, C one, and D none.
    let modules = table(&[
        slot("DIMM_A1", 32),
        slot("DIMM_A2", 32),
        slot("DIMM_B1", 32),
        slot("DIMM_B2", 32),
        slot("DIMM_C1", 32),
        slot("DIMM_C2", 0),
        slot("DIMM_D1", 0),
        slot("DIMM_D2", 0),
    ]);
    assert_eq!(
        (modules.channels, modules.empty_channels.as_slice()),
        (3, &["DIMM_D".to_owned()][..])
    );
    let channels = group_by_channel(&modules.dimms);
    let bytes: Vec<u64> = channels.iter().map(|channel| channel.bytes >> 30).collect();
    assert_eq!((bytes, channels[0].modules), (vec![64, 64, 32], 2));
    let figure = describe_memory(None, Some(&modules), None, 1, false).theoretical.unwrap();
    assert_eq!(figure.value, 76.8e9);
    assert_eq!(
        figure.detail.as_deref(),
        Some(
            "3 channels x 3200 MT/s x 8 B (channels by slot name, 1 to 2 modules per channel, \
             32 GiB to 64 GiB per channel, 1 empty)"
        )
    );
}

#[test]
fn error_correction_adds_no_channel_width() {
    let modules = table(&[device("DIMM_A1", "BANK", 16384, 3200, DDR4)]);
    assert_eq!((modules.dimms[0].data_bits, modules.dimms[0].total_bits), (Some(64), Some(72)));
    assert_eq!(modules.channel_bytes, 8);
}

#[test]
fn channel_name_is_read_from_the_bank_locator() {
    let channel = |bank: &str| {
        let device = device("DIMM", bank, 16384, 3200, DDR4);
        table(&[device]).dimms[0].channel.clone()
    };
    for (bank, name) in [
        ("P0 CHANNEL D", "P0 CHANNEL D"),
        ("P0_Node0_Channel3_Dimm0", "P0_Node0_Channel3"),
        ("\u{e9}Channel-B.1", "\u{e9}Channel-B"),
    ] {
        assert_eq!(channel(bank).as_deref(), Some(name));
    }
    assert_eq!(channel("CHANNEL"), None);
}

#[test]
fn mixed_memory_technologies_have_no_bandwidth() {
    let modules = table(&[
        device("DIMM_A1", "BANK 0", 16384, 4800, DDR5),
        device("HBM0", "BANK 1", 16384, 3200, 0x24),
    ]);
    assert_eq!((modules.technology.clone(), modules.transfers_per_s), (None, None));
    assert_eq!(describe_memory(None, Some(&modules), None, 1, false).theoretical, None);
}

#[test]
fn catalog_bandwidth_states_assumption() {
    let genoa = crate::catalog::find_by_name("EPYC 9654").unwrap();
    let memory = genoa.memory.unwrap();
    let known = describe_memory(None, None, Some((&memory, "EPYC 9654")), 2, false);
    assert_eq!((known.channels, known.transfers_per_s), (Some(24), Some(TransfersPerSec(4800e6))));
    let figure = known.theoretical.unwrap();
    assert_eq!((figure.value, figure.basis.as_str()), (921.6e9, "catalog"));
    assert_eq!(
        figure.detail.as_deref(),
        Some("catalog: EPYC 9654, 2 x 12 channels of DDR5-4800, every channel populated")
    );
    let guest = describe_memory(None, None, Some((&memory, "generation Genoa")), 1, true);
    assert_eq!(
        guest.theoretical.unwrap().detail.as_deref(),
        Some(
            "catalog: generation Genoa, 1 x 12 channels of DDR5-4800, \
             one whole socket, of which the guest has only a part"
        )
    );
    assert_eq!(describe_memory(None, None, None, 2, false), Memory::default());
}

#[test]
fn memory_limit_of_a_guest_includes_all_sockets() {
    let sockets = |text: &str| {
        let source = TopologySource::Synthetic(text.to_owned());
        max_guest_sockets(&Topology::load(&source).unwrap())
    };
    assert_eq!(sockets("Package:2 NUMANode:1 Core:2 PU:1"), 2);
    assert_eq!(sockets("Package:1 NUMANode:4 Core:2 PU:1"), 1);
    // One socket per core, and more sockets than nodes.
    assert_eq!(sockets("Package:4 NUMANode:1 Core:1 PU:1"), 1);
    assert_eq!(sockets("NUMANode:1 Package:4 Core:2 PU:1"), 1);
    let memory = crate::catalog::find_by_name("EPYC 9654").unwrap().memory.unwrap();
    let figure =
        describe_memory(None, None, Some((&memory, "EPYC 9654")), 2, true).theoretical.unwrap();
    assert_eq!((figure.value, figure.at_most), (921.6e9, true));
    assert_eq!(
        figure.detail.as_deref(),
        Some(
            "catalog: EPYC 9654, 2 x 12 channels of DDR5-4800, \
             whole sockets, of which the guest has only a part"
        )
    );
}

/// Returns a machine with eight NUMA nodes and this total number of channels.
fn eight_node_machine(channels: u32, guest: bool) -> Machine {
    let node = |id| NumaNode { id, cpus: vec![id], ..NumaNode::default() };
    let modules = MemoryModules {
        channels,
        channel_bytes: 8,
        transfers_per_s: Some(TransfersPerSec(3200e6)),
        ..MemoryModules::default()
    };
    Machine {
        numa_nodes: (0..8).map(node).collect(),
        memory: describe_memory(None, Some(&modules), None, 2, guest),
        virtualisation: guest.then(|| "kvm".to_owned()),
        ..Machine::default()
    }
}

#[test]
fn bandwidth_of_numa_nodes_is_proportional_to_their_number() {
    let rome = eight_node_machine(16, false);
    let of = |machine: &Machine, nodes: &[u32]| node_bandwidth(machine, nodes).unwrap();
    assert_eq!(of(&rome, &[3]).value, 51.2e9);
    let socket = of(&rome, &[0, 1, 2, 3]);
    assert_eq!((socket.value, socket.at_most), (204.8e9, false));
    assert_eq!(socket.basis, "DMI, 4 of 8 NUMA nodes");
    for whole in [&[][..], &[0, 1, 2, 3, 4, 5, 6, 7], &[0, 8]] {
        assert_eq!(of(&rome, whole), rome.memory.theoretical.clone().unwrap(), "{whole:?}");
    }
    // It is unknown which nodes have fewer channels. Therefore the larger number per node is assumed, up to the total
    // number of channels.
    let uneven = eight_node_machine(12, false);
    let node = of(&uneven, &[5]);
    assert_eq!((node.value, node.at_most), (51.2e9, true));
    assert_eq!(of(&uneven, &[0, 1, 2, 3, 4, 5, 6]).value, 12.0 * 25.6e9);
    assert_eq!(of(&eight_node_machine(16, true), &[3]).value, 409.6e9);
}

#[test]
fn figure_above_upper_bound_has_no_limit() {
    let figure = |at_most| TheoreticalValue {
        value: 307.2e9,
        basis: "catalog".to_owned(),
        detail: None,
        at_most,
    };
    let limit = |value: f64, at_most| {
        let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
        m.with_value(QuotedStatistic::Single, value).with_theoretical_limit(&figure(at_most)).limit
    };
    assert_eq!(limit(200e9, true).unwrap().basis, "upper bound, catalog");
    assert_eq!(limit(400e9, true), None);
    let broken = limit(400e9, false).unwrap();
    assert!(broken.fraction.0 > 1.0 && broken.basis == "catalog");
}

proptest! {
    #[test]
    fn dimms_option_round_trips(channels in 1u32..=1024, mt_per_s in 200u32..=20_000) {
        let spec = DimmSpec { channels, mt_per_s };
        prop_assert_eq!(spec.to_string().parse(), Ok(spec));
    }

    #[test]
    fn dimms_parser_never_panics(text in "[0-9x* .-]{0,12}") {
        if let Err(error) = text.parse::<DimmSpec>() {
            prop_assert!(error.at <= text.len());
            let _ = error.to_string();
        }
    }

    #[test]
    fn firmware_table_parser_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(bytes);
    }

    #[test]
    fn firmware_structure_parser_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let mut table = vec![17u8, 4];
        table.extend(bytes);
        table.extend([0, 0]);
        let _ = parse(table);
    }
}

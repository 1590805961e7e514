//! Hardware errors in the database of rasdaemon (`ras-mc_event.db`), which is opened for reading only.
//!
//! The database is opened as immutable: SQLite takes no lock and creates no file next to it, so rasdaemon is not
//! disturbed. Another program writes the file, and reading it may fail unexpectedly; therefore it is read in a child
//! process.

use nodegauge_measure::record::{EventCount, HardwareEvent};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

/// Usual path of the database.
pub const PATH: &str = "/var/lib/rasdaemon/ras-mc_event.db";

/// SQL statements that count the events of a table since a time. The columns of the result are kind, component and
/// number. The time format of rasdaemon is `2026-11-25 02:41:07 +0100`.
const TABLES: [&str; 3] = [
    "SELECT lower(err_type), coalesce(nullif(label, ''), 'mc' || mc), sum(err_count)
     FROM mc_event WHERE SINCE GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 1000",
    "SELECT 'mce', coalesce(nullif(bank_name, ''), 'bank ' || bank), count(*)
     FROM mce_record WHERE SINCE GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 1000",
    "SELECT 'pcie ' || lower(err_type), coalesce(dev_name, ''), count(*)
     FROM aer_event WHERE SINCE GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 1000",
];

/// Condition for the time of an event, in seconds since 1970.
const SINCE: &str = "strftime('%s', substr(timestamp, 1, 19) || substr(timestamp, 21, 3) || ':'
     || substr(timestamp, 24, 2)) + 0 >= ?1";

/// Counts the events after `since`, in seconds since 1970. Missing tables are skipped, because the recording of each
/// kind of event is optional in rasdaemon.
///
/// # Errors
/// Fails with a message of one line if the file is not a database with at least one table of rasdaemon.
pub fn events(path: &Path, since: u64) -> Result<Vec<EventCount>, String> {
    let text = path.to_str().ok_or("the path is not UTF-8")?;
    // Escapes characters that have a meaning in a URI.
    let escaped = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let uri = format!("file:{escaped}?mode=ro&immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reported =
        |error: rusqlite::Error| error.to_string().lines().next().unwrap_or("").to_owned();
    let database = Connection::open_with_flags(uri, flags).map_err(reported)?;
    let mut all = Vec::new();
    let mut known = 0;
    let mut last = String::new();
    for table in TABLES {
        match table_events(&database, &table.replace("SINCE", SINCE), since) {
            Ok(events) => {
                known += 1;
                all.extend(events);
            }
            Err(error) => last = reported(error),
        }
    }
    if known == 0 { Err(last) } else { Ok(all) }
}

fn table_events(database: &Connection, sql: &str, since: u64) -> rusqlite::Result<Vec<EventCount>> {
    let mut statement = database.prepare(sql)?;
    let mut rows = statement.query([since as i64])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let kind: String = row.get(0)?;
        let events_here: i64 = row.get(2)?;
        let component: String = row.get(1)?;
        events.extend(event_kind(&kind).map(|kind| EventCount {
            kind,
            component: format!("rasdaemon: {component}"),
            slot: None,
            events: events_here.max(0) as u64,
            note: None,
        }));
    }
    Ok(events)
}

/// Returns the kind of an event from the words of rasdaemon; `None` for events that are not errors.
fn event_kind(words: &str) -> Option<HardwareEvent> {
    Some(match words {
        "corrected" => HardwareEvent::MemoryCorrected,
        "uncorrected" | "fatal" | "deferred" => HardwareEvent::MemoryUncorrected,
        "mce" => HardwareEvent::MachineCheckCorrected,
        "pcie corrected" => HardwareEvent::PcieCorrected,
        "pcie uncorrected (non-fatal)" => HardwareEvent::PcieNonfatal,
        "pcie uncorrected (fatal)" => HardwareEvent::PcieFatal,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables as created by rasdaemon 0.6.8 of Debian 12.
    const SCHEMA: &str = "\
         CREATE TABLE mc_event (id INTEGER PRIMARY KEY, timestamp TEXT, err_count INTEGER, err_type TEXT, err_msg TEXT, \
         label TEXT, mc INTEGER, top_layer INTEGER, middle_layer INTEGER, lower_layer INTEGER, address INTEGER, grain \
         INTEGER, syndrome INTEGER, driver_detail TEXT); \
         CREATE TABLE aer_event (id INTEGER PRIMARY KEY, timestamp TEXT, dev_name TEXT, err_type TEXT, err_msg TEXT); \
         CREATE TABLE extlog_event (id INTEGER PRIMARY KEY, timestamp TEXT, etype INTEGER, error_count INTEGER, \
         severity INTEGER, address INTEGER, fru_id BLOB, fru_text TEXT, cper_data BLOB); \
         CREATE TABLE mce_record (id INTEGER PRIMARY KEY, timestamp TEXT, mcgcap INTEGER, mcgstatus INTEGER, status \
         INTEGER, addr INTEGER, misc INTEGER, ip INTEGER, tsc INTEGER, walltime INTEGER, cpu INTEGER, cpuid INTEGER, \
         apicid INTEGER, socketid INTEGER, cs INTEGER, bank INTEGER, cpuvendor INTEGER, bank_name TEXT, error_msg TEXT, \
         mcgstatus_msg TEXT, mcistatus_msg TEXT, mcastatus_msg TEXT, user_action TEXT, mc_location TEXT);";

    #[test]
    fn rasdaemon_events_are_summed_without_changing_the_database() {
        let folder = tempfile::tempdir().unwrap();
        // The file name contains characters that have a meaning in a URI.
        let path = folder.path().join("ras?mode=rwc#%41.db");
        let database = Connection::open(&path).unwrap();
        database.execute_batch(SCHEMA).unwrap();
        for (time, count, kind, label) in [
            ("2026-11-25 01:00:00 +0100", 3, "Corrected", "DIMM_A1"),
            ("2026-11-25 01:30:00 +0100", 2, "Corrected", "DIMM_A1"),
            ("2026-11-25 01:30:00 +0100", 1, "Uncorrected", ""),
            ("2026-11-24 01:30:00 +0100", 90, "Corrected", "DIMM_B1"),
            ("no time", 90, "Corrected", "DIMM_C1"),
        ] {
            let sql = "INSERT INTO mc_event (timestamp, err_count, err_type, label, mc) VALUES (?1, ?2, ?3, ?4, 0)";
            database.execute(sql, rusqlite::params![time, count, kind, label]).unwrap();
        }
        drop(database);
        let before = std::fs::read(&path).unwrap();
        // The argument is 2026-11-25 00:00:00 UTC.
        let found = events(&path, 1_795_564_800).unwrap();
        let words: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            words,
            [
                "5 corrected memory errors: rasdaemon: DIMM_A1",
                "1 uncorrected memory error: rasdaemon: mc0"
            ]
        );
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn invalid_rasdaemon_database_gives_one_error_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.db");
        assert!(events(&path, 0).is_err());
        std::fs::write(&path, "no database ".repeat(100)).unwrap();
        let why = events(&path, 0).unwrap_err();
        assert!(!why.is_empty() && !why.contains('\n'), "{why}");
        let empty = folder.path().join("empty.db");
        Connection::open(&empty).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
        assert!(events(&empty, 0).unwrap_err().contains("aer_event"));
    }
}

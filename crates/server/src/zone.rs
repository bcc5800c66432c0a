//! The time zone of this machine: of lines of the log, of monitoring, of names of backups.
//!
//! Read once. Compat: so does the reference; a zone that is changed holds from the next start on.

use jiff::tz::TimeZone;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// The file with the rules of the zone, where nothing else is said.
const LOCAL: &str = "/etc/localtime";

/// Zone of this machine.
pub(crate) fn local() -> TimeZone {
    static ZONE: OnceLock<TimeZone> = OnceLock::new();
    ZONE.get_or_init(|| {
        if std::env::var_os("TZ").is_some() { TimeZone::system() } else { in_file(Path::new(LOCAL)) }
    })
    .clone()
}

/// The zone whose rules are in a file; UTC where there is none.
///
/// Perf: looking for its name reads the names of all zones, which are 200 KiB of memory at the
/// start.
fn in_file(path: &Path) -> TimeZone {
    let rules = fs::read(path).ok();
    rules.and_then(|rules| TimeZone::tzif("Local", &rules).ok()).unwrap_or(TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    #[test]
    fn the_rules_of_a_file_are_those_of_the_zone() {
        let file = Path::new("/usr/share/zoneinfo/America/New_York");
        let summer = Timestamp::from_second(1_751_328_000).unwrap();
        if file.exists() {
            let zoned = summer.to_zoned(in_file(file));
            assert_eq!(
                zoned.strftime("%Y-%m-%d %H:%M:%S %z %Z").to_string(),
                "2025-06-30 20:00:00 -0400 EDT"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let nothing = folder.path().join("nothing");
        assert_eq!(in_file(&nothing), TimeZone::UTC);
        fs::write(&nothing, "no rules").unwrap();
        assert_eq!(in_file(&nothing), TimeZone::UTC);
    }

    #[test]
    fn the_zone_is_that_of_the_system() {
        let now = Timestamp::now();
        let offset = |zone: TimeZone| now.to_zoned(zone).offset();
        assert_eq!(offset(local()), offset(TimeZone::system()));
    }
}

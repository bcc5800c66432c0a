//! Schedules of messages. The lines of the input are a pattern, a time zone (none, if the line is
//! not there), a time and a later one, in nanoseconds since 1970.
//!
//! Promised for any bytes: reading and searching end soon; a zone that is none is refused whatever
//! the pattern; a pattern comes again only behind the time it is asked for, and what was missed is
//! one time only.

use myelin_jsapi::schedule::{Schedule, ScheduleError};

/// Nanoseconds; a time that was missed by less is due at once.
const SECOND: i64 = 1_000_000_000;

/// Any bytes as a schedule.
pub fn schedule(data: &[u8]) {
    let mut lines = data.split(|&byte| byte == b'\n');
    let pattern = lines.next().unwrap_or_default();
    let zone = lines.next();
    let mut time = || std::str::from_utf8(lines.next()?).ok()?.parse::<i64>().ok();
    let last = time().unwrap_or(0);
    let now = time().unwrap_or(last).max(last);
    let read = Schedule::parse(pattern, zone);
    if Schedule::parse(b"", zone).is_err() {
        assert_eq!(read.err(), Some(ScheduleError::Zone), "a pattern made a zone valid");
        return;
    }
    let Ok(Some(schedule)) = read else { return };
    let Some(next) = schedule.next(last, last) else { return };
    assert!(!schedule.show(next).is_empty());
    if !schedule.repeats() {
        assert_eq!(schedule.next(now, now), Some(next), "a moment depends on when it is asked for");
        return;
    }
    assert!(next > last || next == i64::MAX, "{next} is not behind {last}");
    if let Some(later) = schedule.next(last, now) {
        assert!(later >= now || later.saturating_add(SECOND) > now, "{later} was missed at {now}");
        assert!(later >= next, "later there is an earlier one");
    }
}

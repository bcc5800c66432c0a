//! Schedules beside what the reference answers for them, and beside a twin that looks at every
//! second.

use super::*;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use proptest::prelude::*;

/// 2026-01-01T00:00:00Z.
const NEW_YEAR: Timestamp = 1_767_225_600 * SECOND;

fn parse(pattern: &str, zone: &str) -> Result<Option<Schedule>, ScheduleError> {
    Schedule::parse(pattern.as_bytes(), Some(zone.as_bytes()).filter(|zone| !zone.is_empty()))
}

fn schedule(pattern: &str) -> Schedule {
    parse(pattern, "").expect("it is valid").expect("it is one")
}

/// `pattern|zone|from|next`, as nats-server 2.15.2 answered; `none` where it refused the pattern.
const RECORDED: &str = include_str!("../../tests/reference/cron.txt");

#[test]
fn patterns_are_due_when_the_reference_says() {
    let mut differing = Vec::new();
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split('|').collect();
        let [pattern, zone, from, expected] = parts[..] else { panic!("{line}") };
        let from = from.parse().expect("a number");
        let next = parse(pattern, zone).ok().flatten().and_then(|schedule| {
            let next = schedule.next(from, from)?;
            Some(schedule.show(next))
        });
        let next = next.unwrap_or_else(|| "none".to_owned());
        if next != expected {
            differing.push(format!("{line}, not {next}"));
        }
    }
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

#[test]
fn one_moment() {
    let once = schedule("@at 2026-01-01T01:00:00.5+01:00");
    assert!(!once.repeats());
    // However late it is.
    assert_eq!(once.next(0, Timestamp::MAX), Some(NEW_YEAR + SECOND / 2));
    assert_eq!(schedule("@at 9999-01-01T00:00:00Z").next(0, 0), Some(Timestamp::MAX));
    for pattern in ["", "@at 0001-01-01T00:00:00Z"] {
        assert!(parse(pattern, "").expect("nothing is said").is_none(), "{pattern}");
    }
    for pattern in
        ["@at", "@at ", "@at soon", "@at 2026-01-01", "@at  2026-01-01T00:00:00Z", "@AT 2026-01-01T00:00:00Z"]
    {
        assert_eq!(parse(pattern, "").err(), Some(ScheduleError::Pattern), "{pattern}");
    }
}

#[test]
fn again_and_again() {
    let often = schedule("@every 1m30s");
    assert!(often.repeats());
    let round = |time| often.next(time, time).expect("it comes again") - NEW_YEAR;
    assert_eq!(round(NEW_YEAR), 90 * SECOND);
    assert_eq!(round(NEW_YEAR + SECOND / 2 - 1), 90 * SECOND);
    assert_eq!(round(NEW_YEAR + SECOND / 2), 91 * SECOND);
    for pattern in ["@every", "@every ", "@every 999ms", "@every -1s", "@every 5", "@every 0", "@every x"] {
        assert_eq!(parse(pattern, "").err(), Some(ScheduleError::Pattern), "{pattern}");
    }
    assert_eq!(schedule("@every 2540400h").next(Timestamp::MAX - 1, 0), Some(Timestamp::MAX));
}

#[test]
fn what_was_missed_is_one_time_only() {
    let hour = 3600 * SECOND;
    for pattern in ["@every 1h", "@hourly"] {
        let schedule = schedule(pattern);
        assert_eq!(schedule.next(NEW_YEAR, NEW_YEAR + hour), Some(NEW_YEAR + hour), "{pattern}");
    }
    let now = NEW_YEAR + 5 * hour + 10 * SECOND;
    assert_eq!(schedule("@every 1h").next(NEW_YEAR, now), Some(now + hour));
    assert_eq!(schedule("@hourly").next(NEW_YEAR, now), Some(NEW_YEAR + 6 * hour));
}

#[test]
fn short_words_stand_for_patterns() {
    let shown = |word| {
        let schedule = schedule(word);
        schedule.show(schedule.next(NEW_YEAR + SECOND, 0).expect("it comes"))
    };
    for (word, next) in [
        ("@yearly", "2027-01-01T00:00:00Z"),
        ("@annually", "2027-01-01T00:00:00Z"),
        ("@monthly", "2026-02-01T00:00:00Z"),
        ("@weekly", "2026-01-04T00:00:00Z"),
        ("@daily", "2026-01-02T00:00:00Z"),
        ("@midnight", "2026-01-02T00:00:00Z"),
        ("@hourly", "2026-01-01T01:00:00Z"),
    ] {
        assert_eq!(shown(word), next, "{word}");
    }
    assert_eq!(parse("@minutely", "").err(), Some(ScheduleError::Pattern));
}

#[test]
fn zones_are_for_patterns_only() {
    for pattern in ["@at 2026-01-01T00:00:00Z", "@every 1h"] {
        assert_eq!(parse(pattern, "UTC").err(), Some(ScheduleError::Pattern), "{pattern}");
    }
    for zone in ["Nowhere/City", "europe/berlin", "../UTC", "/etc/localtime", "Europe/Berlin ", "CEST+2"] {
        assert_eq!(parse("@daily", zone).err(), Some(ScheduleError::Zone), "{zone}");
        assert_eq!(parse("", zone).err(), Some(ScheduleError::Zone), "{zone}");
    }
    assert_eq!(Schedule::parse(b"@daily", Some(b"")).err(), Some(ScheduleError::Zone));
    assert_eq!(Schedule::parse(b"@daily", Some(&[0xff])).err(), Some(ScheduleError::Zone));
    let berlin = parse("@daily", "Europe/Berlin").expect("valid").expect("one");
    assert_eq!(berlin.show(berlin.next(NEW_YEAR, 0).expect("it comes")), "2026-01-02T00:00:00+01:00");
}

/// Time that a clock in UTC shows.
fn fields(second: i64) -> DateTime {
    Offset::UTC.to_datetime(jiff::Timestamp::from_second(second).expect("near 1970"))
}

#[test]
fn a_year_of_patterns_beside_a_twin() {
    type Fits = fn(DateTime) -> bool;
    let patterns: [(&str, Fits); 6] = [
        ("0 */15 9-17 * * mon-fri", |at| {
            let in_week = (1..=5).contains(&at.weekday().to_monday_one_offset());
            at.second() == 0 && at.minute() % 15 == 0 && (9..=17).contains(&at.hour()) && in_week
        }),
        ("30 0 0 1,15 * ?", |at| {
            (at.second(), at.minute(), at.hour()) == (30, 0, 0) && matches!(at.day(), 1 | 15)
        }),
        ("0 0 12 13 * fri", |at| {
            let is_friday = at.weekday().to_monday_one_offset() == 5;
            (at.second(), at.minute(), at.hour()) == (0, 0, 12) && (at.day() == 13 || is_friday)
        }),
        ("59 59 23 31 dec *", |at| {
            (at.second(), at.minute(), at.hour()) == (59, 59, 23) && (at.day(), at.month()) == (31, 12)
        }),
        ("0 0 0 29 2 *", |at| {
            (at.second(), at.minute(), at.hour()) == (0, 0, 0) && (at.day(), at.month()) == (29, 2)
        }),
        ("10/20 30 */5 * jan-jun/2 *", |at| {
            at.second() % 20 == 10
                && at.minute() == 30
                && at.hour() % 5 == 0
                && matches!(at.month(), 1 | 3 | 5)
        }),
    ];
    let (begin, end) = (NEW_YEAR / SECOND, NEW_YEAR / SECOND + 365 * 86_400);
    for (pattern, fits) in patterns {
        let schedule = schedule(pattern);
        let mut times = Vec::new();
        let mut at = NEW_YEAR;
        while let Some(next) = schedule.next(at, at).filter(|next| *next <= end * SECOND) {
            times.push(next / SECOND);
            at = next;
        }
        // No pattern here is due at a second that ends neither with 0 nor with 9.
        let twin = (begin + 1..=end).filter(|at| matches!(at % 10, 0 | 9)).filter(|&at| fits(fields(at)));
        assert_eq!(times, twin.collect::<Vec<_>>(), "{pattern}");
    }
}

proptest! {
    #[test]
    fn time_goes_on(
        pattern in "(\\*|[0-9]{1,2}(-[0-9]{1,2})?(/[0-9])?) (\\*|[0-9]{1,2}) (\\*|[0-9]{1,2}) (\\*|[0-9]{1,2}) (\\*|[0-9]) (\\*|[0-6])",
        zone in prop::sample::select(vec!["", "Europe/Berlin", "America/New_York", "Pacific/Apia"]),
        from in 0..4_000_000_000_i64,
    ) {
        if let Ok(Some(schedule)) = parse(&pattern, zone) {
            let from = from * SECOND;
            if let Some(next) = schedule.next(from, from) {
                prop_assert!(next > from, "{} is not behind {}", next, from);
            }
        }
    }

    #[test]
    fn nothing_breaks_it(pattern in ".{0,40}", zone in proptest::option::of(".{0,20}")) {
        let read = Schedule::parse(pattern.as_bytes(), zone.as_ref().map(String::as_bytes));
        if let Ok(Some(schedule)) = read {
            schedule.next(NEW_YEAR, NEW_YEAR).map(|next| schedule.show(next));
        }
    }
}

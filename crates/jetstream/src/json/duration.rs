//! Durations as Go writes them.

const SECOND: i64 = 1_000_000_000;

/// A positive duration in nanoseconds as Go writes it: `1m30s`, `1.5ms`.
pub(crate) fn go_duration(nanos: i64) -> String {
    let fraction = |unit: i64, name: &str| {
        let text = format!("{}.{:09}", nanos / unit, nanos % unit * (SECOND / unit));
        format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match nanos {
        ..1_000 => return format!("{nanos}ns"),
        1_000..1_000_000 => return fraction(1_000, "µs"),
        1_000_000..SECOND => return fraction(1_000_000, "ms"),
        _ => {}
    }
    let (hours, minutes) = (nanos / (3_600 * SECOND), nanos / (60 * SECOND) % 60);
    let text = format!("{}.{:09}", nanos / SECOND % 60, nanos % SECOND);
    let seconds = text.trim_end_matches('0').trim_end_matches('.');
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_gos() {
        for (nanos, text) in [
            (1, "1ns"),
            (1_500, "1.5µs"),
            (100_000_000, "100ms"),
            (SECOND, "1s"),
            (10 * SECOND + 1, "10.000000001s"),
            (120 * SECOND, "2m0s"),
            (3_600 * SECOND + 500_000_000, "1h0m0.5s"),
        ] {
            assert_eq!(go_duration(nanos), text);
        }
    }
}

//! Reasons for what waits, in words for whoever operates a cluster.

use super::groups::InstallProgress;
use myelin_jsapi::api::info::ReplicaInfo;
use std::time::Duration;

/// Servers of a group that keep it from a quorum, and since when. Empty for none.
pub(super) fn away(replicas: &[ReplicaInfo]) -> String {
    let away = replicas.iter().filter(|replica| replica.offline).map(|replica| {
        let name = &replica.name;
        match u64::try_from(replica.active) {
            Ok(ago) if ago > 0 => format!("{name} unreachable for {}", time(Duration::from_nanos(ago))),
            _ => format!("{name} not heard of yet"),
        }
    });
    away.collect::<Vec<_>>().join(", ")
}

/// How far a replica is that goes through its group's log.
pub(super) fn behind((committed, wanted): (u64, u64)) -> String {
    let missing = wanted.saturating_sub(committed);
    // Never said to be all before it is.
    format!("{} %, {missing} entries are missing", percent(committed, wanted).min(99))
}

/// How far a stream is that comes from another server as a whole.
pub(super) fn on_its_way(progress: &InstallProgress, from: &str) -> String {
    let InstallProgress { bytes, percent, time: taken, .. } = *progress;
    let come = format!("{} MiB have come from {from}, {percent} %", bytes >> 20);
    match percent {
        0 | 100 => come,
        _ => {
            let left =
                taken * u32::try_from(100 - percent).unwrap_or(0) / u32::try_from(percent).unwrap_or(1);
            format!("{come}, about {} left", time(left))
        }
    }
}

/// How much of a whole a part is: 100 at most.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100 / u128::from(whole.max(1))).min(100) as u64
}

/// A time in its largest unit that is not below two.
fn time(time: Duration) -> String {
    match time.as_secs() {
        0..120 => format!("{} s", time.as_secs()),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_replica::Peer;

    fn replica(name: &str, offline: bool, seconds: i64) -> ReplicaInfo {
        ReplicaInfo {
            name: name.to_owned(),
            current: !offline,
            offline,
            active: seconds * 1_000_000_000,
            lag: 0,
            peer: name.to_owned(),
            pending: false,
        }
    }

    #[test]
    fn servers_that_are_away_are_named_with_the_time() {
        let replicas = [replica("n1", false, 0), replica("n2", true, 12), replica("n3", true, 0)];
        assert_eq!(away(&replicas), "n2 unreachable for 12 s, n3 not heard of yet");
        assert_eq!(away(&[replica("n2", true, 3 * 3600)]), "n2 unreachable for 3 h");
        assert_eq!(away(&[replica("n1", false, 1)]), "");
    }

    #[test]
    fn what_is_missing_is_never_nothing() {
        assert_eq!(behind((41, 100)), "41 %, 59 entries are missing");
        assert_eq!(behind((999_999, 1_000_000)), "99 %, 1 entries are missing");
    }

    #[test]
    fn what_is_on_its_way_says_how_long_it_will_take() {
        let from = Peer::parse("aaaaaaaa").unwrap();
        let time = Duration::from_secs(60);
        let progress = |percent| InstallProgress { from, bytes: 512 << 20, percent, time, is_due: false };
        assert_eq!(on_its_way(&progress(25), "n1"), "512 MiB have come from n1, 25 %, about 3 min left");
        assert_eq!(on_its_way(&progress(0), "n1"), "512 MiB have come from n1, 0 %");
    }
}

//! When other clusters are dialled: attempt after attempt, after a link was lost, and until they
//! are given up.

use super::Site;
use super::handshake::{CONNECT, INFO, dialling, said};
use crate::eventually;
use crate::routes::{Ours, Reference, ServerKind, free_port};
use std::time::{Duration, Instant};

/// Servers that dial a cluster which is not there.
fn dialling_nobody(inner: &str) -> Vec<(ServerKind, Site)> {
    let start = |kind: ServerKind| {
        let nobody = [("B", free_port())];
        Some((kind, Site::start(kind, ("A1", "A", free_port()), &nobody, inner, "")?))
    };
    [Ours, Reference].into_iter().filter_map(start).collect()
}

/// Moment of a log line, within its day.
fn moment(line: &str) -> Duration {
    let time = line.split(' ').nth(2).expect("a time");
    let parts: Vec<f64> = time.split(':').map(|part| part.parse().expect("a number")).collect();
    Duration::from_secs_f64(parts[0] * 3600.0 + parts[1] * 60.0 + parts[2])
}

/// Time from the first to the third attempt, by the log.
fn three_attempts(site: &Site) -> Duration {
    site.server.wait_for_log("(attempt 3)");
    let log = site.server.log();
    let at = |number: u32| {
        let text = format!("(attempt {number})");
        moment(log.lines().find(|line| line.contains(&text)).expect("it was seen"))
    };
    let day = Duration::from_secs(24 * 3600);
    (day + at(3)).checked_sub(at(1)).map_or(day, |time| if time >= day { time - day } else { time })
}

#[test]
fn attempts_come_less_and_less_often_with_a_backoff() {
    let (steady, slower) = (dialling_nobody(""), dialling_nobody("connect_backoff: true"));
    // A second, and one or two.
    for (sites, least) in [(&steady, 1900), (&slower, 2900)] {
        for (kind, site) in sites {
            let time = three_attempts(site);
            assert!(time > Duration::from_millis(least), "{kind:?}: {time:?}");
        }
    }
}

/// A lost link to a configured cluster is dialled again after a second.
#[test]
fn a_lost_link_is_dialled_again_after_a_pause() {
    for kind in [Ours, Reference] {
        let Some((_site, mut first, listener)) = dialling(kind, "") else { continue };
        first.send(&format!("{INFO}\r\n"));
        assert!(first.line().starts_with("CONNECT "));
        drop(first);
        let lost = Instant::now();
        let _again = listener.accept().expect("it is dialled again");
        assert!(lost.elapsed() > Duration::from_millis(800), "{kind:?}: {:?}", lost.elapsed());
    }
}

/// A cluster that another server told of is tried `connect_retries` times more, and then forgotten:
/// when it is told of again it is dialled as a new one.
#[test]
fn a_cluster_that_is_not_configured_is_given_up() {
    for kind in [Ours, Reference] {
        let inner = "connect_retries: 2";
        let Some(site) = Site::start(kind, ("A1", "A", free_port()), &[], inner, "") else { continue };
        let nobody = format!("127.0.0.1:{}", free_port());
        let tell = || {
            let mut peer = site.dial();
            let info = INFO.replace(r#""gateway_urls":[]"#, &format!(r#""gateway_urls":["{nobody}"]"#));
            peer.send(&format!("{CONNECT}\r\n{info}\r\n"));
            said(&mut peer);
        };
        let attempt = |number: u32| format!("{nobody} (attempt {number})");
        tell();
        site.server.wait_for_log(&format!("Connecting to implicit gateway \"B\" ({nobody})"));
        site.server.wait_for_log(&format!("{}: ", attempt(3)));
        eventually("it is dialled anew", || {
            tell();
            site.server.log().matches(&format!("at {}\n", attempt(1))).count() == 2
        });
        assert!(!site.server.log().contains(&attempt(4)), "{kind:?}: {}", site.server.log());
    }
}

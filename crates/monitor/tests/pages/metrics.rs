//! `/metrics`: names and labels are the exporter's, rows are bounded, and nothing that a client
//! chooses leaves its quotes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use myelin_monitor::{
    ClientLibrary, ConnSnapshot, ConsumerFigures, GatewaySnapshot, GatewaysSnapshot, Health,
    JetStreamAccount, JetStreamSnapshot, JournalSnapshot, LeafSnapshot, MetaGroup, MetricsConfig,
    QueueSnapshot, RaftGroup, RaftGroupSnapshot, RuntimeSnapshot, SourceFigures, StreamFigures, Tls,
};

use myelin_stdx::histogram::HistogramCounts;
use serde_json::Value;

use crate::fixture::{Fixed, Scraped, ago, client, server, text};
use crate::golden::file;
use crate::jetstream::running::Running;

/// Everything there is, once.
fn everything() -> Fixed {
    let source = |name: &str, seconds: Option<u64>| SourceFigures {
        name: name.to_owned(),
        lag: 3,
        lag_time: seconds.map(Duration::from_secs),
        ..SourceFigures::default()
    };
    let stream = StreamFigures {
        name: "S".to_owned(),
        oldest: Some(ago(60)),
        consumers: vec![consumer("C")],
        mirror: Some(source("M", Some(8))),
        sources: vec![source("X", Some(5)), source("X", Some(9)), source("Y", None)],
        ..StreamFigures::default()
    };
    let link = |is_outbound| GatewaySnapshot {
        cluster: "GB".to_owned(),
        is_outbound,
        is_configured: true,
        conn: client(5),
        accounts: Vec::new(),
    };
    let group = RaftGroupSnapshot {
        account: "A".to_owned(),
        name: "S-R3F".to_owned(),
        group: RaftGroup { state: "LEADER", ..RaftGroup::default() },
    };
    let mut server = server();
    server.settings.tls_cert_not_after = Some(ago(-3600));
    let tls = Tls { version: "1.3".to_owned(), ..Tls::default() };
    Fixed {
        open: vec![
            ConnSnapshot { tls: Some(tls), in_msgs: 2, ..client(7) },
            ConnSnapshot { in_msgs: 5, ..client(9) },
        ],
        health: Health::WithJetStream,
        jetstream: Some(running()),
        queues: vec![QueueSnapshot { name: "Q".to_owned(), pending: 1, in_progress: 0 }],
        runtime: RuntimeSnapshot {
            journal: Some(JournalSnapshot {
                loss_window: 1_500_000_000,
                sync_times: spread(),
                round_times: spread(),
                round_bytes: spread(),
                ..JournalSnapshot::default()
            }),
            commit_waits: Some(spread()),
            held: vec![("outboxes", 4)],
            ..RuntimeSnapshot::default()
        },
        scraped: Scraped {
            config: Some(config()),
            figures: vec![stream],
            leafs: vec![leaf("leaf"), leaf("leaf"), leaf("other")],
            gateways: Some(GatewaysSnapshot {
                name: "GA".to_owned(),
                host: String::new(),
                port: 0,
                links: vec![link(true), link(false)],
            }),
            groups: vec![group],
            server: Some(server),
        },
        ..Fixed::default()
    }
}

/// One of up to a millisecond, one of up to two seconds, one longer.
fn spread() -> HistogramCounts {
    HistogramCounts { bounds: &[1_000_000, 2_000_000_000], counts: vec![1, 1, 1], sum: 4_500_000_000 }
}

fn config() -> MetricsConfig {
    MetricsConfig {
        prefix: String::new(),
        max_connections: 10,
        max_accounts: 10,
        max_streams: 10,
        max_consumers: 10,
    }
}

fn running() -> Running {
    let meta = MetaGroup { name: "CC".to_owned(), leader: "name".to_owned(), ..MetaGroup::default() };
    let account = |name: &str, streams| JetStreamAccount {
        name: name.to_owned(),
        tag: name.to_owned(),
        streams,
        consumers: streams,
        ..JetStreamAccount::default()
    };
    Running {
        snapshot: JetStreamSnapshot { meta: Some(meta), ..JetStreamSnapshot::default() },
        accounts: vec![account("B", 0), account("A", 1)],
        ..Running::default()
    }
}

fn consumer(name: &str) -> ConsumerFigures {
    ConsumerFigures {
        name: name.to_owned(),
        leader: Some("name".to_owned()),
        since_delivery: Some(Duration::from_millis(1_500)),
        since_ack: Some(Duration::from_secs(2)),
        pending: 4,
        ack_pending: 3,
        lag_time: Some(Duration::from_secs(40)),
        unacknowledged_for: Some(Duration::from_secs(70)),
        ..ConsumerFigures::default()
    }
}

fn leaf(name: &str) -> LeafSnapshot {
    LeafSnapshot {
        id: 1,
        name: name.to_owned(),
        is_spoke: false,
        is_isolated: false,
        account: "A".to_owned(),
        peer: "127.0.0.1:5000".parse().unwrap(),
        rtt: None,
        msgs: [1, 2],
        bytes: [3, 4],
        subscriptions: 5,
        compression: String::new(),
        is_web_socket: false,
        proxy: None,
    }
}

/// Samples of an answer: name and labels with their values as they stand there.
fn samples(source: &Fixed) -> BTreeMap<String, String> {
    let answer = source.ask("/metrics");
    assert_eq!(answer.status, 200);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.headers[0], ("content-type", kind));
    let text = text(&answer);
    let (lines, end) = text.split_at(text.len() - 6);
    assert_eq!(end, "# EOF\n");
    let mut samples = BTreeMap::new();
    let (mut seen, mut current) = (BTreeSet::new(), String::new());
    for line in lines.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            current = help.split(' ').next().unwrap().to_owned();
            assert!(seen.insert(current.clone()), "{current} comes twice");
            continue;
        }
        if line.starts_with("# TYPE ") {
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let name = sample.split('{').next().unwrap();
        let suffix = name.strip_prefix(&*current);
        let suffixes = ["", "_total", "_sum", "_count", "_bucket"];
        assert!(suffix.is_some_and(|suffix| suffixes.contains(&suffix)), "{line} in {current}");
        let before = samples.insert(sample.to_owned(), value.to_owned());
        assert!(before.is_none(), "{sample} comes twice");
    }
    samples
}

/// Name of a sample with those of its labels, sorted, as they were recorded.
fn shape(sample: &str) -> String {
    let (name, labels) = sample.strip_suffix('}').unwrap().split_once('{').unwrap();
    let mut labels: Vec<_> = labels.split("\",").map(|label| label.split('=').next().unwrap()).collect();
    labels.sort_unstable();
    format!("{name}{{{}}}", labels.join(","))
}

#[test]
fn there_is_no_such_page_unless_it_is_configured() {
    let answer = Fixed::default().ask("/metrics");
    assert_eq!((answer.status, text(&answer).as_str()), (404, "404 page not found\n"));
    assert!(Fixed::default().requests.lock().unwrap().is_empty());
}

#[test]
fn names_and_labels_are_those_of_the_exporter() {
    let source = everything();
    let shapes: BTreeSet<_> = samples(&source).keys().map(|sample| shape(sample)).collect();
    let recorded = std::fs::read_to_string(file("metrics.names")).unwrap();
    let recorded: BTreeSet<_> = recorded.lines().filter(|line| !line.starts_with('#')).collect();
    // Those of `/varz` are the keys of the page, which depend on the configuration.
    let missing = recorded.iter().filter(|line| !shapes.contains(**line) && !line.contains("_varz_"));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&&str>::new());
    let ours =
        shapes.iter().filter(|shape| !recorded.contains(shape.as_str()) && !shape.starts_with("myelin_"));
    assert_eq!(ours.filter(|shape| !shape.contains("_varz_")).collect::<Vec<_>>(), Vec::<&String>::new());
    for of_varz in ["connections", "in_msgs", "mem", "slow_consumers", "config_load_time", "version"] {
        assert!(
            shapes.iter().any(|shape| shape.starts_with(&format!("gnatsd_varz_{of_varz}{{"))),
            "{of_varz}"
        );
    }
}

#[test]
fn figures_stand_with_what_they_are_of() {
    let samples = samples(&everything());
    let value = |name: &str, label: &str| {
        let mut found = samples.iter().filter(|(sample, _)| {
            sample.starts_with(&format!("{name}{{")) && (label.is_empty() || sample.contains(label))
        });
        let (_, value) = found.next().unwrap_or_else(|| panic!("{name} {label}"));
        value.parse::<f64>().unwrap()
    };
    assert_eq!(value("gnatsd_connz_in_msgs", "{server_id=\"NSERVER\"}"), 7.0);
    assert_eq!(value("gnatsd_connz_in_msgs", "cid=\"9\""), 5.0);
    assert_eq!(value("jetstream_consumer_num_pending", "consumer_name=\"C\""), 4.0);
    assert_eq!(value("jetstream_consumer_last_delivery_seconds", ""), 1.5);
    assert_eq!(value("myelin_consumer_lag_messages", "consumer_name=\"C\""), 7.0);
    assert_eq!(value("myelin_consumer_lag_seconds", "consumer_name=\"C\""), 40.0);
    assert_eq!(value("myelin_consumer_oldest_unacknowledged_seconds", "consumer_name=\"C\""), 70.0);
    assert_eq!(value("myelin_stream_mirror_lag_seconds", "mirror_name=\"M\""), 8.0);
    for family in ["journal_sync_seconds", "journal_round_seconds", "group_commit_seconds"] {
        assert_eq!(value(&format!("myelin_{family}_sum"), ""), 4.5, "{family}");
        for (bound, count) in [("0.001", 1.0), ("2.0", 2.0), ("+Inf", 3.0)] {
            let bound = format!("le=\"{bound}\"");
            assert_eq!(value(&format!("myelin_{family}_bucket"), &bound), count, "{family} {bound}");
        }
    }
    assert_eq!(value("myelin_journal_round_bytes_bucket", "le=\"1000000.0\""), 1.0);
    assert_eq!(value("myelin_stream_oldest_message_age_seconds", "stream_name=\"S\""), 60.0);
    assert_eq!(value("myelin_journal_loss_window_seconds", ""), 1.5);
    assert_eq!(value("myelin_memory_bytes", "owner=\"outboxes\""), 4.0);
    assert_eq!(value("myelin_certificate_expires_seconds", "listener=\"clients\""), 3600.0);
    assert_eq!(value("myelin_group_leader", "group=\"S-R3F\""), 1.0);
    // Two sources of one name are one row, and two links that are called alike.
    assert_eq!(value("jetstream_stream_source_lag", "source_name=\"X\""), 6.0);
    assert_eq!(value("myelin_stream_source_lag_seconds", "source_name=\"X\""), 9.0);
    let of_unknown = samples.keys().filter(|sample| sample.contains("source_name=\"Y\""));
    assert_eq!(of_unknown.count(), 2, "what is not known is not shown");
    assert_eq!(value("gnatsd_leafz_conn_nodes_total", ""), 3.0);
    assert_eq!(value("gnatsd_healthz_status", ""), 0.0);
    assert_eq!(value("gnatsd_healthz_status_value", "value=\"ok\""), 1.0);
}

#[test]
fn a_prefix_stands_instead_of_both_names() {
    let mut source = everything();
    source.scraped.config = Some(MetricsConfig { prefix: "nats".to_owned(), ..config() });
    let samples = samples(&source);
    let starts = |begin: &str| samples.keys().any(|sample| sample.starts_with(begin));
    assert!(starts("nats_varz_") && starts("nats_consumer_num_pending{") && starts("myelin_"));
    assert!(!starts("gnatsd") && !starts("jetstream"));
}

#[test]
fn rows_are_bounded_and_what_is_left_out_is_said() {
    let mut source = everything();
    let streams = ["S1", "S2", "S3"].map(|name| StreamFigures {
        name: name.to_owned(),
        consumers: vec![consumer("C1"), consumer("C2")],
        ..StreamFigures::default()
    });
    source.scraped.figures = streams.into();
    let running = source.jetstream.as_mut().unwrap();
    (running.accounts[1].streams, running.accounts[1].consumers) = (3, 6);
    source.open = (1..=5).map(client).collect();
    let most =
        MetricsConfig { max_connections: 2, max_accounts: 3, max_streams: 2, max_consumers: 3, ..config() };
    source.scraped.config = Some(most);
    let samples = samples(&source);
    let count = |begin: &str| samples.keys().filter(|sample| sample.starts_with(begin)).count();
    assert_eq!(count("gnatsd_connz_in_msgs{"), 1 + 2);
    assert_eq!(count("gnatsd_accstatz_subscriptions{"), 3);
    assert_eq!(count("jetstream_stream_total_messages{"), 2);
    assert_eq!(count("jetstream_consumer_num_pending{"), 3);
    let left_out = |of: &str| {
        samples
            .get(&format!("myelin_metrics_left_out{{server_id=\"NSERVER\",of=\"{of}\"}}"))
            .unwrap()
            .as_str()
    };
    assert_eq!(["connections", "accounts", "streams", "consumers"].map(left_out), ["3", "1", "1", "3"]);
    // A maximum of 0 shows none.
    source.scraped.config = Some(MetricsConfig::default());
    let samples = self::samples(&source);
    assert!(
        !samples
            .keys()
            .any(|sample| sample.contains("stream_name") || sample.starts_with("gnatsd_connz_idle"))
    );
}

#[test]
fn names_that_clients_choose_stay_in_their_quotes() {
    let hostile = "a\"} 1\nmyelin_panics_total{x=\"\\";
    let mut source = everything();
    let library = ClientLibrary { lang: hostile.to_owned(), ..ClientLibrary::default() };
    source.open = vec![ConnSnapshot { name: hostile.to_owned(), library, ..client(7) }];
    source.scraped.figures[0].name = hostile.to_owned();
    source.scraped.figures[0].consumers =
        vec![ConsumerFigures { description: hostile.to_owned(), ..consumer(hostile) }];
    source.queues = vec![QueueSnapshot { name: hostile.to_owned(), pending: 1, in_progress: 0 }];
    let samples = samples(&source);
    let escaped = "a\\\"} 1\\nmyelin_panics_total{x=\\\"\\\\";
    for label in ["name", "lang", "stream_name", "consumer_name", "consumer_desc", "queue"] {
        let label = format!("{label}=\"{escaped}\"");
        assert!(samples.keys().any(|sample| sample.contains(&label)), "{label}");
    }
    assert_eq!(samples.keys().filter(|sample| sample.starts_with("myelin_panics_total")).count(), 1);
}

/// The measure of a scrape without what the server does for it:
/// `cargo test --release -p myelin-monitor --test pages ten_thousand -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn ten_thousand_consumers_are_written_within_the_budget() {
    let mut source = everything();
    let consumers = (0..10_000).map(|n| consumer(&format!("consumer-{n}")));
    source.scraped.figures[0].consumers = consumers.collect();
    source.scraped.config = Some(MetricsConfig { max_consumers: 10_000, ..config() });
    let mut fastest = Duration::MAX;
    for _ in 0..10 {
        let begin = Instant::now();
        let size = source.ask("/metrics").body.len();
        fastest = fastest.min(begin.elapsed());
        println!("{size} bytes in {:?}", begin.elapsed());
    }
    assert!(fastest < Duration::from_millis(50), "{fastest:?}");
}

fn packaged(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

const RULES: &str = "prometheus/myelin.rules.yml";

#[test]
fn dashboard_and_alerts_use_metrics_that_there_are() {
    let recorded = std::fs::read_to_string(file("metrics.names")).unwrap();
    let samples = samples(&everything());
    let name_of = |sample: &str| sample.split('{').next().unwrap().to_owned();
    let names: BTreeSet<_> =
        samples.keys().map(String::as_str).chain(recorded.lines()).map(name_of).collect();
    for (path, least) in [(RULES, 20), ("grafana/myelin.json", 30)] {
        let text = std::fs::read_to_string(packaged(path)).unwrap();
        let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
        let begins = ["gnatsd_", "jetstream_", "myelin_"];
        let used: BTreeSet<_> =
            words.filter(|word| begins.iter().any(|begin| word.starts_with(begin))).collect();
        assert!(used.len() >= least, "{path}: {used:?}");
        let unknown: Vec<_> = used.iter().filter(|word| !names.contains(**word)).collect();
        assert_eq!(unknown, Vec::<&&str>::new(), "{path}");
    }
    let dashboard = std::fs::read(packaged("grafana/myelin.json")).unwrap();
    let dashboard: Value = serde_json::from_slice(&dashboard).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 20);
}

/// Replicas know consumers, too, and a former leader may know them as they were: what is told of
/// each is told by its leader alone, and once.
#[test]
fn alerts_and_panels_about_consumers_are_those_of_leaders() {
    let mut source = everything();
    let follows = ConsumerFigures { leader: Some("other".to_owned()), ..consumer("F") };
    source.scraped.figures[0].consumers.push(follows);
    let samples = samples(&source);
    for (name, leads) in [("C", true), ("F", false)] {
        let labels = format!("consumer_name=\"{name}\",is_consumer_leader=\"{leads}\"}}");
        for family in ["myelin_consumer_lag_messages", "myelin_consumer_paused"] {
            let is_it = |sample: &&String| sample.starts_with(family) && sample.ends_with(&labels);
            assert_eq!(samples.keys().filter(is_it).count(), 1, "{family} {labels}");
        }
    }
    let begins = ["jetstream_consumer_num_", "jetstream_consumer_last_", "myelin_consumer_"];
    for path in [RULES, "grafana/myelin.json"] {
        let text = std::fs::read_to_string(packaged(path)).unwrap().replace('\\', "");
        let mut seen = 0;
        for begin in begins {
            for (at, _) in text.match_indices(begin) {
                // Joined by labels, one condition is enough.
                let is_joined = text[..at].ends_with("and ");
                let selector = text[at..].split(['}', ' ', '[']).next().unwrap();
                let is_bound = selector.contains("is_consumer_leader=\"true\"");
                assert!(is_joined || is_bound, "{path}: {selector}");
                seen += 1;
            }
        }
        assert!(seen >= 4, "{path}: {seen}");
    }
}

/// With `promtool` on the `PATH`; without, the test says so.
#[test]
fn promtool_finds_nothing_wrong() {
    let rules = Command::new("promtool").args(["check", "rules"]).arg(packaged(RULES)).output();
    let Ok(rules) = rules else {
        println!("no promtool: rules and metrics are not checked with it");
        return;
    };
    assert!(rules.status.success(), "{rules:?}");
    let answer = text(&everything().ask("/metrics"));
    let mut check = Command::new("promtool");
    check.args(["check", "metrics", "--lint=none"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().unwrap();
    // The classic format does not know the last line.
    let classic = answer.strip_suffix("# EOF\n").unwrap();
    check.stdin.take().unwrap().write_all(classic.as_bytes()).unwrap();
    let checked = check.wait_with_output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

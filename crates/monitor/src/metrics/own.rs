//! Figures of Myelin's own, beside those of the exporter: all begin with `myelin_`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::exposition::{Family, GaugeTable, HistogramSample, Labels};
use super::jetstream;
use super::scrape::Scrape;
use crate::counts::LinkCounts;
use crate::snapshot::{JournalSnapshot, RuntimeSnapshot, ServerSnapshot};

pub(super) fn add(scrape: &mut Scrape<'_>) {
    let (server, runtime) = (scrape.source.server(), scrape.source.runtime());
    build(scrape);
    slow(scrape, &server);
    memory(scrape, &server, &runtime);
    if let Some(journal) = &runtime.journal {
        loss(scrape, journal);
    }
    if let Some(api) = jetstream::api(scrape) {
        api.into_iter().for_each(|family| scrape.out.push(family));
    }
    queues(scrape);
    groups(scrape);
    if let Some(waits) = &runtime.commit_waits {
        let help = "Time from the proposal of an entry to its commit, in groups that are led here";
        let family = Family::histogram("myelin_group_commit_seconds", help);
        scrape.out.push(family.with(&scrape.server, HistogramSample::of_times(waits)));
    }
    if runtime.journal.is_some() {
        repairs(scrape, &runtime);
    }
    certificates(scrape, &server);
    pushes(scrape, &runtime);
}

fn build(scrape: &mut Scrape<'_>) {
    let labels = scrape.server.and([("version", myelin_stdx::VERSION)]);
    scrape.out.push(Family::gauge("myelin_build_info", "Version of Myelin").with(&labels, 1_u64));
}

/// Cost of receivers that do not keep up.
fn slow(scrape: &mut Scrape<'_>, server: &ServerSnapshot) {
    let labels = scrape.server.clone();
    let by_kind = |name: &str, help, counts: LinkCounts| {
        let kinds = [
            ("client", counts.clients),
            ("route", counts.routes),
            ("gateway", counts.gateways),
            ("leaf_node", counts.leafs),
        ];
        let add = |family: Family, (kind, count)| family.with(&labels.and([("kind", kind)]), count);
        kinds.into_iter().fold(Family::counter(name, help), add)
    };
    let help = "Connections that did not read fast enough, by kind";
    scrape.out.push(by_kind("myelin_slow_consumers", help, server.slow_consumers));
    let help = "Connections that did not answer pings, by kind";
    scrape.out.push(by_kind("myelin_stale_connections", help, server.stale_connections));
    let stalls = Family::counter("myelin_publisher_stalls", "Times that a publisher was held back");
    scrape.out.push(stalls.with(&labels, server.traffic.stalled_clients));
    let drops = Family::counter("myelin_dropped_messages", "Messages that were not delivered, by reason");
    let reason = labels.and([("reason", "receiver_far_behind")]);
    scrape.out.push(drops.with(&reason, server.traffic.dropped_for_slow));
}

/// Memory by who holds it. Owners overlap with `process`, which is all of it.
fn memory(scrape: &mut Scrape<'_>, server: &ServerSnapshot, runtime: &RuntimeSnapshot) {
    let mut owners = vec![
        ("process", u64::try_from(server.process.mem).unwrap_or(0)),
        ("process_data", runtime.resident_data),
        ("main_stack", runtime.stack),
    ];
    owners.extend(scrape.source.jetstream().map(|jetstream| ("memory_streams", jetstream.stats.memory)));
    owners.extend(&runtime.held);
    let mut family = Family::gauge("myelin_memory_bytes", "Memory by what holds it; process is all of it");
    for (owner, bytes) in owners {
        family.add(&scrape.server.and([("owner", owner)]), bytes);
    }
    scrape.out.push(family);
    let panics = Family::counter("myelin_panics", "Panics that were caught");
    scrape.out.push(panics.with(&scrape.server, runtime.panics));
}

/// Loss that a loss of power would mean.
fn loss(scrape: &mut Scrape<'_>, journal: &JournalSnapshot) {
    let columns = [
        ("loss_window_seconds", "Age of the oldest message that is acknowledged and not durable"),
        ("loss_window_max_seconds", "The largest such age since the start"),
        ("positions_window_seconds", "Age of the oldest change of a consumer's position that is not durable"),
        ("positions_window_max_seconds", "The largest such age since the start"),
        ("waiting_erasures", "Files with bytes of erased messages that wait for room on the disk"),
    ];
    let mut windows = GaugeTable::new("myelin_journal", columns);
    let seconds = |nanos| Duration::from_nanos(nanos).into();
    windows.row(
        &scrape.server,
        [
            seconds(journal.loss_window),
            seconds(journal.loss_window_max),
            seconds(journal.positions_window),
            seconds(journal.positions_window_max),
            journal.waiting_erasures.into(),
        ],
    );
    scrape.out.push_table(windows);
    let rounds = Family::counter("myelin_journal_rounds", "Times that something became durable");
    scrape.out.push(rounds.with(&scrape.server, journal.rounds));
    let help = "Times that the disk had no room for what only the journal has of files that failed";
    let refused = Family::counter("myelin_journal_carries_refused", help);
    scrape.out.push(refused.with(&scrape.server, journal.carries_refused));
    let (sync, round) =
        (HistogramSample::of_times(&journal.sync_times), HistogramSample::of_times(&journal.round_times));
    for (name, help, spread) in [
        ("sync_seconds", "Time that a sync of one file took, or of the journal", sync),
        ("round_seconds", "Time that it took to make something durable", round),
        (
            "round_bytes",
            "Bytes that were made durable together",
            HistogramSample::of_sizes(&journal.round_bytes),
        ),
    ] {
        let family = Family::histogram(format!("myelin_journal_{name}"), help);
        scrape.out.push(family.with(&scrape.server, spread));
    }
}

fn queues(scrape: &mut Scrape<'_>) {
    let queues = scrape.source.queues();
    let by_name: BTreeMap<_, _> = queues.into_iter().map(|queue| (queue.name, queue.pending)).collect();
    let mut queues: Vec<_> = by_name.into_iter().collect();
    // The server's own come first: those of streams begin with a bracket.
    queues.sort_by_key(|(name, _)| name.starts_with('['));
    let max = scrape.config.max_streams;
    scrape.bound("queues", &mut queues, max);
    let mut family = Family::gauge("myelin_queue_pending", "Entries that wait in a queue between threads");
    for (name, pending) in &queues {
        family.add(&scrape.server.and([("queue", &**name)]), *pending);
    }
    scrape.out.push(family);
}

/// Groups of replicas of which this server is a member.
fn groups(scrape: &mut Scrape<'_>) {
    let mut groups = scrape.source.raft_groups();
    groups.sort_unstable_by(|a, b| (&a.account, &a.name).cmp(&(&b.account, &b.name)));
    groups.dedup_by(|a, b| (&a.account, &a.name) == (&b.account, &b.name));
    let max = scrape.config.max_streams;
    scrape.bound("groups", &mut groups, max);
    let columns = [
        ("term", "Term of a group of replicas"),
        ("committed_index", "Index up to which a group's log is committed, as this member knows"),
        ("last_index", "Index of the last entry that this member has"),
        ("leader", "Whether this member leads"),
        ("has_leader", "Whether this member knows a leader"),
        ("catching_up", "Whether this member has yet to get what is committed"),
    ];
    let mut rows = GaugeTable::new("myelin_group", columns);
    for snapshot in &groups {
        let labels = scrape.server.and([("account", &*snapshot.account), ("group", &snapshot.name)]);
        let group = &snapshot.group;
        rows.row(
            &labels,
            [
                group.term.into(),
                group.progress.committed.into(),
                group.pindex.into(),
                (group.state == "LEADER").into(),
                (!group.leader.is_empty()).into(),
                group.progress.catching_up.into(),
            ],
        );
    }
    scrape.out.push_table(rows);
}

/// Replicas that had lost something which others of their group have.
fn repairs(scrape: &mut Scrape<'_>, runtime: &RuntimeSnapshot) {
    let damaged = Family::counter("myelin_replicas_damaged", "Replicas that were found damaged");
    scrape.out.push(damaged.with(&scrape.server, runtime.replicas_damaged));
    let help = "Replicas that were not as most of their group";
    let disagreed = Family::counter("myelin_replicas_disagreed", help);
    scrape.out.push(disagreed.with(&scrape.server, runtime.replicas_disagreed));
    let help = "Replicas of both kinds that have got all from another server";
    let repaired = Family::counter("myelin_replicas_repaired", help);
    scrape.out.push(repaired.with(&scrape.server, runtime.replicas_repaired));
    let help = "How far the clock is ahead of the median of the servers that share JetStream";
    let ahead = Family::gauge("myelin_clock_ahead_seconds", help);
    scrape.out.push(ahead.with(&scrape.server, runtime.clock_ahead as f64 / 1e9));
}

/// When certificates end, which is too late to be told by clients.
fn certificates(scrape: &mut Scrape<'_>, server: &ServerSnapshot) {
    let listeners = [
        ("clients", server.settings.tls_cert_not_after),
        ("cluster", server.cluster.tls_cert_not_after),
        ("gateway", server.gateway.tls_cert_not_after),
        ("leaf_nodes", server.leaf.tls_cert_not_after),
        ("websocket", server.websocket.tls_cert_not_after),
    ];
    let help = "Seconds until the certificate of a listener expires";
    let mut family = Family::gauge("myelin_certificate_expires_seconds", help);
    for (listener, end) in listeners {
        let labels: Labels = scrape.server.and([("listener", listener)]);
        family.add(&labels, end.map(|end| end.duration_since(scrape.header.now).as_secs_f64()));
    }
    scrape.out.push(family);
}

/// Pushes to a collector, where there is one.
fn pushes(scrape: &mut Scrape<'_>, runtime: &RuntimeSnapshot) {
    let mut family = Family::counter("myelin_otlp_pushes", "Pushes of metrics to a collector, by result");
    for (result, count) in ["ok", "failed"].into_iter().zip(runtime.pushes.into_iter().flatten()) {
        family.add(&scrape.server.and([("result", result)]), count);
    }
    scrape.out.push(family);
    let mut family = Family::counter("myelin_otlp_spans", "Spans of messages for a collector, by result");
    let results = ["sent", "failed", "dropped"];
    for (result, count) in results.into_iter().zip(runtime.spans.into_iter().flatten()) {
        family.add(&scrape.server.and([("result", result)]), count);
    }
    scrape.out.push(family);
}

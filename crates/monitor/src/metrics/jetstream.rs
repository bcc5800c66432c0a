//! JetStream, its accounts, streams and consumers, as the exporter has them, and what we know
//! beside that of each.

use super::exposition::{Family, GaugeTable, Labels, Number};
use super::scrape::Scrape;
use crate::snapshot::{ConsumerFigures, JetStreamAccount, MostFigures, SourceFigures, StreamFigures};

pub(super) fn add(scrape: &mut Scrape<'_>) {
    let begin = scrape.begin("jetstream");
    let jetstream = scrape.source.jetstream();
    let is_disabled = jetstream.is_none();
    let jetstream = jetstream.unwrap_or_default();
    let (name, domain) = (scrape.header.server_name.clone(), jetstream.config.domain);
    let (cluster, leader) = jetstream.meta.map(|meta| (meta.name, meta.leader)).unzip();
    let leads = leader.as_ref().is_none_or(|leader| *leader == name);
    let server = scrape.server.and([
        ("server_name", &*name),
        ("cluster", cluster.as_deref().unwrap_or_default()),
        ("domain", &domain),
        ("meta_leader", leader.as_deref().unwrap_or_default()),
        ("is_meta_leader", truth(leads)),
    ]);
    let mut accounts = if is_disabled { Vec::new() } else { scrape.source.jetstream_accounts() };
    accounts.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let columns = [
        ("jetstream_disabled", "JetStream disabled or not"),
        ("max_memory", "JetStream Max Memory"),
        ("max_storage", "JetStream Max Storage"),
        ("total_streams", "Total number of streams in JetStream"),
        ("total_consumers", "Total number of consumers in JetStream"),
        ("total_messages", "Total number of stored messages in JetStream"),
        ("total_message_bytes", "Total number of bytes stored in JetStream"),
    ];
    let mut whole = GaugeTable::new(&format!("{begin}_server"), columns);
    let sum = |of: fn(&JetStreamAccount) -> u64| accounts.iter().map(of).sum::<u64>().into();
    whole.row(
        &server,
        [
            is_disabled.into(),
            jetstream.config.max_memory.into(),
            jetstream.config.max_storage.into(),
            sum(|account| account.streams as u64),
            sum(|account| account.consumers as u64),
            sum(|account| account.messages),
            sum(|account| account.bytes),
        ],
    );
    scrape.out.push_table(whole);
    JetStreamRows::new(&begin, name).add(scrape, &server, &accounts);
}

fn truth(is_so: bool) -> &'static str {
    if is_so { "true" } else { "false" }
}

const ACCOUNT: [(&str, &str); 4] = [
    ("max_storage", "JetStream Account Max Storage in bytes"),
    ("max_memory", "JetStream Account Max Memory in bytes"),
    ("storage_used", "Total number of bytes used by JetStream storage"),
    ("memory_used", "Total number of bytes used by JetStream memory"),
];

const STREAM: [(&str, &str); 8] = [
    ("total_messages", "Total number of messages from a stream"),
    ("total_bytes", "Total stored bytes from a stream"),
    ("first_seq", "First sequence from a stream"),
    ("last_seq", "Last sequence from a stream"),
    ("consumer_count", "Total number of consumers from a stream"),
    ("subject_count", "Total number of subjects in a stream"),
    ("limit_bytes", "Most bytes that a stream may have as it is configured; -1: no limit"),
    ("limit_messages", "Most messages that a stream may have as it is configured; -1: no limit"),
];

const CONSUMER: [(&str, &str); 10] = [
    ("last_delivery_seconds", "Seconds since last message delivery to consumer"),
    ("last_ack_seconds", "Seconds since last ack from consumer"),
    ("delivered_consumer_seq", "Latest sequence number of a stream consumer"),
    ("delivered_stream_seq", "Latest sequence number of a stream"),
    ("num_ack_pending", "Number of pending acks from a consumer"),
    ("num_redelivered", "Number of redelivered messages from a consumer"),
    ("num_waiting", "Number of inflight fetch requests from a pull consumer"),
    ("num_pending", "Number of pending messages from a consumer"),
    ("ack_floor_stream_seq", "Number of ack floor stream seq from a consumer"),
    ("ack_floor_consumer_seq", "Number of ack floor consumer seq from a consumer"),
];

/// Figures of streams that the exporter does not have.
const OWN_STREAM: [(&str, &str); 3] = [
    ("holes", "Sequences between the first and the last of a stream that have no message"),
    ("lost_messages", "Messages of a stream that a damaged disk took"),
    ("oldest_message_age_seconds", "Age of the first message of a stream"),
];

/// Figures of consumers that the exporter does not have.
const OWN_CONSUMER: [(&str, &str); 4] = [
    ("lag_messages", "Messages that a consumer has yet to deliver or to see acknowledged"),
    ("lag_seconds", "Age of the oldest message that a consumer has yet to deliver"),
    ("oldest_unacknowledged_seconds", "Age of the oldest message that is delivered and not acknowledged"),
    ("paused", "Whether a consumer is paused"),
];

/// Figure of streams that are copied, which the exporter does not have.
const OWN_COPY: (&str, &str) = ("lag_seconds", "Age of the oldest message that is yet to be copied");

/// Tables with a row for each of many.
struct JetStreamRows {
    /// Name of this server.
    server_name: String,
    accounts: GaugeTable<4>,
    streams: GaugeTable<8>,
    consumers: GaugeTable<10>,
    sources: GaugeTable<2>,
    mirrors: GaugeTable<2>,
    own_streams: GaugeTable<3>,
    own_consumers: GaugeTable<4>,
    own_sources: GaugeTable<1>,
    own_mirrors: GaugeTable<1>,
}

impl JetStreamRows {
    fn new(begin: &str, server_name: String) -> Self {
        let sources = [
            ("source_lag", "Number of messages a stream source is behind"),
            (
                "source_active_duration_ns",
                "Stream source active duration in nanoseconds (-1 indicates inactive)",
            ),
        ];
        let mirrors = [
            ("mirror_lag", "Number of messages a stream mirror is behind"),
            (
                "mirror_active_duration_ns",
                "Stream mirror active duration in nanoseconds (-1 indicates inactive)",
            ),
        ];
        let stream = format!("{begin}_stream");
        Self {
            server_name,
            accounts: GaugeTable::new(&format!("{begin}_account"), ACCOUNT),
            streams: GaugeTable::new(&stream, STREAM),
            consumers: GaugeTable::new(&format!("{begin}_consumer"), CONSUMER),
            sources: GaugeTable::new(&stream, sources),
            mirrors: GaugeTable::new(&stream, mirrors),
            own_streams: GaugeTable::new("myelin_stream", OWN_STREAM),
            own_consumers: GaugeTable::new("myelin_consumer", OWN_CONSUMER),
            own_sources: GaugeTable::new("myelin_stream_source", [OWN_COPY]),
            own_mirrors: GaugeTable::new("myelin_stream_mirror", [OWN_COPY]),
        }
    }

    /// Rows of all accounts, in order of their names until the configured maxima are reached.
    fn add(mut self, scrape: &mut Scrape<'_>, server: &Labels, accounts: &[JetStreamAccount]) {
        let config = &scrape.config;
        let mut left = MostFigures { streams: config.max_streams, consumers: config.max_consumers };
        let max_accounts = config.max_accounts;
        let mut all = [0, 0];
        for (at, account) in accounts.iter().enumerate() {
            all = [all[0] + account.streams, all[1] + account.consumers];
            if at >= max_accounts {
                continue;
            }
            let labels = self.account(server, account);
            let own = scrape.server.and([("account", &*account.name)]);
            for stream in scrape.source.stream_figures(&account.name, left) {
                left.streams = left.streams.saturating_sub(1);
                left.consumers = left.consumers.saturating_sub(stream.consumers.len());
                self.stream(scrape, (&labels, &own), &stream);
            }
        }
        let shown = [scrape.config.max_streams - left.streams, scrape.config.max_consumers - left.consumers];
        scrape.note_left_out("jetstream_accounts", accounts.len().saturating_sub(max_accounts));
        scrape.note_left_out("streams", all[0].saturating_sub(shown[0]));
        scrape.note_left_out("consumers", all[1].saturating_sub(shown[1]));
        scrape.out.push_table(self.accounts);
        scrape.out.push_table(self.streams);
        scrape.out.push_table(self.sources);
        scrape.out.push_table(self.mirrors);
        scrape.out.push_table(self.consumers);
        scrape.out.push_table(self.own_streams);
        scrape.out.push_table(self.own_consumers);
        scrape.out.push_table(self.own_sources);
        scrape.out.push_table(self.own_mirrors);
    }

    fn account(&mut self, server: &Labels, account: &JetStreamAccount) -> Labels {
        let name = if account.tag.is_empty() { &account.name } else { &account.tag };
        let labels =
            server.and([("account", &**name), ("account_name", name), ("account_id", &account.name)]);
        // Compat: no limit is -1 and shown as an unsigned number, limits by tier are 0.
        let (memory, storage) = account.allowance.map_or((0, 0), |most| (most.memory, most.storage));
        self.accounts.row(
            &labels,
            [
                storage.cast_unsigned().into(),
                memory.cast_unsigned().into(),
                account.storage.into(),
                account.memory.into(),
            ],
        );
        labels
    }

    fn stream(&mut self, scrape: &Scrape<'_>, (account, own): (&Labels, &Labels), stream: &StreamFigures) {
        let labels = account.and([
            ("stream_name", &*stream.name),
            ("stream_leader", &stream.leader),
            ("is_stream_leader", truth(stream.leader == self.server_name)),
            ("stream_raft_group", &stream.raft_group),
        ]);
        let [first, last] = stream.sequences.map(Number::from);
        let [max_messages, max_bytes] = stream.limits.map(Number::from);
        let (messages, bytes) = (stream.messages.into(), stream.bytes.into());
        let (consumers, subjects) = (stream.consumer_count.into(), stream.subjects.into());
        self.streams
            .row(&labels, [messages, bytes, first, last, consumers, subjects, max_bytes, max_messages]);
        let own = own.and([("stream_name", &*stream.name)]);
        let age = stream.oldest.map(|oldest| scrape.header.now.duration_since(oldest).as_secs_f64().max(0.0));
        self.own_streams.row(&own, [stream.holes.into(), stream.lost.into(), age.into()]);
        let mut sources = (&mut self.sources, &mut self.own_sources);
        copies(&mut sources, (&labels, &own), "source", &stream.sources);
        let mut mirrors = (&mut self.mirrors, &mut self.own_mirrors);
        copies(&mut mirrors, (&labels, &own), "mirror", stream.mirror.as_slice());
        for consumer in &stream.consumers {
            self.consumer(&labels, &own, consumer);
        }
    }

    fn consumer(&mut self, stream: &Labels, own: &Labels, consumer: &ConsumerFigures) {
        let leader = consumer.leader.as_deref();
        let leads = truth(leader.is_none_or(|leader| leader == self.server_name));
        let labels = stream.and([
            ("consumer_name", &*consumer.name),
            ("consumer_leader", leader.unwrap_or_default()),
            ("is_consumer_leader", leads),
            ("consumer_desc", &consumer.description),
        ]);
        let [delivered, delivered_of_stream] = consumer.delivered.map(Number::from);
        let [floor, floor_of_stream] = consumer.ack_floor.map(Number::from);
        self.consumers.row(
            &labels,
            [
                consumer.since_delivery.into(),
                consumer.since_ack.into(),
                delivered,
                delivered_of_stream,
                consumer.ack_pending.into(),
                consumer.redelivered.into(),
                consumer.waiting.into(),
                consumer.pending.into(),
                floor_of_stream,
                floor,
            ],
        );
        let lag = consumer.pending.saturating_add(consumer.ack_pending);
        let own = own.and([("consumer_name", &*consumer.name), ("is_consumer_leader", leads)]);
        let (lag_time, unacknowledged) = (consumer.lag_time.into(), consumer.unacknowledged_for.into());
        self.own_consumers.row(&own, [lag.into(), lag_time, unacknowledged, consumer.is_paused.into()]);
    }
}

/// Rows of streams that are copied. One that is copied twice, with different filters, has one row:
/// two with the same labels would make the whole answer invalid.
fn copies(
    (table, own_table): &mut (&mut GaugeTable<2>, &mut GaugeTable<1>),
    (labels, own): (&Labels, &Labels),
    kind: &'static str,
    copied: &[SourceFigures],
) {
    let names = match kind {
        "mirror" => ["mirror_name", "mirror_api", "mirror_deliver"],
        _ => ["source_name", "source_api", "source_deliver"],
    };
    let is_same =
        |a: &SourceFigures, b: &SourceFigures| (&a.name, &a.api, &a.deliver) == (&b.name, &b.api, &b.deliver);
    for (at, source) in copied.iter().enumerate() {
        if copied[..at].iter().any(|before| is_same(before, source)) {
            continue;
        }
        let all = || copied[at..].iter().filter(|other| is_same(other, source));
        let (lag, active) = all().fold((0_u64, source.active), |(lag, active), other| {
            (lag.saturating_add(other.lag), active.max(other.active))
        });
        let of = [(names[0], &*source.name), (names[1], &source.api), (names[2], &source.deliver)];
        table.row(&labels.and(of), [lag.into(), active.into()]);
        let lag_time = all().filter_map(|other| other.lag_time).max();
        own_table.row(&own.and(of), [lag_time.into()]);
    }
}

/// Requests to the API, which the exporter has among the figures of `/varz` only.
pub(super) fn api(scrape: &Scrape<'_>) -> Option<[Family; 2]> {
    let stats = scrape.source.jetstream()?.stats.api;
    let requests = Family::counter("myelin_jetstream_api_requests", "Requests to JetStream's API");
    let errors = Family::counter("myelin_jetstream_api_errors", "Of those, answered with an error");
    Some([requests.with(&scrape.server, stats.total), errors.with(&scrape.server, stats.errors)])
}

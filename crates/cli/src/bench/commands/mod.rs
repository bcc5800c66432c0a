//! The benchmarks of `nats bench`, against any server: its commands, flags, defaults and lines.
//!
//! This file owns what each command asks the server to prepare and which work its clients get. The
//! rooms: `arguments` is what can be asked for, `run` prints and connects, `progress` shows how far
//! it is; `old` has the commands that are hidden in the original.

pub(crate) mod arguments;
mod old;
mod progress;
mod run;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use myelin_loadgen::admin::Admin;
use myelin_loadgen::client_pool::message_writer::{Payload, Subjects, Writer, header_lines};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::pubsub::verify::{Expectation, Verifier};
use myelin_loadgen::token::unique;
use myelin_loadgen::units::{grouped, human_time, log};
use myelin_loadgen::workloads::consume::{Acks, Consume, Manner};
use myelin_loadgen::workloads::get::{Get, Wanted};
use myelin_loadgen::workloads::store::AnswerMode;
use myelin_loadgen::workloads::{self, Replies};
use serde_json::{Value, json};

use crate::bench::commands::arguments::{
    AckMode, BUCKET, BenchPub, BenchService, BenchSub, Body, CONSUMER, Common, Consumer, Fast, GetCommand,
    JetStream, JetStreamCommand, Keeping, KeyValue, KeyValueCommand, MessageContent, OnStream, Selection,
    ServiceCommand, StoreCommand, StreamPublishing,
};
pub(crate) use crate::bench::commands::old::old_jetstream;
use crate::bench::commands::run::{BenchmarkKind, BenchmarkRun, Facts};

/// The longest flow that the protocol of fast batches can ask for.
const LONGEST_FLOW: u64 = 65_535;

/// How long the server keeps a consumer that nobody uses, in nanoseconds.
const INACTIVE: u64 = 10_000_000_000;

/// `bench pub`.
pub(crate) fn publish(arguments: &BenchPub) -> Result<(), BenchError> {
    let BenchPub { subject, sleep, content, throttle, common } = arguments;
    names::word("subject", subject)?;
    let run = BenchmarkRun::new(BenchmarkKind::PUBLISH, common, sleep.0, Some(*throttle))?;
    let template = MessageTemplate::new(subject, content, common)?;
    run.announce(template.facts(content));
    let works = run.parts().into_iter().enumerate();
    run.go(works
        .map(|(client, part)| (vec![], workloads::publish::Publish::new(part, template.writer(client))))
        .collect())
}

/// `bench sub`.
pub(crate) fn subscribe(arguments: &BenchSub) -> Result<(), BenchError> {
    let BenchSub { subject, multisubject, verify, common } = arguments;
    names::word("subject", subject)?;
    let run = BenchmarkRun::new(BenchmarkKind::SUBSCRIBE, common, Duration::ZERO, None)?;
    let pattern = if *multisubject { format!("{subject}.*") } else { subject.clone() };
    run.announce(vec![("subject", pattern.clone()), ("multi-subject", multisubject.to_string())]);
    let largest = if *verify { run.target.connect()?.max_payload() } else { 0 };
    let verifier = || {
        let expectation = Expectation { base: subject.clone(), own_sids: false, largest, order: None };
        verify.then(|| Verifier::new(expectation))
    };
    let lines = format!("SUB {pattern} 1\r\n").into_bytes();
    let works = run.parts().into_iter().map(|part| {
        (lines.clone(), workloads::subscribe::Subscribe::new(part.messages, part.size, verifier()))
    });
    run.go(works.collect())
}

/// `bench service …`.
pub(crate) fn service(arguments: &BenchService) -> Result<(), BenchError> {
    let BenchService { sleep, common, command } = arguments;
    match command {
        ServiceCommand::Serve { subject } => {
            names::word("subject", subject)?;
            let run = BenchmarkRun::new(BenchmarkKind::SERVE, common, sleep.0, None)?;
            run.announce(vec![("subject", subject.clone())]);
            let serve = || {
                let began = jiff::Timestamp::now().to_string();
                let work = workloads::serve::Serve::new(subject, b"ok".to_vec(), sleep.0, began);
                (work.subscriptions(), work)
            };
            run.go((0..run.clients).map(|_| serve()).collect())
        }
        ServiceCommand::Request { subject, body, throttle } => {
            names::word("subject", subject)?;
            let run = BenchmarkRun::new(BenchmarkKind::REQUEST, common, sleep.0, Some(*throttle))?;
            let template = MessageTemplate::on(Subjects::One(subject.clone()), body, common)?;
            run.announce(vec![("subject", subject.clone())]);
            let works = run.parts().into_iter().enumerate().map(|(client, part)| {
                let inbox = run.inbox();
                let lines = Replies::subscription(&inbox);
                (lines, workloads::request::Request::new(part, template.writer(client), &inbox))
            });
            run.go(works.collect())
        }
    }
}

/// `bench js …`.
pub(crate) fn jetstream(arguments: &JetStream) -> Result<(), BenchError> {
    names::stream(&arguments.on.stream)?;
    match &arguments.command {
        JetStreamCommand::Pub(StoreCommand::Sync(store)) => {
            store_messages(arguments, store, BenchmarkKind::SYNC, 1)
        }
        JetStreamCommand::Pub(StoreCommand::Async { batch, store }) => {
            store_messages(arguments, store, BenchmarkKind::ASYNC, *batch)
        }
        JetStreamCommand::Pub(StoreCommand::Atomic { batch, store }) => {
            store_messages(arguments, store, BenchmarkKind::ATOMIC, *batch)
        }
        JetStreamCommand::Pub(StoreCommand::Fast(fast)) => store_fast(arguments, fast),
        JetStreamCommand::Ordered { batch, selection } => ordered(arguments, *batch, selection),
        JetStreamCommand::Consume(consumer) => {
            durable(arguments, consumer, BenchmarkKind::CONSUME, Manner::Consume)
        }
        JetStreamCommand::Fetch(consumer) => {
            durable(arguments, consumer, BenchmarkKind::FETCH, Manner::Fetch)
        }
        JetStreamCommand::Get(command) => get(arguments, command),
    }
}

/// `js pub sync`, `async` and `atomic`.
fn store_messages(
    arguments: &JetStream,
    store: &StreamPublishing,
    kind: BenchmarkKind,
    batch: u64,
) -> Result<(), BenchError> {
    let OnStream { stream, sleep, common } = &arguments.on;
    let run = BenchmarkRun::new(kind, common, sleep.0, Some(store.throttle))?;
    let is_atomic = kind == BenchmarkKind::ATOMIC;
    names::word("subject", &store.subject)?;
    if batch == 0 {
        return Err(BenchError::Usage("--batch must be at least 1".into()));
    }
    let template = MessageTemplate::new(&store.subject, &store.content, common)?;
    // Compat: a batch of one message is said to be none.
    run.announce(store.facts(&template, stream, if kind == BenchmarkKind::SYNC { 0 } else { batch }));
    let mut admin = Admin::open(&run.target)?;
    if is_atomic {
        admin.require_level(2, "atomic batches need nats-server 2.12 or an equal of it")?;
    }
    store.prepare(&mut admin, stream, &template, is_atomic)?;
    let id = run_id();
    let works = run.parts().into_iter().enumerate().map(|(client, part)| {
        let inbox = run.inbox();
        let mode = if is_atomic {
            AnswerMode::Atomic(format!("{id}-{client}-{}-", unique(8)))
        } else {
            AnswerMode::Each
        };
        let work = workloads::store::Store::new(part, mode, batch, template.writer(client), &inbox, stream);
        (Replies::subscription(&inbox), work.with_ids(store.ids(&id, client)))
    });
    run.go(works.collect())
}

/// `js pub fast`.
fn store_fast(arguments: &JetStream, fast: &Fast) -> Result<(), BenchError> {
    let OnStream { stream, sleep, common } = &arguments.on;
    let Fast { batch, flow, max_outstanding_acks, ack_timeout, gap, end, batch_length, store } = fast;
    let run = BenchmarkRun::new(BenchmarkKind::FAST, common, sleep.0, Some(store.throttle))?;
    let flow = flow.unwrap_or(*batch);
    names::word("subject", &store.subject)?;
    if *max_outstanding_acks == 0 || flow == 0 {
        return Err(BenchError::Usage("--max-outstanding-acks and the flow must be at least 1".into()));
    }
    if flow > LONGEST_FLOW {
        log(&format!("WARNING: a flow of {flow} is more than {LONGEST_FLOW}, which is taken instead"));
    }
    let template = MessageTemplate::new(&store.subject, &store.content, common)?;
    run.announce(store.facts(&template, stream, flow.min(LONGEST_FLOW)));
    let mut admin = Admin::open(&run.target)?;
    admin.require_level(4, "fast batches need nats-server 2.14 or an equal of it")?;
    store.prepare(&mut admin, stream, &template, false)?;
    let terms = workloads::fast::FastTerms {
        flow: flow.min(LONGEST_FLOW),
        outstanding: u64::from(*max_outstanding_acks),
        gap: *gap,
        end: *end,
        length: *batch_length,
        timeout: ack_timeout.map_or(run.target.timeout, |time| time.0),
    };
    let id = run_id();
    let works = run.parts().into_iter().enumerate().map(|(client, part)| {
        let inbox = run.inbox();
        let work = workloads::fast::Fast::new(part, terms, template.writer(client), &inbox, stream);
        (Replies::subscription(&inbox), work.with_ids(store.ids(&id, client)))
    });
    run.go(works.collect())
}

/// `js ordered`: each client reads all messages through a consumer of its own.
fn ordered(arguments: &JetStream, batch: u64, selection: &Selection) -> Result<(), BenchError> {
    let OnStream { stream, sleep, common } = &arguments.on;
    let run = BenchmarkRun::new(BenchmarkKind::ORDERED, common, sleep.0, None)?;
    run.announce([vec![("stream", stream.clone())], selection.facts()].concat());
    let mut admin = Admin::open(&run.target)?;
    selection.prepare(&mut admin, stream)?;
    let mut works = Vec::new();
    for part in run.parts() {
        let name = unique(22);
        let config = json!({
            "name": name, "deliver_policy": "all", "ack_policy": "none", "replay_policy": "instant",
            "max_deliver": 1, "num_replicas": 1, "mem_storage": true, "inactive_threshold": INACTIVE,
        });
        admin.create_consumer(stream, &selection.filtered(config))?;
        let terms = workloads::consume::ConsumeTerms {
            manner: Manner::Ordered,
            acks: Acks::No,
            wanted: part.messages,
            batch: batch.max(1),
            sleep: sleep.0,
            size: part.size,
            subject: format!("{}.CONSUMER.MSG.NEXT.{stream}.{name}", run.target.api),
            create: None,
        };
        let inbox = run.inbox();
        works.push((Replies::subscription(&inbox), Consume::new(terms, &inbox)));
    }
    run.go(works)
}

/// `js consume` and `js fetch`: clients share a durable consumer.
fn durable(
    arguments: &JetStream,
    consumer: &Consumer,
    kind: BenchmarkKind,
    manner: Manner,
) -> Result<(), BenchError> {
    let OnStream { stream, sleep, common } = &arguments.on;
    let Consumer { consumer: name, batch, acks, doubleack, selection, .. } = consumer;
    names::consumer(name)?;
    let run = BenchmarkRun::new(kind, common, sleep.0, None)?;
    let facts = vec![
        ("consumer", name.clone()),
        ("acks", acks.name().to_owned()),
        ("double-acked", doubleack.to_string()),
        ("batch", grouped(*batch)),
        ("stream", stream.clone()),
    ];
    run.announce([facts, selection.facts()].concat());
    let mut admin = Admin::open(&run.target)?;
    selection.prepare(&mut admin, stream)?;
    if name == CONSUMER {
        let config = json!({
            "name": name, "durable_name": name, "deliver_policy": "all", "ack_policy": acks.name(),
            "replay_policy": "instant", "max_ack_pending": batch * run.clients as u64, "inactive_threshold": INACTIVE,
        });
        admin.create_consumer(stream, &selection.filtered(config))?;
    } else {
        admin.ask(&format!("CONSUMER.INFO.{stream}.{name}"), &Value::Null)?;
    }
    let acks = match (acks, doubleack) {
        (AckMode::None, _) => Acks::No,
        (_, false) => Acks::Yes,
        (_, true) => Acks::Double,
    };
    let works = run.parts().into_iter().map(|part| {
        let terms = workloads::consume::ConsumeTerms {
            manner,
            acks,
            wanted: part.messages,
            batch: (*batch).max(1),
            sleep: sleep.0,
            size: part.size,
            subject: format!("{}.CONSUMER.MSG.NEXT.{stream}.{name}", run.target.api),
            create: None,
        };
        let inbox = run.inbox();
        (Replies::subscription(&inbox), Consume::new(terms, &inbox))
    });
    run.go(works.collect())
}

/// `js get …`: each client gets all messages.
fn get(arguments: &JetStream, command: &GetCommand) -> Result<(), BenchError> {
    let OnStream { stream, sleep, common } = &arguments.on;
    let stream_fact = ("stream", stream.clone());
    let (kind, facts) = match command {
        GetCommand::Sync => (BenchmarkKind::GET, vec![stream_fact]),
        GetCommand::Batch { batch, filter } => {
            let batch = ("batch", grouped(*batch));
            (BenchmarkKind::GET_BATCH, vec![stream_fact, batch, ("filter", filter.clone())])
        }
    };
    let run = BenchmarkRun::new(kind, common, sleep.0, None)?;
    run.announce(facts);
    let info = Admin::open(&run.target)?.stream(stream)?;
    let api = &run.target.api;
    let direct = format!("{api}.DIRECT.GET.{stream}");
    let wanted = match command {
        GetCommand::Sync => {
            let is_direct = info["config"]["allow_direct"] == true;
            let subject = if is_direct { direct } else { format!("{api}.STREAM.MSG.GET.{stream}") };
            Wanted::Sequence { first: info["state"]["first_seq"].as_u64().unwrap_or(1), subject, is_direct }
        }
        GetCommand::Batch { batch, filter } => {
            Wanted::Batches { size: (*batch).max(1), subject: direct, filter: filter.clone() }
        }
    };
    let works = run.parts().into_iter().map(|part| {
        let inbox = run.inbox();
        (Replies::subscription(&inbox), Get::new(part, wanted.clone(), &inbox))
    });
    run.go(works.collect())
}

/// `bench kv …`.
pub(crate) fn key_value(arguments: &KeyValue) -> Result<(), BenchError> {
    let KeyValue { bucket, sleep, common, command } = arguments;
    names::bucket(bucket)?;
    let stream = format!("KV_{bucket}");
    match command {
        KeyValueCommand::Put { keeping, history, randomize, throttle } => {
            let run = BenchmarkRun::new(BenchmarkKind::PUT, common, sleep.0, Some(*throttle))?;
            run.announce(vec![("bucket", bucket.clone()), ("purge", keeping.purge.to_string())]);
            let mut admin = Admin::open(&run.target)?;
            prepare_bucket(&mut admin, bucket, keeping, *history)?;
            let prefix = match run.target.api.as_str() {
                "$JS.API" => format!("$KV.{bucket}"),
                other => format!("{other}.$KV.{bucket}"),
            };
            let subjects = match randomize {
                0 => Subjects::Unlimited { base: prefix },
                count => Subjects::Keys { base: prefix, count: *count },
            };
            let payload = Payload::of_size(size(common)?);
            let works = run.parts().into_iter().enumerate().map(|(client, part)| {
                let inbox = run.inbox();
                let writer = Writer::new(subjects.clone(), "", payload.clone(), client as u64);
                let work = workloads::store::Store::new(part, AnswerMode::Each, 1, writer, &inbox, &stream);
                (Replies::subscription(&inbox), work)
            });
            run.go(works.collect())
        }
        KeyValueCommand::Get { randomize } => {
            let run = BenchmarkRun::new(BenchmarkKind::GET_KEY, common, sleep.0, None)?;
            run.announce(vec![("bucket", bucket.clone()), ("randomize", grouped(*randomize))]);
            Admin::open(&run.target)?.stream(&stream)?;
            let prefix = format!("{}.DIRECT.GET.{stream}.$KV.{bucket}", run.target.api);
            let wanted = Wanted::Keys { prefix, random_below: *randomize };
            let works = run.parts().into_iter().map(|part| {
                let inbox = run.inbox();
                (Replies::subscription(&inbox), Get::new(part, wanted.clone(), &inbox))
            });
            run.go(works.collect())
        }
    }
}

/// Removes the bucket if it is to be empty, and makes it if it is the default one.
fn prepare_bucket(admin: &mut Admin, bucket: &str, keeping: &Keeping, history: u8) -> Result<(), BenchError> {
    let stream = format!("KV_{bucket}");
    if keeping.purge {
        admin.ask(&format!("STREAM.DELETE.{stream}"), &Value::Null)?;
    }
    if bucket != BUCKET {
        return admin.stream(&stream).map(drop);
    }
    let config = json!({
        "name": stream, "description": "nats bench bucket", "subjects": [format!("$KV.{bucket}.>")],
        "retention": "limits", "discard": "new", "storage": keeping.storage.name(),
        "num_replicas": keeping.replicas, "max_bytes": keeping.maxbytes.0, "max_msgs_per_subject": history,
        "max_msgs": -1, "max_consumers": -1, "max_msg_size": -1, "duplicate_window": 120_000_000_000_u64,
        "allow_rollup_hdrs": true, "deny_delete": true, "allow_direct": true,
    });
    admin.ask(&format!("STREAM.CREATE.{stream}"), &config).map(drop)
}

/// Subjects, headers and payload of the messages of all clients.
struct MessageTemplate {
    subjects: Subjects,
    headers: String,
    payload: Payload,
}

impl MessageTemplate {
    fn new(subject: &str, content: &MessageContent, common: &Common) -> Result<Self, BenchError> {
        let base = subject.to_owned();
        let subjects = match (content.multisubject, content.multisubjectmax) {
            (false, _) => Subjects::One(base),
            (true, 0) => Subjects::Unlimited { base },
            (true, count) => Subjects::Numbered { base, count, is_random: content.multisubjectrandomize },
        };
        Self::on(subjects, &content.body, common)
    }

    fn on(subjects: Subjects, body: &Body, common: &Common) -> Result<Self, BenchError> {
        let payload = match &body.payload {
            None => Payload::of_size(size(common)?),
            Some(file) => {
                let bytes = std::fs::read(file).map_err(BenchError::io("reading the payload"))?;
                Payload::File(bytes.into())
            }
        };
        Ok(Self { subjects, headers: header_lines(&body.headers)?, payload })
    }

    fn writer(&self, client: usize) -> Writer {
        Writer::new(self.subjects.clone(), &self.headers, self.payload.clone(), client as u64)
    }

    fn facts(&self, content: &MessageContent) -> Facts {
        vec![
            ("subject", self.subjects.pattern()),
            ("multi-subject", content.multisubject.to_string()),
            ("multi-subject-max", grouped(content.multisubjectmax)),
            ("multi-subject-randomize", content.multisubjectrandomize.to_string()),
        ]
    }
}

fn size(common: &Common) -> Result<usize, BenchError> {
    let size = usize::try_from(common.size.0).ok().filter(|&size| size <= 1 << 30);
    size.ok_or_else(|| BenchError::Usage("--size is beyond what any server takes".into()))
}

/// A word that begins the ids of a run's messages.
fn run_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}", now.as_millis())
}

impl StreamPublishing {
    fn facts(&self, template: &MessageTemplate, stream: &str, batch: u64) -> Facts {
        let mut facts = template.facts(&self.content);
        facts.push(("batch", grouped(batch)));
        facts.push(("stream", stream.to_owned()));
        facts.push(("purge", self.keeping.purge.to_string()));
        if self.create {
            facts.push(("storage", self.keeping.storage.name().to_owned()));
            facts.push(("max-bytes", grouped(self.keeping.maxbytes.0)));
            facts.push(("replicas", grouped(self.keeping.replicas)));
            facts.push(("deduplication", self.dedup.to_string()));
            facts.push(("dedup-window", human_time(self.dedupwindow.0)));
        }
        facts
    }

    /// Makes the stream as it is wanted, and empties it.
    fn prepare(
        &self,
        admin: &mut Admin,
        stream: &str,
        template: &MessageTemplate,
        is_atomic: bool,
    ) -> Result<(), BenchError> {
        if self.persistasync && (is_atomic || self.keeping.replicas != 1) {
            let text = "--persistasync is for streams with one replica and without atomic batches";
            return Err(BenchError::Usage(text.into()));
        }
        if self.create {
            let mut config = json!({
                "name": stream, "subjects": [template.subjects.pattern()], "retention": "limits",
                "discard": "new", "storage": self.keeping.storage.name(), "num_replicas": self.keeping.replicas,
                "max_bytes": self.keeping.maxbytes.0, "duplicate_window": self.dedupwindow.0.as_nanos() as u64,
                "allow_direct": true, "allow_atomic": !self.persistasync, "allow_batched": true,
            });
            if self.persistasync {
                config["persist_mode"] = "async".into();
            }
            admin.ask(&format!("STREAM.CREATE.{stream}"), &config)?;
        } else {
            admin.stream(stream)?;
        }
        log(&format!("Using stream: {stream}"));
        if self.keeping.purge {
            log("Purging the stream");
            admin.purge(stream, &Value::Null)?;
        }
        Ok(())
    }

    fn ids(&self, run: &str, client: usize) -> Option<String> {
        self.dedup.then(|| format!("{run}-{client}-"))
    }
}

impl Selection {
    fn facts(&self) -> Facts {
        let mut facts = vec![("purge", self.purge.to_string())];
        if !self.filters.is_empty() {
            facts.push(("filter", self.filters.join(",")));
        }
        facts
    }

    fn prepare(&self, admin: &mut Admin, stream: &str) -> Result<(), BenchError> {
        self.filters.iter().try_for_each(|filter| names::word("filter", filter))?;
        match self.purge {
            true => admin.purge(stream, &Value::Null).map(drop),
            false => admin.stream(stream).map(drop),
        }
    }

    /// A consumer's configuration with the filters in it.
    fn filtered(&self, mut config: Value) -> Value {
        match self.filters.as_slice() {
            [] => {}
            [one] => config["filter_subject"] = one.as_str().into(),
            many => config["filter_subjects"] = many.into(),
        }
        config
    }
}

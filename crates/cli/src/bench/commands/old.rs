//! `bench oldjs …`, which `nats bench` has and hides: streams read the way older clients did.
//!
//! Owns how those consumers are configured. An ordered one is pushed, with flow control; a durable
//! one is pushed to a queue group of which every client takes its part, or pulled from batch by
//! batch. A consumer that pushes is made when all clients listen, by the first of them, so that
//! nothing is sent that nobody hears.

use myelin_loadgen::admin::{Admin, create};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::token::unique;
use myelin_loadgen::units::{grouped, log};
use myelin_loadgen::workloads::consume::{Acks, Consume, ConsumeTerms, Manner};
use myelin_loadgen::workloads::{Part, Replies};
use serde_json::{Value, json};

use crate::bench::commands::arguments::{CONSUMER, OldCommand, OldDurable, OldJetStream, OnStream};
use crate::bench::commands::run::{BenchmarkKind, BenchmarkRun};

/// Nanoseconds between two heartbeats of a server, and for which an ordered consumer waits for
/// acknowledgements that never come: those of older clients.
const HEARTBEAT: u64 = 5_000_000_000;
const ACK_WAIT: u64 = 79_200_000_000_000;

/// `bench oldjs`.
pub(crate) fn old_jetstream(arguments: &OldJetStream) -> Result<(), BenchError> {
    names::stream(&arguments.on.stream)?;
    match &arguments.command {
        OldCommand::Ordered { subject, multisubject } => ordered(arguments, subject, *multisubject),
        OldCommand::Push { maxacks, durable } => push(arguments, *maxacks, durable),
        OldCommand::Pull { batch, durable } => pull(arguments, *batch, durable),
    }
}

/// Settings of a client for the messages of its part.
fn terms(manner: Manner, acks: Acks, part: &Part, arguments: &OldJetStream) -> ConsumeTerms {
    ConsumeTerms {
        manner,
        acks,
        wanted: part.messages,
        batch: 1,
        sleep: arguments.on.sleep.0,
        size: part.size,
        subject: String::new(),
        create: None,
    }
}

/// Each client has all messages on a subject.
fn ordered(arguments: &OldJetStream, subject: &str, multisubject: bool) -> Result<(), BenchError> {
    let OnStream { stream, sleep, common } = &arguments.on;
    names::word("subject", subject)?;
    let run = BenchmarkRun::new(BenchmarkKind::OLD_ORDERED, common, sleep.0, None)?;
    run.announce(vec![("multi-subject", multisubject.to_string()), ("stream", stream.clone())]);
    let filter = if multisubject { format!("{subject}.*") } else { subject.to_owned() };
    // Compat: the stream is that of the subject, whatever --stream says.
    let stream = Admin::open(&run.target)?.stream_with(&filter)?;
    let works = run.parts().into_iter().map(|part| {
        // The subject itself, for a server wants to see just that listened to.
        let (inbox, deliver) = (run.inbox(), run.inbox());
        let config = json!({
            "name": unique(8), "deliver_policy": "all", "ack_policy": "none", "ack_wait": ACK_WAIT, "max_deliver": 1,
            "filter_subject": filter, "replay_policy": "instant", "flow_control": true, "idle_heartbeat": HEARTBEAT,
            "deliver_subject": deliver, "num_replicas": 1, "mem_storage": true,
        });
        let terms = ConsumeTerms {
            create: Some(request(&run, &stream, &config)),
            ..terms(Manner::OrderedPush, Acks::No, &part, arguments)
        };
        let listen = format!("SUB {deliver} 2\r\n").into_bytes();
        ([Replies::subscription(&inbox), listen].concat(), Consume::new(terms, &inbox))
    });
    run.go(works.collect())
}

/// Clients share what the server sends to a queue group.
fn push(arguments: &OldJetStream, maxacks: u64, durable: &OldDurable) -> Result<(), BenchError> {
    let OnStream { stream, sleep, common } = &arguments.on;
    let name = &durable.consumer;
    let run = BenchmarkRun::new(BenchmarkKind::OLD_PUSH, common, sleep.0, None)?;
    run.announce(durable.facts(stream)?);
    let mut admin = Admin::open(&run.target)?;
    let mut config = durable.config();
    let defined = if durable.no_ack { "unacked" } else { "explicitly acked" };
    if durable.is_ours() {
        config["deliver_subject"] = format!("{name}-DELIVERY").into();
        config["deliver_group"] = format!("{name}-GROUP").into();
        if !durable.no_ack {
            config["max_ack_pending"] = (maxacks * run.clients as u64).into();
        }
        log(&format!("Defined durable {defined} push consumer: {name}"));
    } else {
        config = admin.ask(&format!("CONSUMER.INFO.{stream}.{name}"), &Value::Null)?["config"].take();
    }
    let Some(subject) = config["deliver_subject"].as_str() else {
        return Err(BenchError::Usage(format!("consumer {name:?} does not push")));
    };
    let group = config["deliver_group"].as_str().unwrap_or_default();
    let works = run.parts().into_iter().enumerate().map(|(client, part)| {
        let inbox = run.inbox();
        // What is beyond a client's part goes to the others.
        let listen = format!("SUB {subject} {group} 2\r\nUNSUB 2 {}\r\n", part.messages);
        let lines = [Replies::subscription(&inbox), listen.into_bytes()].concat();
        let is_maker = client == 0 && durable.is_ours();
        let create = is_maker.then(|| request(&run, stream, &config));
        let terms = ConsumeTerms { create, ..terms(Manner::Push, durable.acks(), &part, arguments) };
        (lines, Consume::new(terms, &inbox))
    });
    durable.removing(&mut admin, stream, run.go(works.collect()))
}

/// Clients share what they ask for.
fn pull(arguments: &OldJetStream, batch: u64, durable: &OldDurable) -> Result<(), BenchError> {
    let OnStream { stream, sleep, common } = &arguments.on;
    let name = &durable.consumer;
    let run = BenchmarkRun::new(BenchmarkKind::OLD_PULL, common, sleep.0, None)?;
    let mut facts = durable.facts(stream)?;
    facts.push(("batch", grouped(batch)));
    run.announce(facts);
    let mut admin = Admin::open(&run.target)?;
    if durable.is_ours() {
        let mut config = durable.config();
        config["max_ack_pending"] = (batch * run.clients as u64).into();
        let (subject, body) = create(stream, &config, "create");
        admin.ask(&subject, &body)?;
        log(&format!("Defined durable pull consumer: {name}"));
    } else {
        admin.ask(&format!("CONSUMER.INFO.{stream}.{name}"), &Value::Null)?;
    }
    let works = run.parts().into_iter().map(|part| {
        let inbox = run.inbox();
        let terms = ConsumeTerms {
            batch: batch.max(1),
            subject: format!("{}.CONSUMER.MSG.NEXT.{stream}.{name}", run.target.api),
            ..terms(Manner::Pull, durable.acks(), &part, arguments)
        };
        (Replies::subscription(&inbox), Consume::new(terms, &inbox))
    });
    durable.removing(&mut admin, stream, run.go(works.collect()))
}

/// Subject and body that ask for a consumer.
fn request(run: &BenchmarkRun<'_>, stream: &str, config: &Value) -> (String, Value) {
    let (subject, body) = create(stream, config, "create");
    (format!("{}.{subject}", run.target.api), body)
}

impl OldDurable {
    /// Whether the consumer is made for this run, and removed behind it.
    fn is_ours(&self) -> bool {
        self.consumer == CONSUMER
    }

    fn acks(&self) -> Acks {
        match (self.no_ack, self.doubleack) {
            (true, _) => Acks::No,
            (false, false) => Acks::Yes,
            (false, true) => Acks::Double,
        }
    }

    fn facts(&self, stream: &str) -> Result<Vec<(&'static str, String)>, BenchError> {
        names::word("subject", &self.subject)?;
        names::consumer(&self.consumer)?;
        Ok(vec![
            ("acked", (!self.no_ack).to_string()),
            ("consumer", self.consumer.clone()),
            ("double-acked", self.doubleack.to_string()),
            ("stream", stream.to_owned()),
        ])
    }

    fn config(&self) -> Value {
        json!({
            "name": self.consumer, "durable_name": self.consumer, "deliver_policy": "all", "replay_policy": "instant",
            "ack_policy": if self.no_ack { "none" } else { "explicit" },
        })
    }

    /// Removes the consumer behind the run, also behind one that failed.
    fn removing(
        &self,
        admin: &mut Admin,
        stream: &str,
        outcome: Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        if !self.is_ours() {
            return outcome;
        }
        let removed = admin.delete_consumer(stream, &self.consumer);
        outcome.and(removed)?;
        log(&format!("Deleted durable consumer: {}", self.consumer));
        Ok(())
    }
}

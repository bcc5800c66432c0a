//! Many consumers on one stream, one in a hundred of which has something to do.
//!
//! Owns the three figures: how many are made per second, what each adds to the resident size of a
//! server at rest, and the CPU time per second that the server needs when 1 % of them get a message
//! a second each. Every run has a server of its own.

use std::cell::RefCell;
use std::thread;

use serde_json::json;

use crate::admin::{self, Admin};
use crate::error::BenchError;
use crate::jetstream::answer;
use crate::jetstream::consumers::latency::{self, PublishPlan};
use crate::jetstream::consumers::ledger::{Expected, Ledger};
use crate::jetstream::consumers::pull::{Acks, How, Pull, Wish};
use crate::jetstream::consumers::receiving::{self, ReceivingClient};
use crate::jetstream::consumers::run::{BATCH, ConsumerOutcome, ConsumerRun, SIZE, unique_stream};
use crate::jetstream::drive::{Done, RequestingClient, SendBudget, Work, drive};
use crate::jetstream::encoded_frames::{EncodedFrames, OutgoingMessage};
use crate::jetstream::envelope::Envelope;
use crate::jetstream::link::RequestLink;
use crate::jetstream::window::Window;
use crate::meter::Meter;
use crate::metric::Metric;
use crate::pubsub::publisher::Until;
use crate::target_server::API;
use crate::token;

/// Requests that may be unanswered when the consumers are made.
const WINDOW: usize = 64;

/// One consumer of this many is active.
const ACTIVE: u64 = 100;

/// Makes the consumers, measures, and deletes nothing: the server ends with the run.
pub(super) fn run(count: u64, run: ConsumerRun<'_>) -> Result<ConsumerOutcome, BenchError> {
    let mut admin = Admin::open(run.address)?;
    let stream = unique_stream();
    // Without a limit of its own a stream allows 1,000.
    admin.create_stream(&json!({
        "name": stream, "subjects": [format!("{stream}.>")], "storage": "file", "max_consumers": count,
    }))?;
    let resident = run.meter.map(Meter::resident_at_rest).transpose()?;
    let link = RequestLink::open(run.address, token::inbox())?;
    let creates = Creates::new(&stream, link.inbox(), count);
    let mut client = [RequestingClient::new(link, creates)];
    let elapsed = drive(&mut client, Until::Messages(count))?;
    let grown = run.meter.map(Meter::resident_at_rest).transpose()?;
    let memory =
        grown.zip(resident).map(|(after, before)| after.saturating_sub(before) as f64 / count as f64);
    let mut readings = vec![(Metric::CreationRate, count as f64 / elapsed.as_secs_f64())];
    readings.extend(memory.map(|memory| (Metric::ConsumerMemory, memory)));
    let (cpu, seconds) = trickle(&stream, (count / ACTIVE).max(1), run)?;
    readings.extend(cpu.map(|cpu| (Metric::IdleCpu, cpu.scheduled.as_secs_f64() * 1e3 / seconds)));
    Ok(ConsumerOutcome { readings, cpu: None })
}

/// Every active consumer gets a message a second. Gives the CPU time and the seconds in which it
/// was used.
fn trickle(
    stream: &str,
    active: u64,
    run: ConsumerRun<'_>,
) -> Result<(Option<crate::meter::CpuTime>, f64), BenchError> {
    let names: Vec<String> = (0..active).map(name).collect();
    let subjects: Vec<String> = names.iter().map(|name| format!("{stream}.{name}")).collect();
    let (ledger, expected) = (RefCell::new(Ledger::default()), Expected::later());
    let wish = |consumer| Wish {
        stream,
        consumer,
        api: API,
        how: How::Consume,
        batch: BATCH,
        acks: Acks::Explicit,
        size: SIZE,
        ledger: &ledger,
        expected: &expected,
    };
    let clients: Result<Vec<_>, _> =
        names.iter().map(|name| ReceivingClient::open(run.address, Pull::new(wish(name)))).collect();
    let (mut clients, schedule) = (clients?, PublishPlan::lasting(run.duration(), active));
    expected.set(schedule.count);
    let before = run.cpu()?;
    thread::scope(|scope| {
        let publishing = scope.spawn(|| latency::publish(run.address, stream, &subjects, &schedule));
        let last = receiving::run(&mut clients);
        let published = publishing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        published.and(last)
    })?;
    // Whoever is quick must not be measured over a shorter time.
    thread::sleep((schedule.lead + schedule.length()).saturating_sub(schedule.epoch.elapsed()));
    Ok((run.cpu_since(before)?, schedule.epoch.elapsed().as_secs_f64()))
}

fn name(number: u64) -> String {
    format!("C{number}")
}

/// Requests for consumers, each with a filter of its own.
#[derive(Debug)]
struct Creates {
    frames: EncodedFrames,
    place: usize,
    window: Window,
}

impl Creates {
    fn new(stream: &str, inbox: &str, count: u64) -> Self {
        let reply = format!("{inbox}.{}", token::BLANK);
        let mut frames = EncodedFrames::default();
        for name in (0..count).map(name) {
            let (subject, body) = admin::create(
                stream,
                &json!({
                    "name": name,
                    "durable_name": name,
                    "ack_policy": "explicit",
                    "filter_subject": format!("{stream}.{name}"),
                }),
                "create",
            );
            let (subject, body) = (format!("$JS.API.{subject}"), body.to_string());
            frames.push(OutgoingMessage {
                subject: &subject,
                reply: Some(&reply),
                headers: None,
                payload: body.as_bytes(),
            });
        }
        Self { frames, place: 0, window: Window::new(WINDOW) }
    }
}

impl Work for Creates {
    fn frames(&mut self) -> &mut EncodedFrames {
        &mut self.frames
    }

    fn fill(&mut self, budget: &mut SendBudget) {
        let room = self.window.room(self.frames.len() - self.place);
        let count = if room == 0 { 0 } else { budget.take(room) };
        if count == 0 {
            return;
        }
        let first = self.place;
        for place in first..first + count {
            let token = self.window.send(0);
            self.frames.mark(place, token);
        }
        self.frames.stage(first..first + count);
        self.place += count;
    }

    fn take(&mut self, envelope: &Envelope<'_>) -> Result<(), BenchError> {
        answer::json(envelope)?;
        self.window.answer(envelope.tail).map(drop)
    }

    fn is_settled(&self) -> bool {
        self.window.is_settled()
    }

    fn done(&self) -> Done {
        Done { messages: self.window.answered(), ..Done::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_have_filters_of_their_own() {
        let mut creates = Creates::new("S", "_INBOX.x", 3);
        creates.fill(&mut SendBudget::new(Until::Messages(3)));
        let text = String::from_utf8_lossy(creates.frames.unsent()).into_owned();
        for number in 0..3 {
            let subject =
                format!("PUB $JS.API.CONSUMER.CREATE.S.C{number}.S.C{number} _INBOX.x.00000{number} ");
            assert!(text.contains(&subject), "{text}");
        }
        let envelope = |payload: &'static [u8]| Envelope { tail: b"000001", header: b"", payload };
        assert!(creates.take(&envelope(b"{\"error\":{\"code\":400}}")).is_err());
        creates.take(&envelope(b"{\"name\":\"C1\"}")).unwrap();
        assert!(!creates.is_settled() && creates.done().messages == 1);
    }
}

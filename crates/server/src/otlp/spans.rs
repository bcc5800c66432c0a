//! Spans of messages on their way to the collector.
//!
//! Owns a queue of bounded length, which shards fill without waiting, and how often it is emptied:
//! a moment after the first span has come, or when there are enough for one request. What finds no
//! room, and what a collector does not take, is lost and counted.

use super::client::Target;
use super::{PushFailures, PushPlan, Pushes, Source, off_thread, wanted_plan};
use crate::logging::Logger;
use myelin_broker::{MessageSpan, SpanRole, SpanSink, SpanValue};
use myelin_conf::options::OtlpOptions;
use myelin_monitor::otlp_resource;
use myelin_stdx::sync::lock;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;

/// Most spans that wait. Each has texts of bounded length: about 8 MB in all.
const MOST_WAITING: usize = 8192;

/// Most spans of one request: a few hundred kilobytes.
const MOST_AT_ONCE: usize = 512;

/// Time for which spans are gathered before they are sent.
const GATHERING: Duration = Duration::from_secs(1);

/// Spans that wait, and counts of those that no longer do.
#[derive(Default)]
pub(crate) struct SpanQueue {
    waiting: Mutex<VecDeque<MessageSpan>>,
    /// Told of the first span that waits, and when there are enough for a request.
    has_some: Notify,
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

impl SpanQueue {
    /// Spans that a collector took, that it did not take, and that found no room.
    pub(super) fn counts(&self) -> [u64; 3] {
        [&self.sent, &self.failed, &self.dropped].map(|count| count.load(Relaxed))
    }

    fn len(&self) -> usize {
        lock(&self.waiting).len()
    }

    fn take_some(&self) -> Vec<MessageSpan> {
        let mut waiting = lock(&self.waiting);
        let count = waiting.len().min(MOST_AT_ONCE);
        waiting.drain(..count).collect()
    }

    /// Waits until there are enough, or until some have waited for a while.
    async fn gathered(&self) {
        while self.len() == 0 {
            self.has_some.notified().await;
        }
        let enough = async {
            while self.len() < MOST_AT_ONCE {
                self.has_some.notified().await;
            }
        };
        let _ = tokio::time::timeout(GATHERING, enough).await;
    }
}

impl SpanSink for SpanQueue {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn take(&self, spans: Vec<MessageSpan>) {
        let mut waiting = lock(&self.waiting);
        let before = waiting.len();
        let taken = spans.len().min(MOST_WAITING - before);
        self.dropped.fetch_add((spans.len() - taken) as u64, Relaxed);
        waiting.extend(spans.into_iter().take(taken));
        let after = waiting.len();
        drop(waiting);
        if before == 0 || (before < MOST_AT_ONCE && after >= MOST_AT_ONCE) {
            self.has_some.notify_one();
        }
    }
}

/// Pushes spans by the plan in force until the server ends.
pub(super) async fn run(pushes: &Pushes, source: &Source, log: &Logger) {
    let mut plans = pushes.plan.subscribe();
    let mut told = PushFailures::of("traces");
    loop {
        let rest = || {
            told = PushFailures::of("traces");
            lock(&pushes.spans.waiting).clear();
        };
        let Some(plan) = wanted_plan(&mut plans, |plan| plan.options.traces, rest).await else { return };
        tokio::select! {
            changed = plans.changed() => if changed.is_err() {
                return;
            },
            () = push_by(&plan, (&pushes.spans, source, log), &mut told) => {}
        }
    }
}

/// Pushes by one plan, without an end.
async fn push_by(
    plan: &Arc<PushPlan>,
    (queue, source, log): (&SpanQueue, &Source, &Logger),
    told: &mut PushFailures,
) {
    let mut target = None;
    told.begin(&plan.options, log);
    loop {
        queue.gathered().await;
        let spans = Batch { spans: queue.take_some(), queue, is_sent: false };
        told.note(push(plan, &mut target, source, spans).await, log);
    }
}

/// Spans that are being sent. They count as failed unless they have been, also if the plan changes
/// meanwhile.
struct Batch<'a> {
    spans: Vec<MessageSpan>,
    queue: &'a SpanQueue,
    is_sent: bool,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let count = if self.is_sent { &self.queue.sent } else { &self.queue.failed };
        count.fetch_add(self.spans.len() as u64, Relaxed);
    }
}

async fn push(
    plan: &Arc<PushPlan>,
    target: &mut Option<Target>,
    source: &Source,
    mut batch: Batch<'_>,
) -> Result<(), String> {
    let target = Target::kept(target, plan).await?;
    let (plan, source, spans) = (Arc::clone(plan), Arc::clone(source), batch.spans.clone());
    let body = off_thread(move || request(&plan.options, source.page_header().server_id, &spans)).await?;
    target.post("/v1/traces", body).await?;
    batch.is_sent = true;
    Ok(())
}

/// Body of a request with these spans.
fn request(options: &OtlpOptions, server_id: String, spans: &[MessageSpan]) -> Vec<u8> {
    let more = options.resource.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let resource = otlp_resource(server_id, more);
    let resource: Vec<_> = resource
        .iter()
        .map(|(name, value)| json!({ "key": name, "value": { "stringValue": value } }))
        .collect();
    let scope = json!({ "name": "myelin", "version": myelin_stdx::VERSION });
    let spans: Vec<_> = spans.iter().map(shown).collect();
    let scoped = json!([{ "scope": scope, "spans": spans }]);
    let all = json!([{ "resource": { "attributes": resource }, "scopeSpans": scoped }]);
    json!({ "resourceSpans": all }).to_string().into_bytes()
}

/// One span as OTLP has it in JSON: ids as hexadecimal digits, whole numbers of 64 bits as texts.
fn shown(span: &MessageSpan) -> Value {
    let kind = match span.role {
        SpanRole::Within => 1,
        SpanRole::Gives => 4,
        SpanRole::Takes => 5,
    };
    let attributes: Vec<_> = span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let [start, end] = span.times.map(nanoseconds);
    let mut shown = json!({
        "traceId": hex(&span.parent.trace_id),
        "spanId": hex(&span.span_id),
        "parentSpanId": hex(&span.parent.span_id),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": start,
        "endTimeUnixNano": end,
        "attributes": attributes,
    });
    if let Some(error) = &span.error {
        shown["status"] = json!({ "code": 2, "message": error });
    }
    shown
}

fn attribute(name: &str, value: &SpanValue) -> Value {
    let value = match value {
        SpanValue::Text(text) => json!({ "stringValue": text }),
        SpanValue::Number(number) => json!({ "intValue": number.to_string() }),
    };
    json!({ "key": name, "value": value })
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos()).to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_wire::trace_parent::TraceParent;

    fn span(name: &str) -> MessageSpan {
        MessageSpan {
            parent: TraceParent { trace_id: [0xab; 16], span_id: [1; 8] },
            span_id: [2; 8],
            name: name.to_owned(),
            role: SpanRole::Gives,
            times: [1, 2].map(|at| SystemTime::UNIX_EPOCH + Duration::from_nanos(at)),
            attributes: vec![("a", SpanValue::Text("x\"\n".into())), ("b", SpanValue::Number(u64::MAX))],
            error: None,
        }
    }

    #[test]
    fn a_span_is_shown_as_the_specification_has_it() {
        let mut expected = json!({
            "traceId": "ab".repeat(16), "spanId": "02".repeat(8), "parentSpanId": "01".repeat(8),
            "name": "n", "kind": 4, "startTimeUnixNano": "1", "endTimeUnixNano": "2",
            "attributes": [
                { "key": "a", "value": { "stringValue": "x\"\n" } },
                { "key": "b", "value": { "intValue": "18446744073709551615" } },
            ],
        });
        assert_eq!(shown(&span("n")), expected);
        expected["status"] = json!({ "code": 2, "message": "why" });
        assert_eq!(shown(&MessageSpan { error: Some("why".into()), ..span("n") }), expected);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_the_oldest_go_first() {
        let queue = SpanQueue::default();
        queue.take((0..MOST_WAITING - 1).map(|number| span(&number.to_string())).collect());
        assert_eq!(queue.counts(), [0; 3]);
        queue.take(vec![span("last"), span("lost"), span("lost")]);
        queue.take(vec![span("lost")]);
        assert_eq!((queue.counts(), queue.len()), ([0, 0, 3], MOST_WAITING));
        let first = queue.take_some();
        assert_eq!((first.len(), &*first[0].name), (MOST_AT_ONCE, "0"));
        let mut rest = Vec::new();
        while queue.len() > 0 {
            rest.extend(queue.take_some());
        }
        assert_eq!(rest.last().map(|span| &*span.name), Some("last"));
    }

    #[test]
    fn a_batch_that_is_given_up_has_failed() {
        let queue = SpanQueue::default();
        drop(Batch { spans: vec![span("a")], queue: &queue, is_sent: false });
        drop(Batch { spans: vec![span("a"), span("b")], queue: &queue, is_sent: true });
        assert_eq!(queue.counts(), [2, 1, 0]);
    }
}

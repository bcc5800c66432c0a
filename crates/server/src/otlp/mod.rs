//! Metrics are pushed to a collector, by OTLP over HTTP, where the configuration names one; and
//! spans of messages that others trace ([`spans`]), where it wants that.
//!
//! Owns when that is done and what becomes of failures: they are counted, and told in the log when
//! they begin, change and end. Nothing is kept for later: the next push has newer figures. One push
//! is on its way at a time, and of its requests one is in memory. Never touches a shard: figures
//! are read as the pages read them, on threads of the control runtime that may wait.

mod client;
mod spans;

use crate::logging::Logger;
use crate::supervise::{self, SupervisedPart};
use client::Target;
use myelin_conf::options::OtlpOptions;
use myelin_monitor::{MetricsConfig, OtlpRequests, SnapshotSource, otlp_requests};
use spans::SpanQueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Source of all figures.
type Source = Arc<dyn SnapshotSource + Send + Sync>;

/// Configuration of pushes.
#[derive(Debug)]
pub(crate) struct PushPlan {
    pub(crate) options: OtlpOptions,
    pub(crate) metrics: MetricsConfig,
}

/// Plan in force and counts of pushes since the start.
pub(crate) struct Pushes {
    plan: watch::Sender<Option<Arc<PushPlan>>>,
    succeeded: AtomicU64,
    failed: AtomicU64,
    spans: Arc<SpanQueue>,
}

impl Pushes {
    /// No plan pushes nothing.
    pub(crate) fn new(plan: Option<PushPlan>) -> Self {
        let plan = watch::Sender::new(plan.map(Arc::new));
        Self { plan, succeeded: AtomicU64::new(0), failed: AtomicU64::new(0), spans: Arc::default() }
    }

    /// Queue of the spans of messages.
    pub(crate) fn spans(&self) -> Arc<SpanQueue> {
        Arc::clone(&self.spans)
    }

    /// Whether spans are to be made.
    pub(crate) fn wants_spans(&self) -> bool {
        self.plan.borrow().as_ref().is_some_and(|plan| plan.options.traces)
    }

    /// Spans that the collector took, that it did not take, and that found no room, if there is a
    /// plan for them.
    pub(crate) fn span_counts(&self) -> Option<[u64; 3]> {
        self.wants_spans().then(|| self.spans.counts())
    }

    /// Follows another plan from now on. A push that is on its way is given up.
    pub(crate) fn follow(&self, plan: Option<PushPlan>) {
        let plan = plan.map(Arc::new);
        self.plan.send_if_modified(|current| {
            let is_idle = current.is_none() && plan.is_none();
            *current = plan;
            !is_idle
        });
    }

    /// Pushes that succeeded, and that failed, if there is a plan.
    pub(crate) fn counts(&self) -> Option<[u64; 2]> {
        let has_plan = self.plan.borrow().is_some();
        has_plan.then(|| [&self.succeeded, &self.failed].map(|count| count.load(Relaxed)))
    }
}

/// Begins to push on the runtime that the caller runs on.
pub(crate) fn start(pushes: &Arc<Pushes>, source: Source, log: &Arc<Logger>) {
    let of_spans = (Arc::clone(pushes), Arc::clone(&source), Arc::clone(log));
    supervise::spawn_guarding(async move {
        let (pushes, source, log) = of_spans;
        supervise::persist(SupervisedPart::OtlpSpans, || spans::run(&pushes, &source, &log)).await;
    });
    let (pushes, log) = (Arc::clone(pushes), Arc::clone(log));
    supervise::spawn_guarding(async move {
        supervise::persist(SupervisedPart::Otlp, || run(&pushes, &source, &log)).await;
    });
}

/// The plan in force, once there is one that is wanted; `rest` is called whenever there is none.
/// `None`: the server ends.
async fn wanted_plan(
    plans: &mut watch::Receiver<Option<Arc<PushPlan>>>,
    is_wanted: impl Fn(&PushPlan) -> bool,
    mut rest: impl FnMut(),
) -> Option<Arc<PushPlan>> {
    loop {
        let plan = plans.borrow_and_update().clone().filter(|plan| is_wanted(plan));
        if plan.is_some() {
            return plan;
        }
        rest();
        plans.changed().await.ok()?;
    }
}

/// Pushes by the plan in force until the server ends.
async fn run(pushes: &Pushes, source: &Source, log: &Logger) {
    let mut plans = pushes.plan.subscribe();
    let (mut told, mut next) = (PushFailures::of("metrics"), None);
    loop {
        let rest = || (told, next) = (PushFailures::of("metrics"), None);
        let Some(plan) = wanted_plan(&mut plans, |_| true, rest).await else { return };
        tokio::select! {
            changed = plans.changed() => if changed.is_err() {
                return;
            },
            () = push_by(&plan, (pushes, source, log), &mut told, &mut next) => {}
        }
    }
}

/// Pushes by one plan, without an end. `next` is when, across changes of plans.
async fn push_by(
    plan: &Arc<PushPlan>,
    (pushes, source, log): (&Pushes, &Source, &Logger),
    told: &mut PushFailures,
    next: &mut Option<Instant>,
) {
    let mut target = None;
    told.begin(&plan.options, log);
    loop {
        let due = Instant::now() + plan.options.interval;
        let due = next.map_or(due, |next| next.min(due));
        *next = Some(due);
        sleep_until(due).await;
        *next = None;
        let outcome = push(plan, &mut target, source).await;
        let count = if outcome.is_ok() { &pushes.succeeded } else { &pushes.failed };
        count.fetch_add(1, Relaxed);
        told.note(outcome, log);
    }
}

impl Target {
    /// The target that was made before. Without one this makes it: the files that it needs may be
    /// there by now.
    async fn kept<'a>(kept: &'a mut Option<Self>, plan: &Arc<PushPlan>) -> Result<&'a Self, String> {
        if kept.is_none() {
            let plan = Arc::clone(plan);
            *kept = Some(off_thread(move || Self::new(&plan.options)).await??);
        }
        kept.as_ref().ok_or_else(|| "no target".to_owned())
    }
}

/// Sends all figures of this moment, request by request.
async fn push(plan: &Arc<PushPlan>, target: &mut Option<Target>, source: &Source) -> Result<(), String> {
    let target = Target::kept(target, plan).await?;
    let (plan, source) = (Arc::clone(plan), Arc::clone(source));
    let read = move || {
        let resource = plan.options.resource.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        otlp_requests(plan.metrics.clone(), resource, &*source)
    };
    let mut requests = off_thread(read).await?;
    loop {
        let make = move || (requests.next(), requests);
        let (body, rest): (_, OtlpRequests) = off_thread(make).await?;
        let Some(body) = body else { return Ok(()) };
        target.post("/v1/metrics", body).await?;
        requests = rest;
    }
}

/// Does what may take milliseconds where nobody waits for it.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let done = supervise::blocking(SupervisedPart::Otlp, work).await;
    done.ok_or_else(|| "it ended in a panic".to_owned())
}

/// Failures as the log was told them: the same one is told once.
#[derive(Debug)]
struct PushFailures {
    /// Kind of what is pushed: `metrics` or `traces`, as the log and the path have it.
    what: &'static str,
    url: String,
    /// Reason of the last push, if it failed.
    failure: Option<String>,
    /// Failures since the last success.
    failures: u64,
}

impl PushFailures {
    fn of(what: &'static str) -> Self {
        Self { what, url: String::new(), failure: None, failures: 0 }
    }

    /// Begins anew if this is another URL.
    fn begin(&mut self, options: &OtlpOptions, log: &Logger) {
        let what = self.what;
        let url = format!("{}/v1/{what}", options.endpoint.to_string().trim_end_matches('/'));
        if self.url != url {
            log.info(format_args!("OTLP: {what} are pushed to {url}"));
            *self = Self { url, ..Self::of(what) };
        }
    }

    fn note(&mut self, outcome: Result<(), String>, log: &Logger) {
        let (what, url) = (self.what, &self.url);
        match outcome {
            Err(reason) => {
                self.failures += 1;
                if self.failure.as_ref() != Some(&reason) {
                    log.warn(format_args!("OTLP: {what} could not be pushed to {url}: {reason}"));
                    self.failure = Some(reason);
                }
            }
            Ok(()) => {
                if self.failure.take().is_some() {
                    let failures = std::mem::take(&mut self.failures);
                    let s = if failures == 1 { "" } else { "s" };
                    log.info(format_args!(
                        "OTLP: {what} are pushed to {url} again, after {failures} failure{s}"
                    ));
                }
            }
        }
    }
}

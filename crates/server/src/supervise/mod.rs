//! Threads and tasks: the one place that starts them, and what becomes of the server when one of
//! them panics.
//!
//! No thread dies alone. Each has a row in the [table](table): its policy, and what a panic costs.
//! Everywhere a panic is caught it is counted ([`panics`], `/debug/vars`) and logged with its
//! place, its cost and what happens now. A panic that reaches the top of a thread ends the process,
//! with a message: threads that outlive panics guard each piece of work.
//!
//! Nothing else in this crate starts a thread or a task; `tests/server/panics.rs` reads the sources
//! to see that, and makes each row of the table panic in a running server. For that, builds with
//! debug assertions look at `MYELIN_TEST_PANIC`: it names a folder, and the next guard that is
//! passed by the part whose name a file there has takes the file and panics. Optimised builds do
//! not know the variable.
//!
//! Perf: a guard that catches nothing costs no instruction but a call; guards stand around batches,
//! ticks and polls of a task, never around a message.

mod table;

pub(crate) use table::{JOURNAL_FAILED, Policy, SupervisedPart};

use crate::logging::Logger;
use jiff::Timestamp;
use myelin_monitor::PanicSnapshot;
use myelin_stdx::sync::lock;
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::thread::{self, JoinHandle as Thread, ScopedJoinHandle};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

/// The pause before a task begins anew: one that panics at once, always, must not take a core.
const PAUSE: Duration = Duration::from_millis(100);

/// Panics caught since the start.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Panics that were told last, the newest at the end.
static RECENT: Mutex<VecDeque<PanicSnapshot>> = Mutex::new(VecDeque::new());

/// How many of them are kept.
const MOST_RECENT: usize = 16;

/// Most characters of each text of theirs.
const MOST_TEXT: usize = 512;

/// Where panics are told. Before there is one, standard error alone hears of them.
static LOG: OnceLock<Arc<Logger>> = OnceLock::new();

thread_local! {
    /// Where this thread's last panic was, for whoever catches it.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Payload of a panic.
pub(crate) type Payload = dyn Any + Send;

/// Tells panics to `log` from now on, for the rest of the process's life.
pub(crate) fn report_to(log: &Arc<Logger>) {
    if LOG.set(Arc::clone(log)).is_err() {
        return;
    }
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
        // At the very end of a thread there is no such variable any more.
        let _ = PLACE.try_with(|last| *last.borrow_mut() = place);
        usual(info);
    }));
}

/// How many panics were caught since the start.
pub(crate) fn panics() -> u64 {
    PANICS.load(Relaxed)
}

/// The panics that were caught last, the newest at the end.
pub(crate) fn recent_panics() -> Vec<PanicSnapshot> {
    lock(&RECENT).iter().cloned().collect()
}

/// Does one piece of the part's work. `None`: it panicked, which is counted and logged.
pub(crate) fn guard<T>(part: SupervisedPart, work: impl FnOnce() -> T) -> Option<T> {
    let working = AssertUnwindSafe(|| {
        point(part);
        work()
    });
    catch_unwind(working).map_err(|payload| report(part, &*payload)).ok()
}

/// Polls a future until it is done or panics. `None`: it panicked, which is counted and logged; it
/// is not polled again then.
pub(crate) fn guarded<'a, F: Future>(
    part: SupervisedPart,
    mut future: Pin<&'a mut F>,
) -> impl Future<Output = Option<F::Output>> + use<'a, F> {
    poll_fn(move |cx| {
        let polling = AssertUnwindSafe(|| {
            point(part);
            future.as_mut().poll(cx)
        });
        match catch_unwind(polling) {
            Ok(poll) => poll.map(Some),
            Err(payload) => {
                report(part, &*payload);
                Poll::Ready(None)
            }
        }
    })
}

/// Runs a task to its end, and begins it anew, a moment later, as often as it panics.
pub(crate) async fn persist<F: Future>(part: SupervisedPart, mut begin: impl FnMut() -> F) -> F::Output {
    loop {
        let task = pin!(begin());
        if let Some(output) = guarded(part, task).await {
            return output;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Does what the process cannot do without: a panic ends it.
pub(crate) fn or_end_process<T>(part: SupervisedPart, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let rule = part.rule();
        let code = match rule.policy {
            Policy::EndsProcess(code) => code,
            // It guards its work, and this was beside it: nobody would take up what is left.
            _ => table::PANICKED,
        };
        report_panic(format_args!("in {}", rule.name), &*payload, format_args!("the server ends"));
        if let Some(log) = LOG.get() {
            let (name, cost) = (rule.name, rule.cost);
            log.fatal(format_args!("{name} has ended in a panic, and {cost}: exit code {code}"));
        }
        std::process::exit(code)
    })
}

/// Starts the part's thread.
///
/// # Errors
/// The system gives none.
pub(crate) fn thread(part: SupervisedPart, body: impl FnOnce() + Send + 'static) -> io::Result<Thread<()>> {
    named(part, part.rule().name.to_owned(), body)
}

/// Starts one of several threads of the part.
///
/// # Errors
/// The system gives none.
pub(crate) fn numbered(
    part: SupervisedPart,
    number: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<Thread<()>> {
    named(part, format!("{}-{number}", part.rule().name), body)
}

fn named(part: SupervisedPart, name: String, body: impl FnOnce() + Send + 'static) -> io::Result<Thread<()>> {
    thread::Builder::new().name(name).spawn(move || or_end_process(part, body))
}

/// Does something on a thread of its own and waits for it; a panic there goes on here.
pub(crate) fn elsewhere<T: Send>(part: SupervisedPart, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let working = move || {
            let done = catch_unwind(AssertUnwindSafe(|| {
                point(part);
                work()
            }));
            done.inspect_err(|payload| report(part, &**payload))
        };
        let done = thread::Builder::new().name(part.rule().name.to_owned()).spawn_scoped(scope, working);
        let done = done.map(ScopedJoinHandle::join).unwrap_or_else(|error| Err(Box::new(error.to_string())));
        done.and_then(|done| done).unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    })
}

/// Starts a task on the runtime that the caller runs on. `None` comes of it after a panic.
pub(crate) fn spawn<F>(part: SupervisedPart, future: F) -> JoinHandle<Option<F::Output>>
where
    F: Future<Output: Send> + Send + 'static,
{
    spawn_on(&Handle::current(), part, future)
}

/// Starts a task on this runtime.
pub(crate) fn spawn_on<F>(runtime: &Handle, part: SupervisedPart, future: F) -> JoinHandle<Option<F::Output>>
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut future = Box::pin(future);
    runtime.spawn(async move { guarded(part, future.as_mut()).await })
}

/// Starts a task on this runtime that guards itself: by [`persist`], or because something is to be
/// done after a panic.
pub(crate) fn spawn_guarding_on(
    runtime: &Handle,
    future: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    runtime.spawn(future)
}

/// Starts a task that guards itself on the runtime that the caller runs on.
pub(crate) fn spawn_guarding(future: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    spawn_guarding_on(&Handle::current(), future)
}

/// Starts a task that guards itself on the caller's shard.
///
/// Perf: thousands of connections wait, and each would be larger by another guard.
pub(crate) fn spawn_guarding_local(future: impl Future<Output = ()> + 'static) {
    tokio::task::spawn_local(future);
}

/// Does something that may wait or compute for long on a thread of this runtime that is for that.
/// `None` comes of it after a panic.
pub(crate) fn blocking_on<T: Send + 'static>(
    runtime: &Handle,
    part: SupervisedPart,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<Option<T>> {
    runtime.spawn_blocking(move || guard(part, work))
}

/// Does something that may wait or compute for long on a thread that is for that, and waits for it.
/// `None`: it panicked, or the runtime ends.
pub(crate) async fn blocking<T: Send + 'static>(
    part: SupervisedPart,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    blocking_on(&Handle::current(), part, work).await.ok().flatten()
}

/// Tasks that end with their owner.
#[derive(Debug)]
pub(crate) struct Tasks {
    part: SupervisedPart,
    tasks: JoinSet<Option<()>>,
}

impl Tasks {
    /// None so far.
    pub(crate) fn new(part: SupervisedPart) -> Self {
        Self { part, tasks: JoinSet::new() }
    }

    /// Starts one.
    pub(crate) fn spawn(&mut self, future: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let (part, mut future) = (self.part, Box::pin(future));
        self.tasks.spawn(async move { guarded(part, future.as_mut()).await })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until one of them has ended, or forgets those that have: `None` when there is none.
    pub(crate) async fn ended(&mut self) -> Option<()> {
        self.tasks.join_next().await.map(drop)
    }
}

/// Counts and logs a panic that was caught.
fn report(part: SupervisedPart, payload: &Payload) {
    let rule = part.rule();
    let now = match rule.policy {
        Policy::GoesOn => "it goes on",
        Policy::BeginsAnew => "it begins anew",
        Policy::Ends => "all else goes on",
        Policy::EndsProcess(_) => "the server ends",
    };
    report_panic(format_args!("in {}", rule.name), payload, format_args!("{}; {now}", rule.cost));
}

/// Counts and logs a panic that others have caught: where, what it carried, what it costs.
pub(crate) fn report_panic(at: std::fmt::Arguments<'_>, payload: &Payload, cost: std::fmt::Arguments<'_>) {
    let count = PANICS.fetch_add(1, Relaxed) + 1;
    let place = PLACE.try_with(RefCell::take).ok().flatten();
    let place = place.unwrap_or_else(|| "an unknown place".to_owned());
    let words = words(payload);
    remember([at.to_string().trim_start_matches("in "), &place, words, &cost.to_string()]);
    let Some(log) = LOG.get() else { return };
    log.error(format_args!(
        "Panic {at} (thread {}, {place}): {words}. Now: {cost}. Panics since the start: {count}",
        name()
    ));
}

/// Keeps what a panic is told by, for whoever asks later.
fn remember(texts: [&str; 4]) {
    let [of, place, says, cost] = texts.map(|text| text.chars().take(MOST_TEXT).collect());
    let mut recent = lock(&RECENT);
    if recent.len() == MOST_RECENT {
        recent.pop_front();
    }
    recent.push_back(PanicSnapshot { at: Timestamp::now().to_string(), of, place, says, cost });
}

/// Text of a panic.
fn words(payload: &Payload) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("(no words)")
}

fn name() -> String {
    thread::current().name().unwrap_or("without a name").to_owned()
}

/// Panics here if a file in the folder that `MYELIN_TEST_PANIC` names asks the part to.
#[cfg(debug_assertions)]
pub(crate) fn point(part: SupervisedPart) {
    static FOLDER: OnceLock<Option<std::path::PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| std::env::var_os("MYELIN_TEST_PANIC").map(Into::into));
    if let Some(folder) = folder
        && std::fs::remove_file(folder.join(part.rule().name)).is_ok()
    {
        panic!("a test asked for it");
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) const fn point(_: SupervisedPart) {}

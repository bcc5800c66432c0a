//! The control runtime: one thread for its tasks, and some that come and go for what blocks.
//!
//! Tokio's runtime for many threads would do the same with one, and bring libm along (one call of
//! `pow`, of which 490 KiB were resident in every server) and a scheduler that steals from nobody.

use crate::process;
use crate::shard::LOOKUPS;
use crate::supervise::{self, SupervisedPart};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::thread::JoinHandle;
use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::sync::oneshot;

/// Threads for what may take long (removals, files), beside one per core for bcrypt and one for
/// handshakes.
const BLOCKING_THREADS: usize = 4;

/// The running control runtime. When it is dropped its tasks are, too.
#[derive(Debug)]
pub(crate) struct Control {
    handle: Handle,
    /// The thread with what ends it; `None` at the very end.
    thread: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Control {
    /// # Errors
    /// When the operating system refuses.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(2 * process::cores() + LOOKUPS + BLOCKING_THREADS)
            .thread_name("control")
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let thread = supervise::thread(SupervisedPart::Control, move || drive(&runtime, ended))?;
        Ok(Self { handle, thread: Some((end, thread)) })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Has tasks of this thread started on the runtime, while what is returned lives.
    pub(super) fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Runs a future on the caller's thread; what it waits for is told by the runtime's.
    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let Some((end, thread)) = self.thread.take() else { return };
        drop(end);
        // What it panicked with ended the process.
        let _ = thread.join();
    }
}

/// Runs the runtime's tasks until `ended` is told.
fn drive(runtime: &Runtime, ended: oneshot::Receiver<()>) {
    let mut ended = pin!(ended);
    runtime.block_on(std::future::poll_fn(|cx| {
        supervise::point(SupervisedPart::Control);
        ended.as_mut().poll(cx).map(drop)
    }));
}

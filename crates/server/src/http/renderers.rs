//! Where pages are rendered: a few threads of their own that step back when shards have work.
//!
//! A `/connz` of ten thousand connections takes milliseconds of computing. On a machine whose cores
//! are all busy, messages would wait for them; with a low priority, the page waits instead. Probes
//! have threads that do not step back: whoever asks them ends a server that does not answer.

use std::io;

use crate::process;
use crate::supervise::{self, SupervisedPart};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

/// Pages that are rendered at once.
const MAX_RENDERINGS: usize = 2;

/// Threads on which pages are rendered.
#[derive(Debug)]
pub(super) struct Renderers {
    permits: Semaphore,
    /// Only its threads for blocking work are used: they come when they are needed, and go. `None`
    /// at the end.
    threads: Option<Runtime>,
}

impl Renderers {
    /// Threads of low priority.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(super) fn patient() -> io::Result<Self> {
        Self::new(process::step_back)
    }

    /// Threads of the priority that all have.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(super) fn urgent() -> io::Result<Self> {
        Self::new(|| {})
    }

    fn new(begin: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        let threads = Builder::new_current_thread()
            .max_blocking_threads(MAX_RENDERINGS)
            .thread_name("pages")
            .on_thread_start(begin)
            .build()?;
        Ok(Self { permits: Semaphore::new(MAX_RENDERINGS), threads: Some(threads) })
    }

    /// Runs `render` and returns what it makes; nothing if it panics.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        render: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let _place = self.permits.acquire().await.ok()?;
        supervise::blocking_on(self.threads.as_ref()?.handle(), SupervisedPart::Page, render)
            .await
            .ok()
            .flatten()
    }
}

impl Drop for Renderers {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

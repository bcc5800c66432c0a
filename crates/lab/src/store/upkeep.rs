//! Upkeep of streams: their jobs run on one thread, as an embedder would have it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use myelin_loadgen::error::BenchError;
use myelin_store::{Done, Job, Stream, Timestamp};

type Ordered = (Job, Sender<Done>);

/// The thread that runs jobs, until this value is gone.
#[derive(Debug)]
pub(crate) struct Worker {
    queue: Option<Sender<Ordered>>,
    thread: Option<JoinHandle<()>>,
}

/// The upkeep of one stream.
#[derive(Debug)]
pub(crate) struct Upkeep {
    queue: Sender<Ordered>,
    done: (Sender<Done>, Receiver<Done>),
    is_out: bool,
}

impl Worker {
    pub(crate) fn start() -> Self {
        let (queue, orders) = channel::<Ordered>();
        let thread = std::thread::spawn(move || {
            for (job, done) in orders {
                // A stream that is gone needs no upkeep.
                let _ = done.send(job.run());
            }
        });
        Self { queue: Some(queue), thread: Some(thread) }
    }

    /// Upkeep of one more stream. Must not outlive the worker.
    pub(crate) fn upkeep(&self) -> Upkeep {
        let queue = self.queue.clone().expect("there until the worker is gone");
        Upkeep { queue, done: channel(), is_out: false }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Upkeep {
    /// Takes over what is done, and orders what is due. Waits for nothing.
    pub(crate) fn step(&mut self, stream: &mut Stream, now: Timestamp) -> Result<(), BenchError> {
        if self.is_out {
            let Ok(done) = self.done.1.try_recv() else { return Ok(()) };
            self.take(stream, done, now)?;
        }
        if let Some(job) = stream.next_job(now) {
            self.is_out = true;
            let ordered = self.queue.send((job, self.done.0.clone()));
            ordered.map_err(|_| BenchError::Store("the thread for jobs is gone".into()))?;
        }
        Ok(())
    }

    /// Works until nothing is due.
    pub(crate) fn settle(&mut self, stream: &mut Stream, now: Timestamp) -> Result<(), BenchError> {
        self.step(stream, now)?;
        while self.is_out {
            let done = self.done.1.recv();
            let done = done.map_err(|_| BenchError::Store("the thread for jobs is gone".into()))?;
            self.take(stream, done, now)?;
            self.step(stream, now)?;
        }
        Ok(())
    }

    fn take(&mut self, stream: &mut Stream, done: Done, now: Timestamp) -> Result<(), BenchError> {
        self.is_out = false;
        stream.finish(done, now).map_err(|error| BenchError::Store(format!("upkeep: {error}")))
    }
}

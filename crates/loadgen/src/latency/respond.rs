//! The other side of request/reply: services that send every payload back.
//!
//! Beside the driver in this process, or alone in one on another host: round trips are measured by
//! the driver's clock only, so nothing has to be synchronised. Measures nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};

use crate::error::BenchError;
use crate::pubsub::request::{self, ServiceAnswer};
use crate::target_server::Target;

/// Services that send the payload of every request back.
pub struct Responders;

impl Responders {
    /// Does `work` while this many services answer on a subject, each with a connection and a
    /// thread.
    pub fn beside<T>(
        server: &Target,
        subject: &str,
        count: usize,
        work: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let stop = AtomicBool::new(false);
        let (tell_ready, is_ready) = mpsc::channel();
        let serve = |tell_ready: mpsc::Sender<()>| {
            let ready = move || tell_ready.send(()).unwrap_or(());
            request::serve(server.connect()?, subject, &ServiceAnswer::Echo, ready, || {
                stop.load(Ordering::Relaxed)
            })
        };
        thread::scope(|scope| {
            let serve = &serve;
            let service = |tell_ready: mpsc::Sender<()>| scope.spawn(move || serve(tell_ready));
            let services: Vec<_> = (0..count).map(|_| service(tell_ready.clone())).collect();
            // What is left of the channel is the services': it ends when one of them fails before
            // it is ready.
            drop(tell_ready);
            let outcome = match is_ready.iter().take(count).count() == count {
                true => work(),
                false => Err(BenchError::Aborted),
            };
            stop.store(true, Ordering::Relaxed);
            let served: Result<Vec<u64>, BenchError> = services.into_iter().map(joined).collect();
            match (outcome, served) {
                (Err(BenchError::Aborted), Err(error)) => Err(error),
                (outcome, _) => outcome,
            }
        })
    }

    /// Answers until the server goes away, which is an error; says so when it can begin.
    pub fn alone(server: &Target, subject: &str, count: usize) -> Result<(), BenchError> {
        let ready = || println!("Waiting for requests on {subject}");
        let serve =
            || request::serve(server.connect()?, subject, &ServiceAnswer::Echo, ready, || false).map(drop);
        thread::scope(|scope| {
            let services: Vec<_> = (0..count).map(|_| scope.spawn(serve)).collect();
            services.into_iter().try_for_each(joined)
        })
    }
}

fn joined<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

//! A shard on its own thread, with services instead of clients.

use super::*;
use myelin_auth::AuthConfig;
use myelin_broker::{Log, ServiceBatch, ServiceShard, Settings};
use myelin_stdx::entropy::OsEntropy;
use myelin_wire::info::Info;
use std::fmt::Arguments;
use std::sync::Weak;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};

struct NoLog;

impl Log for NoLog {
    fn enabled(&self, _: Level) -> bool {
        false
    }

    fn write(&self, _: Level, _: Arguments<'_>) {}
}

/// Always has more to do, until it is told that this is enough.
struct Busy {
    itself: Weak<Busy>,
    is_enough: AtomicBool,
    has_begun: AtomicBool,
    tell: Sender<&'static str>,
}

impl Service for Busy {
    fn serve(&self, _: &mut ServiceBatch, shard: &mut ServiceShard) {
        if !self.has_begun.swap(true, Relaxed) {
            let _ = self.tell.send("begun");
        }
        if self.is_enough.load(Relaxed) {
            let _ = self.tell.send("done");
        } else if let Some(itself) = self.itself.upgrade() {
            shard.wake(&(itself as Arc<dyn Service>));
        }
    }
}

/// Ends another service's work.
struct Enough(Arc<Busy>);

impl Service for Enough {
    fn serve(&self, _: &mut ServiceBatch, _: &mut ServiceShard) {
        self.0.is_enough.store(true, Relaxed);
    }
}

#[test]
fn services_that_always_have_more_to_do_leave_time_for_others() {
    let broker = Broker::new(
        Settings::default(),
        AuthConfig::open(),
        &[],
        None,
        Info::default(),
        Arc::new(OsEntropy),
        Arc::new(NoLog),
    );
    let control = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let permits = Permits::new(1);
    let shard =
        ShardThread::start(0, &broker.unwrap(), control.handle(), &permits, &ClientTls::new(false)).unwrap();
    let (tell, told) = channel();
    let busy = Arc::new_cyclic(|itself| Busy {
        itself: itself.clone(),
        is_enough: false.into(),
        has_begun: false.into(),
        tell,
    });
    let deadline = Duration::from_secs(20);
    shard.mailbox.post(Mail::Serve(Arc::clone(&busy) as Arc<dyn Service>));
    assert_eq!(told.recv_timeout(deadline), Ok("begun"));
    shard.mailbox.post(Mail::Serve(Arc::new(Enough(busy))));
    assert_eq!(told.recv_timeout(deadline), Ok("done"));
    shard.mailbox.post(Mail::Stop);
    shard.thread.join().unwrap();
}

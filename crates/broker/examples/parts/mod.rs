//! Parts that the measuring examples share: a broker whose clients' sockets take everything, and a
//! client.

use myelin_auth::AuthConfig;
use myelin_broker::{Broker, Conn, Endpoint, Level, Log, Session, Settings, Shard, Transport};
use myelin_stdx::entropy::OsEntropy;
use myelin_wire::info::Info;
use std::fmt::Arguments;
use std::io::{IoSlice, Result};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

struct Void;

impl Transport for Void {
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> Result<usize> {
        Ok(bufs.iter().map(|buf| buf.len()).sum())
    }

    fn wait_writable(&self, _: &Arc<Conn>) {}

    fn kick(&self, _: &Arc<Conn>) {}
}

struct Silence;

impl Log for Silence {
    fn enabled(&self, _: Level) -> bool {
        false
    }

    fn write(&self, _: Level, _: Arguments<'_>) {}
}

pub(crate) fn broker() -> Arc<Broker> {
    let (settings, info) = (Settings::default(), Info::default());
    Broker::new(settings, AuthConfig::open(), &[], None, info, Arc::new(OsEntropy), Arc::new(Silence))
        .expect("there is one account")
}

/// A client that has connected and said this.
pub(crate) fn client(broker: &Arc<Broker>, shard: &mut Shard, says: &str) -> Session {
    let endpoint = Endpoint { peer: ([127, 0, 0, 1], 4).into(), start: SystemTime::now() };
    let conn = broker.connect(endpoint, Box::new(Void));
    let (mut session, _) = Session::open(shard, conn, Instant::now());
    let hello = format!("CONNECT {{\"verbose\":false,\"pedantic\":false}}\r\n{says}");
    session.ingest(shard, hello.as_bytes(), None, Instant::now());
    shard.flush();
    session
}

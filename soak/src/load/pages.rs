//! Whoever watches: monitoring pages, and the same over the system account.

use super::{Load, Loads};
use crate::Error;
use crate::world::World;
use async_nats::Client;
use bytes::Bytes;
use futures_util::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "pages";
const EVERY: Duration = Duration::from_millis(200);

const PAGES: [&str; 14] = [
    "/varz",
    "/connz?subs=detail&auth=1",
    "/connz?state=closed&sort=stop",
    "/connz?state=any&sort=bytes_to&limit=10",
    "/subsz?subs=1&limit=50",
    "/subsz?test=visit.1",
    "/accountz?acc=A",
    "/accstatz?unused=1",
    "/jsz?accounts=1&streams=1&consumers=1&config=1",
    "/jsz?acc=A&limit=3",
    "/healthz?js-server-only=true",
    "/ipqueuesz",
    "/stacksz",
    "/debug/vars",
];

const QUESTIONS: [&str; 5] = [
    "$SYS.REQ.SERVER.PING.STATSZ",
    "$SYS.REQ.SERVER.PING.CONNZ",
    "$SYS.REQ.SERVER.PING.JSZ",
    "$SYS.REQ.ACCOUNT.A.SUBSZ",
    "$SYS.REQ.ACCOUNT.PING.STATZ",
];

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    if loads.wants(NAME) {
        let world = Arc::clone(loads.world());
        let client = world.client_as("sys", NAME).await?;
        let mut events = client.subscribe("$SYS.>").await?;
        tokio::spawn(async move { while events.next().await.is_some() {} });
        loads.add(NAME, EVERY, Pages { world, client, turns: 0 });
    }
    Ok(())
}

struct Pages {
    world: Arc<World>,
    client: Client,
    turns: usize,
}

impl Load for Pages {
    async fn turn(&mut self) -> Result<(), Error> {
        let page = PAGES[self.turns % PAGES.len()];
        let question = QUESTIONS[self.turns % QUESTIONS.len()];
        self.turns += 1;
        if self.world.page_bytes(page).await?.is_empty() {
            return Err(format!("nothing on {page}").into());
        }
        self.client.request(question, Bytes::new()).await.map_err(|e| format!("{question}: {e}"))?;
        Ok(())
    }
}

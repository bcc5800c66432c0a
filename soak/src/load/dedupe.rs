//! Message ids with a short window, in a stream that keeps little.

use super::{Load, Loads};
use crate::Error;
use crate::world::{World, create_stream};
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(100);
const MESSAGES: u64 = 50;

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    for (name, storage) in [("dedupe", "file"), ("dedupe-memory", "memory")] {
        if loads.wants(name) {
            let client = loads.world().client(name).await?;
            let config = format!(
                "\"max_msgs\":1000,\"max_bytes\":8388608,\"duplicate_window\":1000000000,\"storage\":\"{storage}\""
            );
            create_stream(&client, name, &config).await?;
            loads.add(name, EVERY, Dedupe { world: Arc::clone(loads.world()), client, name });
        }
    }
    Ok(())
}

struct Dedupe {
    world: Arc<World>,
    client: Client,
    name: &'static str,
}

impl Dedupe {
    fn headers(id: u64) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("message-{id}").as_str());
        headers
    }
}

impl Load for Dedupe {
    async fn turn(&mut self) -> Result<(), Error> {
        let subject = format!("{}.x", self.name);
        let mut id = 0;
        for _ in 0..MESSAGES {
            id = self.world.number();
            let body = Bytes::from_static(&[b'x'; 200]);
            self.client.publish_with_headers(subject.clone(), Self::headers(id), body).await?;
        }
        let answer = self.client.request_with_headers(subject, Self::headers(id), Bytes::new()).await?;
        match answer.payload.windows(11).any(|bytes| bytes == b"\"duplicate\"") {
            true => Ok(()),
            false => Err("a message that came twice was not recognised".into()),
        }
    }
}

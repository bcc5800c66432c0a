//! Clients over TLS and over WebSocket that come and go, and handshakes that nobody ends.

use super::raw::Raw;
use super::{Load, Loads, next};
use crate::Error;
use crate::world::{World, options};
use async_nats::Client;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "secure";
const EVERY: Duration = Duration::from_millis(500);
/// The head of a record of a handshake, which promises more than comes.
const HALF_A_HELLO: &str = "\u{16}\u{3}\u{1}\u{1}\u{0}\u{1}\u{0}";

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    if loads.wants(NAME) {
        loads.add(NAME, EVERY, Secure { world: Arc::clone(loads.world()) });
    }
    Ok(())
}

struct Secure {
    world: Arc<World>,
}

impl Secure {
    async fn over_tls(&self) -> Result<Client, Error> {
        let options = options("a").add_root_certificates(self.world.authority()).require_tls(true);
        Ok(options.connect(format!("tls://localhost:{}", self.world.ports().clients.port())).await?)
    }

    async fn over_websocket(&self) -> Result<Client, Error> {
        Ok(options("a").connect(format!("ws://{}", self.world.ports().websocket)).await?)
    }

    async fn use_and_leave(&self, client: Client) -> Result<(), Error> {
        let subject = format!("secure.{}", self.world.number());
        let mut heard = client.subscribe(subject.clone()).await?;
        for _ in 0..20 {
            client.publish(subject.clone(), Bytes::from_static(&[b'x'; 5000])).await?;
        }
        for _ in 0..20 {
            next(&mut heard).await?;
        }
        Ok(())
    }
}

impl Load for Secure {
    async fn turn(&mut self) -> Result<(), Error> {
        self.use_and_leave(self.over_tls().await?).await?;
        self.use_and_leave(self.over_websocket().await?).await?;
        let mut raw = Raw::open(&self.world).await?;
        raw.send(HALF_A_HELLO).await?;
        raw.kill()
    }
}

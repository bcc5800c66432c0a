//! Requests that nobody answers: nobody listens, somebody listens in silence, in the own account
//! and in another one.

use super::{Load, Loads};
use crate::Error;
use crate::world::World;
use async_nats::{Client, RequestErrorKind, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

const NAME: &str = "requests";
const EVERY: Duration = Duration::from_millis(100);
/// Requests of each kind in one turn.
const COUNT: u64 = 3;
/// How long a requester waits for an answer that does not come.
const SHORT: Duration = Duration::from_millis(100);

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    if loads.wants(NAME) {
        let world = Arc::clone(loads.world());
        let exporter = world.client("responder").await?;
        let mut answered = exporter.subscribe("svc.answered.>").await?;
        let silent = exporter.subscribe("svc.silent.>").await?;
        exporter.flush().await?;
        let answers = tokio::spawn(async move {
            while let Some(request) = answered.next().await {
                let Some(reply) = request.reply else { continue };
                if exporter.publish(reply, Bytes::from_static(b"yes")).await.is_err() {
                    return;
                }
            }
        });
        let own = world.client_as("a", NAME).await?;
        let importer = world.client_as("b", NAME).await?;
        loads.add(NAME, EVERY, Requests { world, own, importer, silent, answers });
    }
    Ok(())
}

struct Requests {
    world: Arc<World>,
    own: Client,
    importer: Client,
    /// Hears requests and says nothing.
    silent: Subscriber,
    answers: JoinHandle<()>,
}

impl Requests {
    async fn ask(&self, client: &Client) -> Result<(), Error> {
        let number = self.world.number();
        let request = |subject: String| async move {
            tokio::time::timeout(SHORT * 100, client.request(subject, Bytes::from_static(b"?"))).await
        };
        request(format!("svc.answered.{number}")).await??;
        match request(format!("svc.nobody.{number}")).await? {
            Err(e) if e.kind() == RequestErrorKind::NoResponders => {}
            other => return Err(format!("an answer of nobody: {other:?}").into()),
        }
        let silence = client.request(format!("svc.silent.{number}"), Bytes::from_static(b"?"));
        match tokio::time::timeout(SHORT, silence).await {
            Err(_) => Ok(()),
            Ok(answer) => Err(format!("an answer out of silence: {answer:?}").into()),
        }
    }
}

impl Load for Requests {
    async fn turn(&mut self) -> Result<(), Error> {
        for _ in 0..COUNT {
            let (own, imported) = tokio::join!(self.ask(&self.own), self.ask(&self.importer));
            own?;
            imported?;
        }
        // They are taken out, so that this client keeps none of them.
        while tokio::time::timeout(Duration::ZERO, self.silent.next())
            .await
            .is_ok_and(|request| request.is_some())
        {}
        Ok(())
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.answers.abort();
    }
}

//! Reads of a stream that is limited, and questions about streams.

use super::{Load, Loads, next};
use crate::Error;
use crate::world::{World, api, create_stream};
use async_nats::Client;
use bytes::Bytes;
use myelin_stdx::rng::Rng;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "reads";
const EVERY: Duration = Duration::from_millis(200);
const SUBJECTS: u64 = 100;
const MESSAGES: u64 = 20;
const READS: u64 = 10;

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    if loads.wants(NAME) {
        let world = Arc::clone(loads.world());
        let client = world.client(NAME).await?;
        create_stream(&client, NAME, r#""max_msgs":500,"max_bytes":8388608,"allow_direct":true"#).await?;
        loads.add(NAME, EVERY, Reads { rng: world.rng(NAME), world, client });
    }
    Ok(())
}

struct Reads {
    world: Arc<World>,
    client: Client,
    rng: Rng,
}

impl Reads {
    async fn write(&mut self) -> Result<u64, Error> {
        let mut last = 0;
        for i in 0..MESSAGES {
            let subject = format!("{NAME}.{}", self.rng.below(SUBJECTS));
            let body = Bytes::from_static(&[b'x'; 2000]);
            if i + 1 < MESSAGES {
                self.client.publish(subject, body).await?;
            } else {
                let answer = self.client.request(subject, body).await?;
                let answer: Value = serde_json::from_slice(&answer.payload)?;
                last = answer["seq"].as_u64().ok_or_else(|| format!("not stored: {answer}"))?;
            }
        }
        Ok(last)
    }

    async fn get(&mut self, last: u64) -> Result<(), Error> {
        let subject = format!("{NAME}.{}", self.rng.below(SUBJECTS));
        let seq = last.saturating_sub(self.rng.below(1000)).max(1);
        self.direct(&format!("{{\"seq\":{seq}}}")).await?;
        self.direct(&format!("{{\"last_by_subj\":\"{subject}\"}}")).await?;
        self.direct(&format!("{{\"seq\":{seq},\"next_by_subj\":\"{subject}\"}}")).await?;
        // One that the stream no longer has is an answer too.
        let _ = api(&self.client, &format!("STREAM.MSG.GET.{NAME}"), &format!("{{\"seq\":{seq}}}")).await;
        Ok(())
    }

    async fn direct(&self, body: &str) -> Result<(), Error> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        self.client.request(format!("$JS.API.DIRECT.GET.{NAME}"), body).await?;
        Ok(())
    }

    /// Answers of many messages: one is read to its end, one is not waited for.
    async fn get_many(&self) -> Result<(), Error> {
        let subject = format!("$JS.API.DIRECT.GET.{NAME}");
        let inbox = self.client.new_inbox();
        let mut answers = self.client.subscribe(inbox.clone()).await?;
        let body = format!("{{\"multi_last\":[\"{NAME}.>\"],\"batch\":50}}");
        self.client.publish_with_reply(subject.clone(), inbox, body.into()).await?;
        while !next(&mut answers).await?.payload.is_empty() {}
        let body = Bytes::from_static(b"{\"seq\":1,\"batch\":500}");
        Ok(self.client.publish_with_reply(subject, self.client.new_inbox(), body).await?)
    }

    async fn ask(&self) -> Result<(), Error> {
        let filter = r#"{"subjects_filter":">","deleted_details":true}"#;
        api(&self.client, &format!("STREAM.INFO.{NAME}"), filter).await?;
        for call in ["INFO", "STREAM.NAMES", "STREAM.LIST", &format!("CONSUMER.LIST.{NAME}")] {
            api(&self.client, call, "").await?;
        }
        let unknown = format!("STREAM.INFO.nothing-{}", self.world.number());
        match api(&self.client, &unknown, "").await {
            Ok(answer) => Err(format!("a stream out of nothing: {answer}").into()),
            Err(_) => Ok(()),
        }
    }
}

impl Load for Reads {
    async fn turn(&mut self) -> Result<(), Error> {
        let last = self.write().await?;
        for _ in 0..READS {
            self.get(last).await?;
        }
        self.get_many().await?;
        self.ask().await
    }
}

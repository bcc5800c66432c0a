//! Mirrors and sources with limits of their own, some of which come and go.

use super::{Load, Loads};
use crate::Error;
use crate::world::{World, api, create_stream};
use async_nats::Client;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "copies";
const EVERY: Duration = Duration::from_millis(200);
const ORIGINS: [&str; 2] = ["origin-1", "origin-2"];
/// Messages to each origin in one turn.
const MESSAGES: u64 = 30;
/// Turns between two that make and delete copies.
const LIFE: u64 = 10;

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    if loads.wants(NAME) {
        let client = loads.world().client(NAME).await?;
        for origin in ORIGINS {
            create_stream(&client, origin, r#""max_msgs":1000,"max_bytes":8388608"#).await?;
        }
        create(&client, "mirror", r#""mirror":{"name":"origin-1"},"max_msgs":500,"max_bytes":8388608"#)
            .await?;
        create(
            &client,
            "mirror-memory",
            r#""mirror":{"name":"origin-1"},"max_age":1000000000,"storage":"memory""#,
        )
        .await?;
        let sources =
            r#""sources":[{"name":"origin-1"},{"name":"origin-2"}],"max_age":1000000000,"max_bytes":8388608"#;
        create(&client, "sourced", sources).await?;
        loads.add(NAME, EVERY, Copies { world: Arc::clone(loads.world()), client, turns: 0 });
    }
    Ok(())
}

/// A stream without subjects.
async fn create(client: &Client, name: &str, more: &str) -> Result<(), Error> {
    api(client, &format!("STREAM.CREATE.{name}"), &format!("{{\"name\":\"{name}\",{more}}}")).await.map(drop)
}

struct Copies {
    world: Arc<World>,
    client: Client,
    turns: u64,
}

impl Copies {
    async fn make_and_delete(&self) -> Result<(), Error> {
        let number = self.world.number();
        for (name, more) in [
            (format!("mirror-{number}"), r#""mirror":{"name":"origin-2","filter_subject":"origin-2.1.>"}"#),
            (format!("sourced-{number}"), r#""sources":[{"name":"origin-1","opt_start_seq":1}]"#),
        ] {
            let lived = async {
                create(&self.client, &name, more).await?;
                self.publish().await?;
                api(&self.client, &format!("STREAM.INFO.{name}"), "").await.map(drop)
            };
            let lived = lived.await;
            // Whatever happened to it: nobody else deletes it.
            api(&self.client, &format!("STREAM.DELETE.{name}"), "").await?;
            lived?;
        }
        Ok(())
    }

    async fn publish(&self) -> Result<(), Error> {
        for origin in ORIGINS {
            for i in 0..MESSAGES {
                let subject = format!("{origin}.{}.{}", i % 3, self.world.number());
                self.client.publish(subject, Bytes::from_static(&[b'x'; 1024])).await?;
            }
        }
        Ok(self.client.flush().await?)
    }
}

impl Load for Copies {
    async fn turn(&mut self) -> Result<(), Error> {
        self.turns += 1;
        self.publish().await?;
        if self.turns.is_multiple_of(LIFE) {
            self.make_and_delete().await?;
        }
        Ok(())
    }
}

//! Configuration reloads, back and forth between two files that nobody minds.
//!
//! nats-server 2.15.2 minds: while it reloads accounts, requests to JetStream find no responder,
//! and a client that subscribes to what its account imports ends it (a nil dereference in
//! `addShadowSub`). It is not reloaded.

use super::{Load, Loads};
use crate::Error;
use crate::settings::Variant;
use crate::world::World;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "reloads";
const EVERY: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);
/// Polls until a reload is thought lost.
const POLLS: u32 = 500;

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    if loads.wants(NAME) && loads.world().is_myelin() {
        let world = Arc::clone(loads.world());
        loads.add(NAME, EVERY, Reloads { world });
    }
    Ok(())
}

struct Reloads {
    world: Arc<World>,
}

impl Reloads {
    /// Reloads, and waits until the new limit holds.
    async fn reload(&self, variant: Variant) -> Result<(), Error> {
        let expected = match variant {
            Variant::Plain => 4096,
            Variant::Changed => 5000,
        };
        self.world.reloader().reload(variant)?;
        for _ in 0..POLLS {
            if self.world.page("/varz").await?["max_control_line"] == expected {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(format!("a reload to {variant:?} did not happen").into())
    }
}

impl Load for Reloads {
    async fn turn(&mut self) -> Result<(), Error> {
        self.reload(Variant::Changed).await?;
        self.reload(Variant::Plain).await
    }
}

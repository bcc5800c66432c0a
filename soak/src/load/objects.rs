//! An object store whose objects are put, overwritten, read and deleted.

use super::{Load, Loads};
use crate::Error;
use async_nats::jetstream::{self, object_store};
use myelin_stdx::rng::Rng;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;

const NAME: &str = "objects";
const EVERY: Duration = Duration::from_millis(500);
/// Names that are used again and again: what tells that one is deleted stays for ever, by design.
const OBJECTS: u64 = 5;
const SIZE: u64 = 500_000;

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    if loads.wants(NAME) {
        let client = loads.world().client(NAME).await?;
        let config = object_store::Config { bucket: NAME.into(), ..Default::default() };
        let store = jetstream::new(client).create_object_store(config).await?;
        loads.add(NAME, EVERY, Objects { store, rng: loads.world().rng(NAME), body: vec![7; SIZE as usize] });
    }
    Ok(())
}

struct Objects {
    store: object_store::ObjectStore,
    rng: Rng,
    body: Vec<u8>,
}

impl Load for Objects {
    async fn turn(&mut self) -> Result<(), Error> {
        let name = format!("object-{}", self.rng.below(OBJECTS));
        let len = self.rng.below(SIZE) as usize;
        self.store.put(name.as_str(), &mut &self.body[..len]).await?;
        match self.rng.below(4) {
            0 => self.store.delete(&name).await?,
            1 => {
                let mut read = Vec::new();
                self.store.get(&name).await?.read_to_end(&mut read).await?;
                if read.len() != len {
                    return Err(format!("{} bytes of an object of {len}", read.len()).into());
                }
            }
            _ => {}
        }
        Ok(())
    }
}

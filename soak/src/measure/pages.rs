//! The sizes of the server's tables, from its monitoring pages.

use super::consumers;
use crate::Error;
use crate::world::World;
use serde_json::Value;

const MIB: f64 = 1024.0 * 1024.0;

/// The second part of a row, in the order of [`super::FIGURES`].
pub(super) async fn tables(world: &World) -> Result<Vec<f64>, Error> {
    let varz = world.page("/varz").await?;
    let connz = world.page("/connz").await?;
    let closed = world.page("/connz?state=closed&limit=1").await?;
    let subsz = world.page("/subsz").await?;
    let accounts = world.page("/accstatz?unused=1").await?;
    let queues = world.page("/ipqueuesz?all=1").await?;
    let jsz = world.page("/jsz?accounts=1&streams=1&consumers=1&config=1&limit=1000").await?;
    let streams = || rows(&jsz, "account_details").flat_map(|account| rows(account, "stream_detail"));
    let details = || streams().flat_map(|stream| rows(stream, "consumer_detail"));
    let state = |name: &'static str| streams().map(|stream| number(&stream["state"], name)).sum::<f64>();
    Ok(vec![
        number(&varz, "connections"),
        number(&varz, "subscriptions"),
        number(&connz, "total"),
        number(&closed, "total"),
        rows(&connz, "connections").map(|conn| number(conn, "pending_bytes")).sum(),
        number(&subsz, "num_subscriptions"),
        rows(&accounts, "account_statz").count() as f64,
        rows(&accounts, "account_statz").map(|account| number(account, "conns")).sum(),
        rows(&accounts, "account_statz").map(|account| number(account, "num_subscriptions")).sum(),
        queues
            .as_object()
            .into_iter()
            .flat_map(|queues| queues.values())
            .map(|queue| number(queue, "pending"))
            .sum(),
        number(&jsz, "streams"),
        consumers::overdue(&jsz),
        state("messages"),
        state("bytes") / MIB,
        state("num_subjects"),
        state("num_deleted"),
        details().map(|consumer| number(consumer, "num_ack_pending")).sum(),
        details().map(|consumer| number(consumer, "num_waiting")).sum(),
    ])
}

/// The entries of a list, of which there may be none.
pub(super) fn rows<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

/// A number that is left out where it is zero.
pub(super) fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or(0.0)
}

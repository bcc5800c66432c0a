//! `/accstatz`: connections and traffic of each account.

use serde::Serialize;

use crate::answer::Answer;
use crate::query::{BadQuery, Query};
use crate::snapshot::{AccountSnapshot, Source, Volume};
use crate::text::utc;

pub(crate) fn answer(query: &Query, source: &dyn Source) -> Result<Answer, BadQuery> {
    source.count_request("/accstatz");
    let unused = query.flag("unused")?;
    let stamp = source.stamp();
    let accounts = source.accounts();
    let shown = accounts.iter().filter(|account| unused || account.is_in_use());
    Ok(Answer::page(&Accstatz {
        server_id: &stamp.server_id,
        now: utc(stamp.now),
        account_statz: shown.map(Row::of).collect(),
    }))
}

impl AccountSnapshot {
    fn is_in_use(&self) -> bool {
        self.clients > 0 || self.leafnodes > 0
    }
}

#[derive(Serialize)]
struct Accstatz<'a> {
    server_id: &'a str,
    now: String,
    account_statz: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    acc: &'a str,
    name: &'a str,
    conns: usize,
    leafnodes: usize,
    total_conns: usize,
    num_subscriptions: u32,
    sent: Data,
    received: Data,
    slow_consumers: u64,
}

impl<'a> Row<'a> {
    fn of(account: &'a AccountSnapshot) -> Self {
        Self {
            acc: &account.name,
            name: &account.tag,
            conns: account.clients,
            leafnodes: account.leafnodes,
            total_conns: account.clients + account.leafnodes,
            num_subscriptions: account.interest.num_subscriptions,
            sent: Data::of_clients(account.sent),
            received: Data::of_clients(account.received),
            slow_consumers: account.slow_consumers,
        }
    }
}

/// Traffic of all links, then the part of each kind that is not a client.
#[derive(Serialize)]
struct Data {
    #[serde(flatten)]
    all: Volume,
    gateways: Volume,
    routes: Volume,
    leafs: Volume,
}

impl Data {
    /// With clients only there is nothing else.
    fn of_clients(all: Volume) -> Self {
        Self { all, gateways: Volume::default(), routes: Volume::default(), leafs: Volume::default() }
    }
}

//! `/jsz`: JetStream, which is not there yet. What a server without it answers.

use serde::Serialize;

use crate::answer::Answer;
use crate::query::{BadQuery, Query};
use crate::snapshot::Source;
use crate::text::utc;

pub(crate) fn answer(query: &Query, source: &dyn Source) -> Result<Answer, BadQuery> {
    source.count_request("/jsz");
    let options = Options::read(query)?;
    if options.leader_only {
        return Err(BadQuery::NotLeader);
    }
    let stamp = source.stamp();
    Ok(Answer::page(&Jsz {
        usage: Usage::default(),
        server_id: &stamp.server_id,
        now: utc(stamp.now),
        disabled: true,
        config: Config::default(),
        streams: 0,
        consumers: 0,
        messages: 0,
        bytes: 0,
        total: 0,
    }))
}

/// What can be asked for and makes a difference while JetStream is off.
struct Options {
    leader_only: bool,
}

impl Options {
    /// The options are looked at in the reference's order, so that of two bad ones the same is reported.
    fn read(query: &Query) -> Result<Self, BadQuery> {
        for name in ["accounts", "streams", "consumers", "direct-consumers", "config"] {
            query.flag(name)?;
        }
        query.int("offset")?;
        query.int("limit")?;
        let leader_only = query.flag("leader-only")?;
        query.flag("raft")?;
        query.flag("stream-leader-only")?;
        Ok(Self { leader_only })
    }
}

#[derive(Serialize)]
struct Jsz<'a> {
    #[serde(flatten)]
    usage: Usage,
    server_id: &'a str,
    now: String,
    disabled: bool,
    config: Config,
    streams: usize,
    consumers: usize,
    messages: u64,
    bytes: u64,
    total: usize,
}

#[derive(Serialize, Default)]
struct Usage {
    memory: u64,
    storage: u64,
    reserved_memory: u64,
    reserved_storage: u64,
    accounts: usize,
    ha_assets: usize,
    api: Api,
}

#[derive(Serialize, Default)]
struct Api {
    level: u32,
    total: u64,
    errors: u64,
}

#[derive(Serialize, Default)]
struct Config {
    max_memory: i64,
    max_storage: i64,
}

//! Our answers to the same requests, from the pure functions.

use crate::requests::{Exchange, Line, Scenario, masked};
use myelin_jsapi::ApiError;
use myelin_jsapi::api::info::{StreamInfo as Info, StreamState};
use myelin_jsapi::api::request::{
    MessageDeleteRequest, MessageGetRequest, PurgeRequest, StreamInfoRequest, StreamsRequest, is_empty,
};
use myelin_jsapi::api::response::{
    ApiResponse, MessageDelete, MessageGet, Paging, StreamCreate, StreamDelete, StreamInfo, StreamList,
    StreamNames, StreamPurge, StreamUpdate, granted, refused,
};
use myelin_jsapi::api::{LIST_LIMIT, NAMES_LIMIT};
use myelin_jsapi::config::stored::Stored;
use myelin_jsapi::config::{
    AccountLimits, Created, Limits, ServerLimits, StreamConfig, StreamConfigRequest, create, update,
    with_versions,
};
use std::collections::BTreeMap;
use std::sync::Arc;

type Streams = BTreeMap<String, Arc<StreamConfig>>;

pub(crate) fn answers(scenario: &Scenario) -> Vec<String> {
    let (limits, strict) = environment(&scenario.config());
    let mut streams = Streams::new();
    let mut answers = Vec::new();
    for line in &scenario.lines {
        match line {
            Line::Blank => streams.clear(),
            Line::Exchange(exchange) => {
                let answer = answer(exchange, &mut streams, &limits, strict);
                answers.push(masked(&String::from_utf8(answer).unwrap()));
            }
            _ => {}
        }
    }
    answers
}

fn answer(exchange: &Exchange, streams: &mut Streams, limits: &Limits, strict: bool) -> Vec<u8> {
    let body = exchange.body();
    match exchange.verb.as_str() {
        "CREATE" => created(exchange, streams, limits, strict),
        "UPDATE" => updated(exchange, streams, limits, strict),
        "INFO" => missing::<StreamInfo>(StreamInfoRequest::read(&body, strict).map(drop)),
        "PURGE" => missing::<StreamPurge>(PurgeRequest::read(&body, strict).map(drop)),
        "DELETE" if !is_empty(&body) => refused::<StreamDelete>(&ApiError::NOT_EMPTY_REQUEST),
        "DELETE" => missing::<StreamDelete>(Ok(())),
        "MSG.GET" => missing::<MessageGet<'_>>(MessageGetRequest::read(&body, strict).map(drop)),
        "MSG.DELETE" => missing::<MessageDelete>(MessageDeleteRequest::read(&body, strict).map(drop)),
        "NAMES" => match StreamsRequest::names(&body, strict) {
            Ok(_) => granted(&StreamNames { paging: nothing(NAMES_LIMIT), streams: None }),
            Err(error) => refused::<StreamNames>(&error),
        },
        "LIST" => match StreamsRequest::list(&body, strict) {
            Ok(_) => granted(&StreamList { paging: nothing(LIST_LIMIT), ..Default::default() }),
            Err(error) => refused::<StreamList>(&error),
        },
        verb => panic!("{verb}"),
    }
}

/// Answer of a stream that is not there to a request that could be read.
fn missing<A: ApiResponse>(read: Result<(), ApiError>) -> Vec<u8> {
    refused::<A>(&read.err().unwrap_or(ApiError::STREAM_NOT_FOUND))
}

fn nothing(limit: usize) -> Paging {
    Paging { total: 0, offset: 0, limit }
}

fn created(exchange: &Exchange, streams: &mut Streams, limits: &Limits, strict: bool) -> Vec<u8> {
    let limits = with_reservations(limits, streams);
    let request = StreamConfigRequest::read(&exchange.body(), strict);
    match request.and_then(|request| create(request, &exchange.name, streams, &limits)) {
        Ok(created) => {
            if let Created::New(config) = created {
                let stored = Stored { created: 5, config: *config.clone(), ..Stored::default() }.encode();
                assert_eq!(Stored::decode(&stored).unwrap().encode(), stored);
                streams.insert(exchange.name.clone(), Arc::from(config));
            }
            let info = Some(info(&streams[&exchange.name]));
            granted(&StreamCreate { info, did_create: true })
        }
        Err(error) => refused::<StreamCreate>(&error),
    }
}

fn updated(exchange: &Exchange, streams: &mut Streams, limits: &Limits, strict: bool) -> Vec<u8> {
    let limits = with_reservations(limits, streams);
    let request = StreamConfigRequest::read(&exchange.body(), strict);
    match request.and_then(|request| update(request, &exchange.name, streams, &limits)) {
        Ok(config) => {
            streams.insert(exchange.name.clone(), Arc::new(config));
            granted(&StreamUpdate { info: Some(info(&streams[&exchange.name])) })
        }
        Err(error) => refused::<StreamUpdate>(&error),
    }
}

fn info(config: &StreamConfig) -> Info {
    Info {
        config: with_versions(config),
        created: 0,
        state: StreamState::default(),
        domain: String::new(),
        cluster: None,
        mirror: None,
        sources: Vec::new(),
        alternates: Vec::new(),
        ts: 0,
    }
}

fn with_reservations(limits: &Limits, streams: &Streams) -> Limits {
    use myelin_jsapi::config::Storage;
    let reserved = |storage: Storage| {
        streams
            .values()
            .filter(|config| config.storage == storage)
            .map(|config| config.max_bytes.max(0))
            .sum()
    };
    let mut limits = limits.clone();
    limits.server.memory_reserved = reserved(Storage::Memory);
    limits.server.storage_reserved = reserved(Storage::File);
    limits
}

/// Configuration of a scenario, which is written in a few fixed ways.
fn environment(config: &[&str]) -> (Limits, bool) {
    let number = |name: &str| {
        config.iter().find_map(|line| {
            let (_, rest) = line.split_once(&format!("{name}: "))?;
            rest.split([' ', ',', '}']).next()?.parse::<i64>().ok()
        })
    };
    let required = config.iter().any(|line| line.contains("max_stream_bytes: true"));
    let none = AccountLimits::default();
    let account = AccountLimits {
        max_memory: number("max_mem").unwrap_or(none.max_memory),
        max_storage: number("max_file").unwrap_or(none.max_storage),
        max_streams: number("max_streams").unwrap_or(none.max_streams),
        max_consumers: number("max_consumers").unwrap_or(none.max_consumers),
        max_ack_pending: none.max_ack_pending,
        memory_max_stream_bytes: number("mem_max_stream_bytes").unwrap_or(none.memory_max_stream_bytes),
        storage_max_stream_bytes: number("disk_max_stream_bytes").unwrap_or(none.storage_max_stream_bytes),
        max_bytes_required: required,
        ..none
    };
    let server = ServerLimits {
        max_memory: number("max_memory_store").unwrap_or(i64::MAX),
        max_storage: number("max_file_store").unwrap_or(i64::MAX),
        memory_reserved: 0,
        storage_reserved: 0,
        duplicate_window: config.iter().any(|line| line.contains("duplicate_window: \"90s\"")) as i64
            * 90_000_000_000,
    };
    (
        Limits { account, server, has_replicas: false },
        !config.iter().any(|line| line.contains("strict: false")),
    )
}

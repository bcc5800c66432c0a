//! Bodies of requests to JetStream's API about streams.
//!
//! Promised for any bytes: reading does not panic, strictly or not; a configuration that was
//! accepted is accepted again as it is, and then it is the same stream; what is stored of it comes
//! back; an update to itself changes nothing.

use myelin_jsapi::api::request::{
    MessageDeleteRequest, MessageGetRequest, PurgeRequest, StreamInfoRequest, StreamsRequest,
};
use myelin_jsapi::config::stored::Stored;
use myelin_jsapi::config::{
    AccountLimits, Created, Limits, ServerLimits, StreamConfig, StreamConfigRequest, create, update,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Any bytes as the body of every request.
pub fn api_json(data: &[u8]) {
    for strict in [true, false] {
        let _ = StreamInfoRequest::read(data, strict);
        let _ = StreamsRequest::names(data, strict);
        let _ = StreamsRequest::list(data, strict);
        let _ = PurgeRequest::read(data, strict);
        let _ = MessageDeleteRequest::read(data, strict);
        let _ = MessageGetRequest::read(data, strict);
        if let Ok(request) = StreamConfigRequest::read(data, strict) {
            configure(request);
        }
    }
}

fn configure(request: StreamConfigRequest) {
    let limits = limits();
    let mut all: BTreeMap<String, Arc<StreamConfig>> = BTreeMap::new();
    let name = request.config.name.clone();
    let Ok(Created::New(config)) = create(request, &name, &all, &limits) else { return };
    let stored = Stored {
        created: 1,
        config: (*config).clone(),
        unfinished: false,
        lifetimes_until: 7,
        in_place_of: 0,
        of_group: true,
    };
    assert_eq!(Stored::decode(&stored.encode()), Ok(stored), "what is stored comes back");
    all.insert(name.clone(), Arc::new((*config).clone()));
    let again = || {
        let mut again = StreamConfigRequest::default();
        again.config = (*config).clone();
        again
    };
    assert_eq!(create(again(), &name, &all, &limits), Ok(Created::Same), "the same again is the same");
    if config.republish.as_ref().is_none_or(|republish| !republish.destination.is_empty()) {
        assert_eq!(update(again(), &name, &all, &limits).as_ref(), Ok(&*config), "an update to itself");
    }
}

fn limits() -> Limits {
    let server = ServerLimits {
        max_memory: 1 << 30,
        max_storage: 1 << 40,
        memory_reserved: 0,
        storage_reserved: 0,
        duplicate_window: 0,
    };
    Limits { account: AccountLimits::default(), server, has_replicas: false }
}

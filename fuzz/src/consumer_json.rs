//! Bodies of requests to create and change consumers.
//!
//! Promised for any bytes: reading does not panic, strictly or not; what is stored of a
//! configuration that was accepted comes back; it is accepted again as it is, and then it is the
//! same consumer.

use myelin_jsapi::config::StreamConfig;
use myelin_jsapi::consumer::config::stored::Stored;
use myelin_jsapi::consumer::config::{
    Action, CheckContext, ConsumerConfig, ConsumerConfigLimits, CreateConsumerRequest, CreateSubject,
    Created, MatchedRequest, create,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Any bytes as the body of a request, with and without a name in its subject.
pub fn consumer_json(data: &[u8]) {
    for strict in [true, false] {
        let Ok(request) = CreateConsumerRequest::read(data, strict) else { continue };
        let (stream, name) = (request.stream_name.clone(), request.config.name.clone());
        let durable = request.config.durable_name.clone();
        let filter = request.config.filter_subject.clone();
        let ways: [&[&str]; 4] = [
            &["CREATE", &stream],
            &["CREATE", &stream, &name],
            &["CREATE", &stream, &name, &filter],
            &["DURABLE", "CREATE", &stream, &durable],
        ];
        for place in ways.into_iter().filter_map(CreateSubject::of) {
            for has_replicas in [false, true] {
                request.clone().at(&place, has_replicas).into_iter().for_each(configure);
            }
        }
    }
}

fn configure(wanted: MatchedRequest) {
    let stream = StreamConfig {
        name: "S".into(),
        subjects: vec!["a.>".into(), "b".into()],
        max_consumers: -1,
        num_replicas: 1,
        ..StreamConfig::default()
    };
    let (none, limits) = (BTreeMap::new(), ConsumerConfigLimits::default());
    let Some(config) = decide(wanted, &stream, &none, &limits) else { return };
    assert!(!config.name.is_empty(), "the server gives a name");
    let stored = Stored::new(1, &config);
    assert_eq!(Stored::decode(&stored.encode()), Ok(stored), "what is stored comes back");
    if config.sourcing {
        // It is named anew, or made another kind of consumer.
        return;
    }
    let known = BTreeMap::from([(config.name.clone(), Arc::new(config.clone()))]);
    for action in [Action::CreateOrUpdate, Action::Create, Action::Update] {
        let again = MatchedRequest { config: config.clone(), action, pedantic: false };
        assert_eq!(
            decide(again, &stream, &known, &limits).as_ref(),
            Some(&config),
            "the same again is the same"
        );
    }
}

fn decide(
    wanted: MatchedRequest,
    stream: &StreamConfig,
    consumers: &BTreeMap<String, Arc<ConsumerConfig>>,
    limits: &ConsumerConfigLimits,
) -> Option<ConsumerConfig> {
    let world = CheckContext { stream, consumers, limits, has_interest: &|_| true };
    match create(wanted, &world, &mut || "RANDOM12".to_owned()) {
        Ok(Created::New(config) | Created::Changed(config)) => Some(*config),
        Err(_) => None,
    }
}

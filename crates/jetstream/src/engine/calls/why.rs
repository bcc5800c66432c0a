//! `MYELIN.WHY.*`: what holds a consumer's deliveries or a stream's publishes back.
//!
//! Looks, and changes nothing. The stream's part needs no turn, so that a stream is told of which
//! is stuck.

use super::{Call, CallResponse};
use crate::engine::LiveStream;
use myelin_jsapi::ApiError;
use myelin_jsapi::api::info::SourceInfo;
use myelin_jsapi::api::request::is_empty;
use myelin_jsapi::api::why::{Cause, Findings, GroupCause, Holds, StreamCause, WhyConsumer, WhyStream};
use myelin_jsapi::config::Storage;
use myelin_streams::stream::StreamFacts;

/// Nanoseconds without a sign of life of its origin, after which a mirror or source counts as
/// behind.
const QUIET: i64 = 5_000_000_000;

impl Call {
    /// `None`: a request that means nothing.
    pub(super) async fn dispatch_of_why(&mut self, tokens: &[&str]) -> Option<CallResponse> {
        Some(match *tokens {
            ["CONSUMER", stream, name] => {
                self.respond(async |call| call.why_consumer(stream, name).await).await
            }
            ["STREAM", name] => self.respond(async |call| call.why_stream(name)).await,
            _ => return None,
        })
    }

    async fn why_consumer(&mut self, name: &str, consumer: &str) -> Result<WhyConsumer, ApiError> {
        if !is_empty(self.body()) {
            return Err(ApiError::NOT_EMPTY_REQUEST);
        }
        let stream = self.account.stream(name).ok_or(ApiError::STREAM_NOT_FOUND)?;
        let now = self.jetstream.host.now();
        let causes = match self.leaderless(&stream) {
            // Which consumers there are a replica knows that leads, or has led.
            Some(cause) => vec![cause],
            None => {
                let live = stream.consumers().find(consumer).ok_or(ApiError::CONSUMER_NOT_FOUND)?;
                let found = stream.consumers().ask_why(&live).await.ok_or(ApiError::CONSUMER_NOT_FOUND)?;
                found.iter().map(|(holds, cause)| cause.told(*holds, (name, consumer), now)).collect()
            }
        };
        Ok(WhyConsumer {
            stream: name.to_owned(),
            consumer: consumer.to_owned(),
            found: Some(self.findings(causes, now)),
        })
    }

    fn why_stream(&mut self, name: &str) -> Result<WhyStream, ApiError> {
        if !is_empty(self.body()) {
            return Err(ApiError::NOT_EMPTY_REQUEST);
        }
        let stream = self.account.stream(name).ok_or(ApiError::STREAM_NOT_FOUND)?;
        let now = self.jetstream.host.now();
        let mut causes: Vec<_> = self.leaderless(&stream).into_iter().collect();
        causes.extend(self.stream_causes(&stream).iter().map(|(holds, cause)| cause.told(*holds, name, now)));
        Ok(WhyStream { stream: name.to_owned(), found: Some(self.findings(causes, now)) })
    }

    fn findings(&self, causes: Vec<Cause>, ts: i64) -> Findings {
        Findings { server: self.jetstream.settings.server_name.clone(), ts, causes }
    }

    /// Cause for which nobody leads the stream's group, if that is so.
    fn leaderless(&self, stream: &LiveStream) -> Option<Cause> {
        let meta = self.jetstream.meta().filter(|_| !stream.role().leads())?;
        let assignment = meta.view().get(self.account.account().name(), stream.name())?;
        let replicas = self.jetstream.replicas_of(&meta, stream, &assignment.peers);
        let away: Vec<String> =
            replicas.iter().filter(|one| one.offline).map(|one| one.name.clone()).collect();
        let (voters, heard) = (replicas.len() as u64, (replicas.len() - away.len()) as u64);
        Some(GroupCause { voters, heard, away }.told())
    }

    fn stream_causes(&self, stream: &LiveStream) -> Vec<(Holds, StreamCause)> {
        let (config, reader) = (stream.config(), stream.reader());
        let server = match config.storage {
            Storage::Memory => &self.jetstream.memory,
            Storage::File => &self.jetstream.files,
        };
        let account = self.account.budgets().of(&config);
        let facts = StreamFacts { config: &config, reader: &reader, account: &account, server };
        let failure = stream.failure().or_else(|| reader.failure().map(str::to_owned));
        let failed = failure.map(|error| (Holds::All, StreamCause::WaitsForDisk { error }));
        let (mirror, sources) = stream.sourcing_info();
        let behind = mirror.iter().chain(&sources).filter_map(origin_behind);
        let waiting = stream.crowd().map(|(messages, bytes)| StreamCause::PublishersWait { messages, bytes });
        let losses = facts.losses(&stream.consumers().configs());
        let some = behind.chain(waiting).chain(losses).map(|cause| (Holds::Some, cause));
        let unused = facts.is_unused().map(|cause| (Holds::Nothing, cause));
        // A mirror takes no publishes: that it is behind is what somebody asks for.
        let (mut all, some): (Vec<_>, Vec<_>) = (failed.into_iter().collect(), some.collect());
        let (first, last) =
            if config.mirror.is_some() { (some, facts.refusals()) } else { (facts.refusals(), some) };
        all.extend(first.into_iter().chain(last).chain(unused));
        all
    }
}

fn origin_behind(info: &SourceInfo) -> Option<StreamCause> {
    let is_behind = info.lag > 0 || info.error.is_some() || !(0..QUIET).contains(&info.active);
    let error = info.error.as_ref().map(|error| error.description.to_string());
    is_behind.then(|| StreamCause::OriginBehind {
        origin: info.name.clone(),
        lag: info.lag,
        active: info.active,
        error,
    })
}

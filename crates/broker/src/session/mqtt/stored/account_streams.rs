//! The account's streams, before the first session of this server is there: asked for, and made
//! where they are missing.

use super::api;
use super::state::{Matter, Step, StreamRequest};
use crate::mqtt_streams::{StreamsTurn, amended};
use crate::session::Session;
use crate::shard::Shard;
use myelin_mqtt::streams::MqttStream;
use serde_json::Value;
use std::time::Instant;

/// Replicas of streams at most, unless the options say another number.
const MOST_REPLICAS: u32 = 3;

impl Session {
    /// Asks for the streams that are not known, if it is this session's turn; else waits for the
    /// one whose it is.
    pub(super) fn ask_for_streams(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let cid = self.conn.cid();
        let Some(stored) = self.stored_mut() else { return 0 };
        let number = stored.asked.last + 1;
        match stored.store.streams_turn((cid, number)) {
            StreamsTurn::Known => 0,
            StreamsTurn::Wait => {
                stored.asked.last = number;
                stored.awaited.insert(number, (now, Matter::StreamsTurn));
                1
            }
            StreamsTurn::Ask(missing) => {
                for stream in &missing {
                    self.ask_about_stream(shard, *stream, now);
                }
                missing.len()
            }
        }
    }

    /// The session that has asked for streams knows them, or has gone.
    pub(super) fn look_for_streams(&mut self, shard: &mut Shard, now: Instant) -> Step {
        let asked = self.ask_for_streams(shard, now);
        let change = self.stored_mut().and_then(|stored| stored.change.as_mut());
        change.into_iter().for_each(|change| change.missing = asked);
        if asked == 0 { self.proceed(shard, now) } else { Ok(()) }
    }

    fn ask_about_stream(&mut self, shard: &mut Shard, stream: MqttStream, now: Instant) {
        let request = format!("STREAM.INFO.{}", stream.name);
        self.ask_api(shard, &request, b"", Matter::Stream(stream, StreamRequest::Info), now);
    }

    fn make_stream(&mut self, shard: &mut Shard, stream: MqttStream, replicas: u32, now: Instant) {
        let Some(stored) = self.stored() else { return };
        let body = stream.create_request(&stored.storage.domain_token(), replicas);
        let request = format!("STREAM.CREATE.{}", stream.name);
        let matter = Matter::Stream(stream, StreamRequest::Create(replicas));
        self.ask_api(shard, &request, &body, matter, now);
    }

    /// Replicas with which a stream is made, as far as there are servers for them.
    fn wanted_replicas(&self) -> u32 {
        let is_alone = !self.broker.links.has_any();
        let replicas = self.stored().and_then(|stored| stored.storage.replicas);
        let replicas = replicas.filter(|replicas| *replicas > 0);
        replicas.unwrap_or(if is_alone { 1 } else { MOST_REPLICAS })
    }

    /// A stream is there, or is not; was made, or is there as somebody else has made it. Where
    /// there are too few servers for its replicas, it gets fewer.
    pub(super) fn stream_answered(
        &mut self,
        shard: &mut Shard,
        (stream, request): (MqttStream, StreamRequest),
        answer: &[u8],
        now: Instant,
    ) -> Step {
        let fault = match (api::outcome(answer), request) {
            (Ok(_), StreamRequest::Info) => return self.stream_is_there(shard, stream, answer, now),
            (Ok(_), _) => return self.stream_found(shard, stream, now),
            (Err(fault), _) => fault,
        };
        match (request, fault.err_code) {
            (StreamRequest::Info, api::STREAM_NOT_FOUND) => {
                self.make_stream(shard, stream, self.wanted_replicas(), now);
            }
            (StreamRequest::Create(replicas), api::TOO_FEW_PEERS | api::REPLICAS_ALONE) if replicas > 1 => {
                self.make_stream(shard, stream, replicas - 1, now);
            }
            (StreamRequest::Create(_), api::STREAM_NAME_IN_USE) => {
                self.ask_about_stream(shard, stream, now);
            }
            _ => return Err(self.change_failed(shard, &fault)),
        }
        Ok(())
    }

    fn stream_is_there(
        &mut self,
        shard: &mut Shard,
        stream: MqttStream,
        answer: &[u8],
        now: Instant,
    ) -> Step {
        let config = match api::read::<Value>(answer) {
            Ok(mut info) => info["config"].take(),
            Err(fault) => return Err(self.change_failed(shard, &fault)),
        };
        let Some(config) = amended(stream, config) else { return self.stream_found(shard, stream, now) };
        let (request, body) = (format!("STREAM.UPDATE.{}", stream.name), config.to_string());
        let matter = Matter::Stream(stream, StreamRequest::Update);
        self.ask_api(shard, &request, body.as_bytes(), matter, now);
        Ok(())
    }

    fn stream_found(&mut self, shard: &mut Shard, stream: MqttStream, now: Instant) -> Step {
        if let Some(stored) = self.stored() {
            stored.store.found(stream);
        }
        self.step_answered(shard, now)
    }
}

//! The publishing side of a load: one connection with a window of messages without an answer.
//!
//! Budget: one `send` and one `recv` for all messages that were answered at once; no allocation.
//! With QoS 0 nobody answers, and bursts are sent as fast as the receivers' window allows.

use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use myelin_mqtt::packet::{
    AckPacket, ClientPacket, Exchange, PacketId, Properties, PublishPacket, Qos, ServerPacket,
};

use crate::error::BenchError;
use crate::mqtt::client::{LEVEL, MqttClient, ONE, encoded, unexpected};
use crate::pubsub::flow::Flow;
use crate::pubsub::publisher::Until;
use crate::pubsub::request::new_latencies;

/// Topics in rotation.
const TOPICS: usize = 64;

/// Bytes of a burst of QoS 0.
const BURST: usize = 64 << 10;

/// A message for each topic, encoded; all are of one length.
#[derive(Debug)]
pub(crate) struct Script {
    frames: Vec<Vec<u8>>,
    /// Where in a frame the packet identifier is, if there is one.
    id_at: usize,
    qos: Qos,
}

impl Script {
    /// Messages of one publisher, with payloads of `size` bytes.
    pub(crate) fn new(base: &str, publisher: usize, qos: Qos, size: usize) -> Self {
        let payload: Vec<u8> = (b'a'..=b'z').cycle().take(size).collect();
        let exchange = match qos {
            Qos::AtMostOnce => Exchange::AtMostOnce,
            Qos::AtLeastOnce => Exchange::AtLeastOnce(ONE),
            Qos::ExactlyOnce => Exchange::ExactlyOnce(ONE),
        };
        let topic = |number: usize| format!("{base}/{publisher:03}-{number:02}");
        let frame = |number: usize| {
            encoded(&ClientPacket::Publish(PublishPacket {
                dup: false,
                retain: false,
                exchange,
                topic: &topic(number),
                properties: Properties::EMPTY,
                payload: &payload,
            }))
        };
        let frames: Vec<Vec<u8>> = (0..TOPICS).map(frame).collect();
        let id = if qos == Qos::AtMostOnce { 0 } else { 2 };
        let id_at = frames[0].len() - size - id;
        Self { frames, id_at, qos }
    }

    /// Bytes of each message, which are those of its delivery.
    pub(crate) fn frame_len(&self) -> u64 {
        self.frames[0].len() as u64
    }
}

/// Figures of a publisher.
#[derive(Debug)]
pub(crate) struct MqttPublished {
    pub(crate) messages: u64,
    /// Nanoseconds from sending a message to its last answer; none with QoS 0.
    pub(crate) latencies: Histogram<u64>,
}

/// Publishes the script over and over, and returns when the server has answered all of it.
pub(crate) fn publish(
    client: &mut MqttClient,
    script: &Script,
    window: usize,
    until: Until,
    flow: &Flow,
) -> Result<MqttPublished, BenchError> {
    let published = MqttPublished { messages: 0, latencies: new_latencies() };
    match script.qos {
        Qos::AtMostOnce => unanswered(client, script, until, flow, published),
        Qos::AtLeastOnce | Qos::ExactlyOnce => {
            Windowed::new(window).publish(client, script, until, flow, published)
        }
    }
}

/// Messages that may still be sent, of `wanted`.
fn left(until: Until, sent: u64, start: Instant, wanted: u64) -> u64 {
    match until {
        Until::Messages(all) => all.saturating_sub(sent).min(wanted),
        Until::Elapsed(time) if start.elapsed() >= time => 0,
        Until::Elapsed(_) => wanted,
    }
}

fn unanswered(
    client: &mut MqttClient,
    script: &Script,
    until: Until,
    flow: &Flow,
    mut published: MqttPublished,
) -> Result<MqttPublished, BenchError> {
    let len = script.frame_len();
    let in_burst = (BURST as u64 / len).max(1);
    let burst: Vec<u8> = script.frames.iter().cycle().take(in_burst as usize).flatten().copied().collect();
    let start = Instant::now();
    loop {
        let count = left(until, published.messages, start, in_burst);
        if count == 0 {
            break;
        }
        flow.reserve(count * len)?;
        client.send(&burst[..(count * len) as usize])?;
        published.messages += count;
    }
    client.barrier()?;
    Ok(published)
}

/// A window of messages without an answer.
struct Windowed {
    window: u64,
    sent: u64,
    answered: u64,
    /// When the message with this number was sent, by its place in the window.
    times: Vec<Instant>,
    out: Vec<u8>,
}

impl Windowed {
    fn new(window: usize) -> Self {
        // More messages have no numbers.
        let window = window.clamp(1, usize::from(u16::MAX) - 1);
        Self {
            window: window as u64,
            sent: 0,
            answered: 0,
            times: vec![Instant::now(); window + 1],
            out: Vec::new(),
        }
    }

    fn publish(
        mut self,
        client: &mut MqttClient,
        script: &Script,
        until: Until,
        flow: &Flow,
        mut published: MqttPublished,
    ) -> Result<MqttPublished, BenchError> {
        let start = Instant::now();
        loop {
            let count = left(until, self.sent, start, self.window - (self.sent - self.answered));
            if count > 0 {
                flow.reserve(count * script.frame_len())?;
                self.append(script, count);
            }
            if self.sent == self.answered {
                published.messages = self.sent;
                return Ok(published);
            }
            client.send(&self.out)?;
            self.out.clear();
            client.read()?;
            self.take(client, &mut published)?;
        }
    }

    /// Encodes the next messages.
    fn append(&mut self, script: &Script, count: u64) {
        let now = Instant::now();
        for number in self.sent..self.sent + count {
            let place = (number % self.times.len() as u64) as usize;
            self.times[place] = now;
            let frame = &script.frames[number as usize % TOPICS];
            let at = self.out.len() + script.id_at;
            self.out.extend_from_slice(frame);
            self.out[at..at + 2].copy_from_slice(&(place as u16 + 1).to_be_bytes());
        }
        self.sent += count;
    }

    /// Takes the answers that are there, and encodes what they ask for.
    fn take(&mut self, client: &mut MqttClient, published: &mut MqttPublished) -> Result<(), BenchError> {
        let now = Instant::now();
        client.each(|packet| match packet {
            ServerPacket::PubAck(answer) | ServerPacket::PubComp(answer) => {
                let place = usize::from(answer.packet_id.get()) - 1;
                let sent = self.times.get(place).copied().unwrap_or(now);
                published.latencies.saturating_record(nanoseconds(now.duration_since(sent)));
                self.answered += 1;
                Ok(())
            }
            ServerPacket::PubRec(answer) => {
                release(answer.packet_id, &mut self.out);
                Ok(())
            }
            other => Err(unexpected("a PUBLISH", &other)),
        })
    }
}

/// Encodes a PUBREL.
fn release(id: PacketId, out: &mut Vec<u8>) {
    ClientPacket::PubRel(AckPacket::success(id)).encode(LEVEL, out);
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Publishes a retained message on each topic, `window` without an answer at a time.
pub(crate) fn retain(
    client: &mut MqttClient,
    topics: impl Iterator<Item = String>,
    payload: &[u8],
    window: u64,
) -> Result<(), BenchError> {
    let (mut sent, mut answered, mut out) = (0_u64, 0_u64, Vec::new());
    let mut topics = topics.peekable();
    while answered < sent || topics.peek().is_some() {
        while sent - answered < window
            && let Some(topic) = topics.next()
        {
            let id = NonZeroU16::new((sent % u64::from(u16::MAX)) as u16 + 1).unwrap_or(ONE);
            let packet = PublishPacket {
                dup: false,
                retain: true,
                exchange: Exchange::AtLeastOnce(id),
                topic: &topic,
                properties: Properties::EMPTY,
                payload,
            };
            ClientPacket::Publish(packet).encode(LEVEL, &mut out);
            sent += 1;
        }
        client.send(&out)?;
        out.clear();
        client.read()?;
        client.each(|packet| match packet {
            ServerPacket::PubAck(_) => {
                answered += 1;
                Ok(())
            }
            other => Err(unexpected("a PUBLISH", &other)),
        })?;
    }
    Ok(())
}

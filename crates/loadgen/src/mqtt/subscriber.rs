//! The receiving side of a load: many connections on one thread.
//!
//! Budget: one `epoll_wait` per round, one `recv` per ready connection, and with QoS 1 and 2 one
//! `send` for the acknowledgements of what came at once. Messages of QoS 0 are discarded in the
//! kernel, because the number of their bytes is known.

use std::time::Instant;

use myelin_mqtt::packet::{AckPacket, ClientPacket, Exchange, Qos, ServerPacket};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::error::BenchError;
use crate::mqtt::client::{LEVEL, MqttClient, unexpected};
use crate::pubsub::flow::Flow;
use crate::pubsub::receiver::receive_all;

const DISCARDED: usize = 1 << 20;

/// All subscribers of a load.
#[derive(Debug)]
pub(crate) struct Subscribers {
    epoll: OwnedFd,
    subscribers: Vec<Subscriber>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Subscriber {
    client: MqttClient,
    qos: Qos,
    /// Bytes of a message.
    frame: u64,
    /// Bytes of messages that have come.
    bytes: u64,
    out: Vec<u8>,
}

impl Subscribers {
    /// Takes over clients that have subscribed with this QoS, to messages of `frame` bytes.
    pub(crate) fn new(clients: Vec<MqttClient>, qos: Qos, frame: u64) -> Result<Self, BenchError> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(BenchError::io("creating an epoll"))?;
        for (number, client) in clients.iter().enumerate() {
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, client.stream(), data, epoll::EventFlags::IN)
                .map_err(BenchError::io("watching a socket"))?;
        }
        let subscriber = |client: MqttClient| {
            let bytes = client.unread() as u64;
            Subscriber { client, qos, frame, bytes, out: Vec::new() }
        };
        let subscribers = clients.into_iter().map(subscriber).collect();
        Ok(Self { epoll, subscribers, buffer: vec![0; DISCARDED] })
    }

    /// Receives until the flow is complete; returns when the last delivery was there.
    pub(crate) fn receive(&mut self, flow: &Flow) -> Result<Instant, BenchError> {
        receive_all(&self.epoll, flow, |number| self.subscribers[number].take(&mut self.buffer))
    }

    /// Proves that everybody got as many bytes of messages as were published.
    pub(crate) fn settle(&self, bytes: u64) -> Result<(), BenchError> {
        match self.subscribers.iter().find(|subscriber| subscriber.bytes != bytes) {
            None => Ok(()),
            Some(other) => Err(BenchError::Lost(format!("{} of {bytes} bytes at a subscriber", other.bytes))),
        }
    }
}

impl Subscriber {
    /// One read; returns the bytes of messages so far.
    fn take(&mut self, buffer: &mut [u8]) -> Result<u64, BenchError> {
        match self.qos {
            Qos::AtMostOnce => {
                let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
                match rustix::net::recv(self.client.stream(), buffer, flags) {
                    Ok((0, _)) => return Err(BenchError::Closed),
                    Ok((count, _)) => self.bytes += count as u64,
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(error) => return Err(BenchError::io("receiving messages")(error)),
                }
            }
            Qos::AtLeastOnce | Qos::ExactlyOnce => self.answer()?,
        }
        Ok(self.bytes)
    }

    /// Reads packets, and acknowledges messages. One of QoS 2 counts when it is released.
    fn answer(&mut self) -> Result<(), BenchError> {
        self.client.read()?;
        let (frame, bytes, out) = (self.frame, &mut self.bytes, &mut self.out);
        self.client.each(|packet| {
            match packet {
                ServerPacket::Publish(message) => match message.exchange {
                    Exchange::AtLeastOnce(id) => {
                        *bytes += if message.dup { 0 } else { frame };
                        ClientPacket::PubAck(AckPacket::success(id)).encode(LEVEL, out);
                    }
                    Exchange::ExactlyOnce(id) => {
                        ClientPacket::PubRec(AckPacket::success(id)).encode(LEVEL, out);
                    }
                    Exchange::AtMostOnce => return Err(unexpected("a SUBSCRIBE", &packet)),
                },
                ServerPacket::PubRel(answer) => {
                    *bytes += frame;
                    ClientPacket::PubComp(AckPacket::success(answer.packet_id)).encode(LEVEL, out);
                }
                other => return Err(unexpected("a PUBREC", &other)),
            }
            Ok(())
        })?;
        self.client.send(&self.out)?;
        self.out.clear();
        Ok(())
    }
}

//! A client of MQTT 3.1.1 on a blocking socket: CONNECT, SUBSCRIBE, and one packet after the other.
//!
//! Owns the socket and what was read of the next packet. Knows no load.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::num::NonZeroU16;

use myelin_mqtt::packet::{
    ClientPacket, ConnectPacket, Decoded, DisconnectPacket, PacketId, Properties, ProtocolLevel, Qos,
    ReasonCode, ServerPacket, SubscribeFilters, SubscribeOptions, SubscribePacket, decode_from_server,
};

use crate::connection::PATIENCE;
use crate::connection::address::Address;
use crate::connection::dial::dial;
use crate::error::BenchError;

/// The version that all loads speak: the one that every server knows.
pub(crate) const LEVEL: ProtocolLevel = ProtocolLevel::V3;

/// The longest packet that is read.
const LONGEST: u32 = 1 << 28;

/// Bytes that one read takes.
const READ_SIZE: usize = 64 << 10;

/// Number of the client's only exchange at a time besides messages.
pub(crate) const ONE: PacketId = NonZeroU16::MIN;

/// A connection that was accepted.
#[derive(Debug)]
pub struct MqttClient {
    stream: TcpStream,
    inbox: Vec<u8>,
    /// Bytes of the inbox that were taken.
    taken: usize,
    has_session: bool,
}

impl MqttClient {
    /// Connects. With `clean` the session is new and ends with the connection.
    ///
    /// # Errors
    /// When the server is not there, or says no.
    pub fn connect(address: &Address, id: &str, clean: bool) -> Result<Self, BenchError> {
        let stream = dial(address)?;
        let setting = || BenchError::io("setting up a connection");
        stream.set_read_timeout(Some(PATIENCE)).map_err(setting())?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(setting())?;
        stream.set_nodelay(true).map_err(setting())?;
        let mut client = Self { stream, inbox: Vec::new(), taken: 0, has_session: false };
        client.send(&encoded(&ClientPacket::Connect(ConnectPacket {
            level: LEVEL,
            clean,
            keep_alive: 0,
            properties: Properties::EMPTY,
            client_id: id,
            will: None,
            user_name: None,
            password: None,
        })))?;
        client.has_session = client.next(|packet| match packet {
            ServerPacket::ConnAck(answer) if answer.reason == ReasonCode::Success => {
                Ok(answer.session_present)
            }
            other => Err(unexpected("a CONNECT", &other)),
        })??;
        Ok(client)
    }

    /// Whether the server had a session of this id.
    pub fn has_session(&self) -> bool {
        self.has_session
    }

    /// Subscribes to all filters with one packet, and waits until all are granted with this QoS.
    /// Returns how many messages came before the answer.
    ///
    /// # Errors
    /// When a filter was refused, or granted less.
    pub fn subscribe(&mut self, filters: &[String], qos: Qos) -> Result<usize, BenchError> {
        let options = SubscribeOptions { max_qos: qos, ..SubscribeOptions::default() };
        let mut raw = Vec::new();
        filters.iter().for_each(|filter| SubscribeFilters::push(filter, options, &mut raw));
        let filters = SubscribeFilters::of(&raw);
        let (packet_id, properties) = (ONE, Properties::EMPTY);
        let packet = SubscribePacket { packet_id, properties, filters };
        self.send(&encoded(&ClientPacket::Subscribe(packet)))?;
        let mut early = 0;
        loop {
            let is_answered = self.next(|packet| match packet {
                ServerPacket::SubAck(answer) if answer.codes.iter().all(|code| *code == qos as u8) => {
                    Ok(true)
                }
                ServerPacket::Publish(_) => Ok(false),
                other => Err(unexpected("a SUBSCRIBE", &other)),
            })??;
            if is_answered {
                return Ok(early);
            }
            early += 1;
        }
    }

    /// Waits until the server has handled all that was sent before.
    ///
    /// # Errors
    /// When another packet than the answer comes.
    pub fn barrier(&mut self) -> Result<(), BenchError> {
        self.send(&encoded(&ClientPacket::PingReq))?;
        self.next(|packet| match packet {
            ServerPacket::PingResp => Ok(()),
            other => Err(unexpected("a PINGREQ", &other)),
        })?
    }

    /// Says goodbye and waits until the server has closed the connection.
    ///
    /// # Errors
    /// When the goodbye cannot be sent.
    pub fn leave(mut self) -> Result<(), BenchError> {
        let goodbye = DisconnectPacket { reason: ReasonCode::Success, properties: Properties::EMPTY };
        self.send(&encoded(&ClientPacket::Disconnect(goodbye)))?;
        // The server may have closed it already.
        let _ = self.stream.shutdown(Shutdown::Write);
        while self.read().is_ok() {
            self.taken = self.inbox.len();
        }
        Ok(())
    }

    /// Sends all these bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        self.stream.write_all(bytes).map_err(BenchError::io("sending packets"))
    }

    /// Waits for the next packet.
    pub(crate) fn next<T>(&mut self, take: impl FnOnce(ServerPacket<'_>) -> T) -> Result<T, BenchError> {
        loop {
            if let Some(packet) = first(&self.inbox[self.taken..])? {
                let (packet, len) = packet;
                let taken = take(packet);
                self.taken += len;
                return Ok(taken);
            }
            self.read()?;
        }
    }

    /// Gives away every packet that is whole, without waiting.
    pub(crate) fn each(
        &mut self,
        mut take: impl FnMut(ServerPacket<'_>) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        while let Some((packet, len)) = first(&self.inbox[self.taken..])? {
            take(packet)?;
            self.taken += len;
        }
        Ok(())
    }

    /// Waits for bytes.
    pub(crate) fn read(&mut self) -> Result<(), BenchError> {
        self.inbox.drain(..self.taken);
        self.taken = 0;
        let whole = self.inbox.len();
        self.inbox.resize(whole + READ_SIZE, 0);
        let count = loop {
            match self.stream.read(&mut self.inbox[whole..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => break done,
            }
        };
        self.inbox.truncate(whole + count.as_ref().copied().unwrap_or(0));
        match count {
            Ok(0) => Err(BenchError::Closed),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(BenchError::Lost(format!("nothing came for {PATIENCE:?}")))
            }
            Err(error) => Err(BenchError::io("waiting for packets")(error)),
        }
    }

    /// The socket, for polls.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Bytes that were read and not taken.
    pub(crate) fn unread(&self) -> usize {
        self.inbox.len() - self.taken
    }
}

/// Whether a server takes a client of MQTT on this port of this machine.
pub fn is_served(port: u16) -> bool {
    let client = MqttClient::connect(&Address::loopback(port), "ready", true);
    client.is_ok_and(|client| client.leave().is_ok())
}

/// The packet at the front of these bytes, with its length, if it is whole.
fn first(bytes: &[u8]) -> Result<Option<(ServerPacket<'_>, usize)>, BenchError> {
    match decode_from_server(bytes, LEVEL, LONGEST) {
        Ok(Decoded::Packet(packet, len)) => Ok(Some((packet, len))),
        Ok(Decoded::Need(_)) => Ok(None),
        Err(fault) => Err(BenchError::Protocol(format!("{fault:?}"))),
    }
}

/// Bytes of a packet.
pub(crate) fn encoded(packet: &ClientPacket<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(LEVEL, &mut bytes);
    bytes
}

/// Error about a packet that is not the answer to this.
pub(crate) fn unexpected(to: &str, packet: &ServerPacket<'_>) -> BenchError {
    BenchError::Protocol(format!("{packet:?} in the place of the answer to {to}"))
}

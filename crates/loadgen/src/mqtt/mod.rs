//! Loads of MQTT 3.1.1: messages of every QoS, sessions, retained messages, idle connections.
//!
//! The rooms: `client` is a connection on a blocking socket; `messages` are publishers and
//! subscribers, whose threads are in `publisher` and `subscriber`; `sessions` makes sessions that
//! last; `retained` keeps messages and reads them; `idle` is connections with nothing to do.
//! Packets are those of `myelin-mqtt`.

pub mod client;
pub mod idle;
pub mod messages;
mod publisher;
pub mod retained;
pub mod sessions;
mod subscriber;

pub use myelin_mqtt::packet::Qos;

//! MQTT 3.1.1 and 5 as far as no broker is needed: bytes in, packets out, and back.
//!
//! This room knows how packets look and what they may say, how topics are subjects, and in which
//! form nats-server keeps sessions. It knows no socket, no clock, no account, no session.
//! [`packet`] reads and writes packets of both versions, in both directions; [`topic`] makes
//! subjects of topics and filters, and topics of subjects; [`sparkplug`] finds births and deaths
//! among the topics; [`headers`] makes headers of properties, and properties of headers.
//! [`records`] are what nats-server stores of sessions and messages, [`streams`] is where;
//! [`shares`] are names of what is stored of shared subscriptions.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

pub mod cover;
pub mod headers;
pub mod packet;
pub mod records;
pub mod shares;
pub mod sparkplug;
pub mod streams;
pub mod topic;

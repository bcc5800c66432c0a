//! The broker driven from one thread, without sockets: what clients send goes into sessions on two
//! shards, what they get comes out of fake transports, and nothing happens between but what a test asks
//! for. `model` plays random scripts against a plain twin.

mod cohorts;
mod congestion;
mod counts;
mod exchange_model;
mod fanout;
mod freed;
mod imports;
mod limits;
mod message_buf;
mod message_trace;
mod model;
mod net;
mod order;
mod outbox;
mod queues;
mod remembered;
mod reply_prefix;
mod responders;
mod rights;
mod script;
mod services;
mod sink;
mod timers;
mod trace;
mod twin;
mod watches;
mod witnesses;

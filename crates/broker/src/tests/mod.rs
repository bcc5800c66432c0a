//! The broker driven from one thread, without sockets: what clients send goes into sessions on two
//! shards, what they get comes out of fake transports, and nothing happens between but what a test
//! asks for. `model` plays random scripts against a plain twin.

mod client_events;
mod cohorts;
mod congestion;
mod counts;
mod fanout;
mod freed;
mod gateways;
mod imports;
mod imports_model;
mod internal;
mod leaf_imports;
mod leaf_interest;
mod leafs;
mod limits;
mod links;
mod message_buf;
mod message_trace;
mod model;
mod net;
mod order;
mod outbox;
mod protocol_log;
mod queues;
mod remembered;
mod reply_prefix;
mod responders;
mod rights;
mod route_memory;
mod script;
mod seeded;
mod services;
mod shared_routes;
mod sink;
mod spans;
mod timers;
mod twin;
mod watches;

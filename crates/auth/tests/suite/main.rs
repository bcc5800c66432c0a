//! Identity from outside: tokens and keys of Go's libraries, and what has been tried against
//! nats-server.

mod advisories;
mod vectors;

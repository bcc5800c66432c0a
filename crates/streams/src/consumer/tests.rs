//! Consumers without a server: their random lives beside a twin's, and their rooms one by one.

mod clients;
mod dead_letters;
mod env;
mod flow;
mod group;
mod heard;
mod inactive;
mod left;
mod model;
mod operation;
mod pin;
mod priorities;
mod redelivery;
mod role;
mod spoken;
mod turns;
mod twin;
mod waiting;
mod why;

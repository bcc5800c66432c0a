//! Consumers in memory: their random lives beside a twin's.

mod model;
mod operation;
mod twin;
mod world;

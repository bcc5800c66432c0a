//! What streams, consumers and those that copy do together, step by step.

mod cold;
mod house;
mod links;
mod reset;
mod resting;
mod tidy;
mod times;

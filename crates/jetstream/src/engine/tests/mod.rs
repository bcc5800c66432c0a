//! What streams, consumers and those that copy do together, step by step.

mod cold;
mod given_back;
mod house;
mod links;
mod marks;
mod panics;
mod reset;
mod resting;
mod tidy;
mod times;

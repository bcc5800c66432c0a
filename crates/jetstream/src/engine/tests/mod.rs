//! Streams, consumers, mirrors and sources together, step by step.

mod assignments;
mod behind;
mod cluster;
mod cold;
mod given_back;
mod group;
mod house;
mod links;
mod lost_copy;
mod marks;
mod membership;
mod meta_cluster;
mod panics;
mod promises;
mod quiet_groups;
mod refusals;
mod remote;
mod replicas;
mod reset;
mod resting;
mod role;
mod seeded;
mod slow;
mod tidy;
mod times;
mod woken;

//! The configuration of a consumer, as clients write and read it.
//!
//! Durations are nanoseconds and limits are signed, as on the wire: -1 is "no limit" once defaults
//! are filled in. Written as JSON the fields stand in the reference's order, and those that it
//! omits when empty are omitted.
//!
//! A request goes [`CreateConsumerRequest::read`] → [`CreateConsumerRequest::at`] its
//! [`CreateSubject`], which needs no stream, → [`create`], which says what becomes of it.
//! [`with_versions`] makes of a configuration what is shown, [`stored`] what is kept on disk.
//! Nothing here knows a consumer or a stream, only configurations.

mod check;
mod consumer_config;
mod create;
mod decode;
mod defaults;
mod level;
mod limits;
mod request;
pub mod stored;
mod update;
mod workqueue;

pub(crate) use check::is_group_name;
pub use consumer_config::{
    AckPolicy, ConsumerConfig, DeliverPolicy, OtherConsumers, PriorityPolicy, ReplayPolicy, StreamPlaces,
};
pub use create::{Created, create};
pub use level::{is_supported, with_versions};
pub use limits::{CheckContext, ConsumerConfigLimits, ServerConsumerLimits};
pub use request::{Action, CreateConsumerRequest, CreateSubject, MatchedRequest};
pub use update::pause;

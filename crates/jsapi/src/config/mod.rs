//! The configuration of a stream, as clients write and read it.
//!
//! Durations are nanoseconds and limits are signed, as on the wire: -1 is "no limit" once defaults
//! are filled in. Written as JSON the fields stand in the reference's order, and those that it
//! omits when empty are omitted.
//!
//! A request goes [`StreamConfigRequest::read`] → [`create`] or [`update`], which give the
//! configuration to keep or an error; [`with_versions`] makes of it what is shown, [`stored`] what
//! is kept on disk. Nothing here knows a stream, only configurations.

mod check;
mod create;
mod decode;
mod level;
mod limits;
mod request;
mod restore;
pub mod stored;
mod stream_config;
mod taken;
mod update;

pub use check::is_asset_name;
pub use create::{Created, create};
pub use level::{API_LEVEL, is_supported, with_versions};
pub(crate) use level::{adopt_level, is_level_supported, set_level, show_versions};
pub use limits::{AccountLimits, Limits, ServerLimits, tier_name};
pub use request::StreamConfigRequest;
pub use restore::{join, restore};
pub use stream_config::{
    Compression, ConsumerLimits, Discard, ExternalStream, OtherStreams, PersistMode, Placement, Republish,
    Retention, SourceConsumerConfig, Storage, StreamConfig, StreamSource, SubjectTransform,
};
pub use taken::TakenSubjects;
pub use update::update;

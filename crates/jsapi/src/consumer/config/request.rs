//! Request of a client to create or change a consumer: a body, and a subject that must agree with
//! it.

use super::ConsumerConfig;
use crate::error::ApiError;
use crate::json::{self, object};

/// Action that a request asks for: to create, to update, or either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Action {
    /// Whatever is needed.
    #[default]
    CreateOrUpdate,
    /// Only a new one, or the one that is there already with this very configuration.
    Create,
    /// Only a change.
    Update,
}

/// A body as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateConsumerRequest {
    /// The stream that it names.
    pub stream_name: String,
    /// Not yet checked, without defaults.
    pub config: ConsumerConfig,
    /// Action that is asked for.
    pub action: Action,
    /// Refuse what would otherwise be adjusted.
    pub pedantic: bool,
}

object! { CreateConsumerRequest, "CreateConsumerRequest":
    "stream_name" stream_name "string",
    "config" config "server.ConsumerConfig",
    "action" action "server.ConsumerAction",
    "pedantic" pedantic "bool",
}

/// Fields of the subject of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSubject<'a> {
    /// The stream.
    pub stream: &'a str,
    /// How the consumer is named.
    naming: Naming<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Naming<'a> {
    /// `CREATE.<stream>`: by the body, or by the server.
    Unnamed,
    /// `DURABLE.CREATE.<stream>.<consumer>`.
    Durable(&'a str),
    /// `CREATE.<stream>.<consumer>[.<filter>]`; the filter is empty where there is none.
    Named(&'a str, String),
}

/// A request whose body and subject agree. Its configuration has a name, unless the server shall
/// give one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedRequest {
    /// Not yet checked, without defaults.
    pub config: ConsumerConfig,
    /// Action that is asked for.
    pub action: Action,
    /// Refuse what would otherwise be adjusted.
    pub pedantic: bool,
}

impl<'a> CreateSubject<'a> {
    /// Reads the tokens behind `$JS.API.CONSUMER`. `None`: it is no request to create.
    #[must_use]
    pub fn of(tokens: &[&'a str]) -> Option<Self> {
        let (stream, naming) = match *tokens {
            ["CREATE", stream] => (stream, Naming::Unnamed),
            ["DURABLE", "CREATE", stream, consumer] => (stream, Naming::Durable(consumer)),
            ["CREATE", stream, consumer, ref filter @ ..] => {
                (stream, Naming::Named(consumer, filter.join(".")))
            }
            _ => return None,
        };
        Some(Self { stream, naming })
    }
}

impl CreateConsumerRequest {
    /// Reads the body of a request; an empty one is an empty configuration. Without `strict`
    /// (`jetstream { strict: false }`), unknown fields are ignored.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`].
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        json::request(body, "server.CreateConsumerRequest", strict).map_err(ApiError::invalid_json)
    }

    /// Holds body and subject against each other. To be asked before the stream is looked for.
    /// `has_replicas`: consumers may have replicas, for the server is in a cluster.
    ///
    /// # Errors
    /// The first of the reference's reasons.
    pub fn at(self, place: &CreateSubject<'_>, has_replicas: bool) -> Result<MatchedRequest, ApiError> {
        if self.stream_name != place.stream {
            return Err(ApiError::STREAM_MISMATCH);
        }
        let Self { mut config, action, pedantic, .. } = self;
        name(&mut config, &place.naming)?;
        if let Naming::Named(_, filter) = &place.naming {
            check_filter(&config, filter)?;
        }
        if config.num_replicas > 1 && !has_replicas {
            return Err(ApiError::STREAM_REPLICAS_NOT_SUPPORTED);
        }
        Ok(MatchedRequest { config, action, pedantic })
    }
}

/// Takes the name from the subject.
fn name(config: &mut ConsumerConfig, naming: &Naming<'_>) -> Result<(), ApiError> {
    let in_subject = match naming {
        Naming::Unnamed => &config.name,
        Naming::Durable(name) | Naming::Named(name, _) => *name,
    };
    if in_subject.contains(['\\', '/']) {
        return Err(ApiError::CONSUMER_NAME_CONTAINS_PATH_SEPARATORS);
    }
    match naming {
        Naming::Unnamed if config.is_durable() => Err(ApiError::CONSUMER_EPHEMERAL_WITH_DURABLE_NAME),
        Naming::Unnamed => Ok(()),
        Naming::Durable(_) if !config.is_durable() => Err(ApiError::CONSUMER_DURABLE_NAME_NOT_SET),
        Naming::Durable(name) | Naming::Named(name, _) => {
            if config.is_durable() && config.durable_name != *name {
                return Err(ApiError::CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT);
            }
            config.name = (*name).to_owned();
            Ok(())
        }
    }
}

fn check_filter(config: &ConsumerConfig, filter: &str) -> Result<(), ApiError> {
    if filter.is_empty() {
        return Ok(());
    }
    if !config.filter_subjects.is_empty() {
        return Err(ApiError::CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED);
    }
    if config.filter_subject != filter {
        return Err(ApiError::CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH);
    }
    Ok(())
}

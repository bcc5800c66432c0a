//! `STREAM.CREATE`, `STREAM.UPDATE` and `STREAM.DELETE`.

use super::Call;
use crate::advisory::Action;
use crate::api::request::is_empty;
use crate::api::response::{StreamCreate, StreamDelete, StreamUpdate};
use crate::config::{self, Created, StreamConfig, StreamConfigRequest};
use crate::error::ApiError;

impl Call<'_> {
    pub(super) fn create_stream(&mut self, name: &str) -> Result<StreamCreate, ApiError> {
        let request = StreamConfigRequest::read(self.body(), self.is_strict())?;
        let limits = self.account.all_limits(self.jetstream);
        let stream = match config::create(request, name, &**self.account, &limits)? {
            Created::Same => self.find(name)?,
            Created::New(config) => {
                check_features(&config)?;
                let created = self.account.create(self.jetstream, *config, self.jetstream.host.now())?;
                self.advise(name, Action::Create);
                created
            }
        };
        Ok(StreamCreate { info: Some(self.info(&stream, false)), did_create: true })
    }

    pub(super) fn update_stream(&mut self, name: &str) -> Result<StreamUpdate, ApiError> {
        let request = StreamConfigRequest::read(self.body(), self.is_strict())?;
        let limits = self.account.all_limits(self.jetstream);
        let config = config::update(request, name, &**self.account, &limits)?;
        check_features(&config)?;
        let stream = self.find(name)?;
        stream.consumers().check_limits(&stream.config().consumer_limits, &config.consumer_limits)?;
        self.account.update(self.jetstream, &stream, config)?;
        self.advise(name, Action::Modify);
        let mut info = self.info(&stream, false);
        info.domain.clone_from(&self.jetstream.settings.domain);
        Ok(StreamUpdate { info: Some(info) })
    }

    pub(super) fn delete_stream(&mut self, name: &str) -> Result<StreamDelete, ApiError> {
        if !is_empty(self.body()) {
            return Err(ApiError::NOT_EMPTY_REQUEST);
        }
        let stream = self.find(name)?;
        self.account.delete(self.jetstream, &stream, &mut self.out)?;
        self.advise(name, Action::Delete);
        Ok(StreamDelete { success: true })
    }
}

/// Refuses what a stream could not keep its word about.
fn check_features(config: &StreamConfig) -> Result<(), ApiError> {
    let features =
        [(config.allow_msg_counter, "message counters"), (config.allow_msg_schedules, "message schedules")];
    match features.iter().find(|(is_wanted, _)| *is_wanted) {
        Some((_, what)) => Err(ApiError::stream_invalid_config(format_args!(
            "{what} are not part of this version of Myelin"
        ))),
        None => Ok(()),
    }
}

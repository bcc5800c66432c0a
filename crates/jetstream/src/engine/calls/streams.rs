//! `STREAM.CREATE`, `STREAM.UPDATE` and `STREAM.DELETE`.

use super::Call;
use myelin_jsapi::ApiError;
use myelin_jsapi::advisory::Action;
use myelin_jsapi::api::request::is_empty;
use myelin_jsapi::api::response::{StreamCreate, StreamDelete, StreamUpdate};
use myelin_jsapi::config::{self, Created, StreamConfigRequest};

impl Call {
    pub(super) async fn create_stream(&mut self, name: &str) -> Result<StreamCreate, ApiError> {
        let request = StreamConfigRequest::read(self.body(), self.is_strict())?;
        let limits = self.account.all_limits(&self.jetstream);
        let stream = match config::create(request, name, &*self.account, &limits)? {
            Created::Same => self.find(name).await?,
            Created::New(config) => {
                let created = self.account.create(&self.jetstream, *config, self.jetstream.host.now())?;
                self.add_advisory(name, Action::Create);
                created
            }
        };
        Ok(StreamCreate { info: Some(self.info(&stream, false)), did_create: true })
    }

    pub(super) async fn update_stream(&mut self, name: &str) -> Result<StreamUpdate, ApiError> {
        let request = StreamConfigRequest::read(self.body(), self.is_strict())?;
        let limits = self.account.all_limits(&self.jetstream);
        let config = config::update(request, name, &*self.account, &limits)?;
        let stream = self.find(name).await?;
        stream.consumers().check_limits(&stream.config().consumer_limits, &config.consumer_limits)?;
        self.account.update(&self.jetstream, &stream, config).await?;
        self.add_advisory(name, Action::Modify);
        let mut info = self.info(&stream, false);
        info.domain.clone_from(&self.jetstream.settings.domain);
        Ok(StreamUpdate { info: Some(info) })
    }

    pub(super) async fn delete_stream(&mut self, name: &str) -> Result<StreamDelete, ApiError> {
        if !is_empty(self.body()) {
            return Err(ApiError::NOT_EMPTY_REQUEST);
        }
        let stream = self.find(name).await?;
        self.account.delete(&self.jetstream, &stream, &mut self.out).await?;
        self.add_advisory(name, Action::Delete);
        Ok(StreamDelete { success: true })
    }
}

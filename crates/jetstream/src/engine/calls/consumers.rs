//! `CONSUMER.*`: making, changing, showing and ending consumers.

use super::{Call, CallResponse};
use crate::engine::consumers::Leadership;
use crate::engine::{LiveConsumer, LiveStream};
use myelin_jsapi::ApiError;
use myelin_jsapi::api::consumer::ConsumerInfo as Info;
use myelin_jsapi::api::consumer::request::{
    ConsumerPauseRequest, ConsumerResetRequest, ConsumerUnpinRequest, ConsumersRequest,
};
use myelin_jsapi::api::consumer::response::{
    ConsumerCreate, ConsumerDelete, ConsumerInfo, ConsumerList, ConsumerNames, ConsumerPause, ConsumerReset,
    ConsumerUnpin,
};
use myelin_jsapi::api::request::is_empty;
use myelin_jsapi::api::response::Paging;
use myelin_jsapi::api::{LIST_LIMIT, NAMES_LIMIT};
use myelin_jsapi::consumer::config::{
    self, CheckContext, ConsumerConfigLimits, CreateConsumerRequest, CreateSubject, Created, MatchedRequest,
    with_versions,
};
use myelin_wire::header;
use std::sync::Arc;

/// Header that tells a stream from another one of its name.
const IDENTITY: &str = "Nats-Stream-Identity";

impl Call {
    /// `None`: a request that means nothing.
    pub(super) async fn dispatch_of_consumers(&mut self, tokens: &[&str]) -> Option<CallResponse> {
        if let Some(place) = CreateSubject::of(tokens) {
            return Some(self.respond(async |call| call.create_consumer(&place).await).await);
        }
        Some(match *tokens {
            ["NAMES", stream] => self.respond(async |call| call.consumer_names(stream).await).await,
            ["LIST", stream] => self.respond(async |call| call.consumer_list(stream).await).await,
            ["INFO", stream, name] => self.respond(async |call| call.consumer_info(stream, name).await).await,
            ["DELETE", stream, name] => {
                self.respond(async |call| call.delete_consumer(stream, name).await).await
            }
            ["PAUSE", stream, name] => {
                self.respond(async |call| call.pause_consumer(stream, name).await).await
            }
            ["UNPIN", stream, name] => {
                self.respond(async |call| call.unpin_consumer(stream, name).await).await
            }
            // Compat: only a consumer that exists answers.
            ["RESET", stream, name] => {
                let live = self.account.stream(stream)?.consumers().find(name)?;
                let response = self.respond(async |call| call.reset_consumer(stream, &live).await).await;
                CallResponse { is_error: false, is_audited: false, ..response }
            }
            _ => return None,
        })
    }

    async fn create_consumer(&mut self, place: &CreateSubject<'_>) -> Result<ConsumerCreate, ApiError> {
        let has_replicas = self.jetstream.meta().is_some();
        let wanted = CreateConsumerRequest::read(self.body(), self.is_strict())?.at(place, has_replicas)?;
        let stream = self.find(place.stream).await?;
        let identity = (wanted.config.direct || wanted.config.sourcing).then(|| stream.identity());
        if let Some(identity) = &identity {
            self.check_identity(identity)?;
        }
        let consumers = Arc::clone(stream.consumers());
        let leadership = consumers.leadership()?;
        let info = match self.check_consumer(&stream, wanted.clone())? {
            Created::New(wanted) => {
                let config = stream.config();
                let context = self.jetstream.create_context(&config);
                let live = consumers.create(*wanted, &context, &mut self.out)?;
                let woken = Arc::clone(&live);
                self.then.push(Box::new(move || woken.wake_behind()));
                if let Some(meta) = self.jetstream.meta() {
                    meta.leads_consumer(&stream, live.name());
                }
                let info = consumers.ask_info(&live).await.ok_or(ApiError::CONSUMER_NOT_FOUND)?;
                self.make_durable(&stream, info.config.as_ref(), leadership).await?;
                info
            }
            Created::Changed(changed) => {
                let live = consumers.find(&changed.name).ok_or(ApiError::CONSUMER_NOT_FOUND)?;
                if consumers.config(&changed.name).is_none_or(|known| *known != *changed) {
                    let check = || match self.check_consumer(&stream, wanted)? {
                        Created::New(config) | Created::Changed(config) => Ok(*config),
                    };
                    let config = consumers.update_checked(&live, check).await?;
                    self.make_durable(&stream, Some(&config), leadership).await?;
                }
                self.begin_again(&stream, &live).await?;
                consumers.ask_info(&live).await.ok_or(ApiError::CONSUMER_NOT_FOUND)?
            }
        };
        // Compat: whenever it is asked for, changed or not.
        if let Some(config) = consumers.config(&info.name) {
            consumers.add_pause_advisory(&config, &mut self.out);
        }
        identity.iter().for_each(|identity| self.add_identity_header(identity));
        Ok(ConsumerCreate { info: Some(self.shown_of(&stream, info)) })
    }

    /// Checks what a request would make of the stream's consumers, if it may.
    fn check_consumer(&self, stream: &LiveStream, wanted: MatchedRequest) -> Result<Created, ApiError> {
        let config = stream.config();
        let limits = ConsumerConfigLimits {
            account: self.account.limits().unwrap_or_default(),
            server: self.jetstream.limits().consumers,
        };
        let account = self.account.account();
        let has_interest = |subject: &str| account.has_interest(subject.as_bytes());
        let context = CheckContext {
            stream: &config,
            consumers: &**stream.consumers(),
            limits: &limits,
            has_interest: &has_interest,
        };
        let host = &self.jetstream.host;
        config::create(wanted, &context, &mut || short_name(&host.unique_id()))
    }

    /// Another server that copies a stream by this consumer asks for it when it has lost something:
    /// all that is not acknowledged is delivered once more.
    async fn begin_again(&self, stream: &LiveStream, live: &Arc<LiveConsumer>) -> Result<(), ApiError> {
        let config = stream.consumers().config(live.name());
        if config.is_none_or(|config| !config.sourcing || config.is_own) {
            return Ok(());
        }
        // The stream that copies may have been led by this server, and have read the log itself.
        let unread = live.act_soon(|core, turn| core.set_read(false, turn)).await;
        unread.ok_or(ApiError::CONSUMER_NOT_FOUND)?;
        let leadership = stream.consumers().leadership()?;
        stream.consumers().reset(live, 0).await?;
        self.make_durable(stream, None, leadership).await?;
        Ok(())
    }

    /// Another server that copies a stream says which it means: one that was made anew under its
    /// name is another.
    fn check_identity(&self, identity: &str) -> Result<(), ApiError> {
        match header::get(&self.request.headers, IDENTITY.as_bytes()) {
            Some(wanted) if !wanted.is_empty() && wanted != identity.as_bytes() => {
                Err(ApiError::consumer_stream_identity_mismatch(identity))
            }
            _ => Ok(()),
        }
    }

    /// Adds to the answer which stream it is about.
    fn add_identity_header(&mut self, identity: &str) {
        self.headers = format!("NATS/1.0\r\n{IDENTITY}: {identity}\r\n\r\n").into_bytes();
    }

    /// Has what was done to a consumer survive a loss of power before it is answered: where it has
    /// a name that somebody counts on, and where all that is acknowledged is synced. In a group it
    /// is answered when the group has agreed: a majority has written it, as with a message.
    /// `leadership` is from before it was done.
    async fn make_durable(
        &self,
        stream: &LiveStream,
        config: Option<&config::ConsumerConfig>,
        leadership: Leadership,
    ) -> Result<(), ApiError> {
        let is_counted_on = config.is_some_and(|config| !config.durable_name.is_empty());
        let needs_sync = is_counted_on && stream.voters().len() < 2;
        if stream.is_stored() && (needs_sync || self.jetstream.settings.sync_always) {
            self.jetstream.store.owe_round();
        }
        stream.consumers().agreed(leadership).await
    }

    /// How a consumer stands, as answers about one say it.
    async fn info_of(&self, stream: &LiveStream, live: &LiveConsumer) -> Result<Info, ApiError> {
        let info = stream.consumers().ask_info(live).await;
        info.map(|info| self.shown_of(stream, info)).ok_or(ApiError::CONSUMER_NOT_FOUND)
    }

    /// How a consumer stands, with where it is.
    fn shown_of(&self, stream: &LiveStream, info: Info) -> Info {
        Info { cluster: self.place_of_consumer(stream, &info), ..shown(info) }
    }

    async fn find_consumer(
        &self,
        stream: &str,
        name: &str,
    ) -> Result<(Arc<LiveStream>, Arc<LiveConsumer>), ApiError> {
        let stream = self.find(stream).await?;
        let live = stream.consumers().find(name).ok_or(ApiError::CONSUMER_NOT_FOUND)?;
        Ok((stream, live))
    }

    async fn consumer_names(&mut self, stream: &str) -> Result<ConsumerNames, ApiError> {
        let request = ConsumersRequest::read(self.body(), self.is_strict())?;
        let (paging, page) = self.page_of_consumers(stream, request, NAMES_LIMIT).await?;
        Ok(ConsumerNames { paging, consumers: page.iter().map(|live| live.name().to_owned()).collect() })
    }

    async fn consumer_list(&mut self, stream: &str) -> Result<ConsumerList, ApiError> {
        let request = ConsumersRequest::read(self.body(), self.is_strict())?;
        if self.is_nowhere(stream) {
            let paging = Paging { limit: LIST_LIMIT, ..Paging::default() };
            return Ok(ConsumerList { paging, ..ConsumerList::default() });
        }
        let (mut paging, page) = self.page_of_consumers(stream, request, LIST_LIMIT).await?;
        // Compat: in a cluster a list behind the end counts nothing.
        if page.is_empty() && self.jetstream.meta().is_some() {
            paging.total = 0;
        }
        let stream = self.find(stream).await?;
        let mut consumers = Vec::with_capacity(page.len());
        for live in &page {
            let info = stream.consumers().ask_info(live).await;
            let placed = |info| Info { cluster: self.place_of_consumer(&stream, &info), ..info };
            consumers.extend(info.map(placed));
        }
        Ok(ConsumerList { paging, consumers, ..ConsumerList::default() })
    }

    /// Whether the cluster has no such stream. Compat: a list of its consumers is empty there, and
    /// their names are refused.
    fn is_nowhere(&self, stream: &str) -> bool {
        self.jetstream.meta().is_some() && self.account.stream(stream).is_none()
    }

    /// The consumers that a request is about, by name; without direct ones.
    async fn page_of_consumers(
        &self,
        stream: &str,
        request: ConsumersRequest,
        limit: usize,
    ) -> Result<(Paging, Vec<Arc<LiveConsumer>>), ApiError> {
        let stream = self.find(stream).await?;
        let consumers = stream.consumers();
        let mut all = consumers.all();
        all.retain(|live| consumers.config(live.name()).is_some_and(|config| !config.direct));
        let total = all.len();
        let offset = request.page.offset().min(total);
        let page = all.drain(offset..).take(limit).collect();
        Ok((Paging { total, offset, limit }, page))
    }

    async fn consumer_info(&mut self, stream: &str, name: &str) -> Result<ConsumerInfo, ApiError> {
        if !is_empty(self.body()) {
            return Err(ApiError::NOT_EMPTY_REQUEST);
        }
        let (stream, live) = self.find_consumer(stream, name).await?;
        Ok(ConsumerInfo { info: Some(self.info_of(&stream, &live).await?) })
    }

    async fn delete_consumer(&mut self, stream: &str, name: &str) -> Result<ConsumerDelete, ApiError> {
        if !is_empty(self.body()) {
            return Err(ApiError::NOT_EMPTY_REQUEST);
        }
        let (stream, live) = self.find_consumer(stream, name).await?;
        let config = stream.consumers().config(name);
        let leadership = stream.consumers().leadership()?;
        if !stream.consumers().delete(&live, &mut self.out).await? {
            return Err(ApiError::CONSUMER_NOT_FOUND);
        }
        self.make_durable(&stream, config.as_deref(), leadership).await?;
        Ok(ConsumerDelete { success: true })
    }

    async fn pause_consumer(&mut self, stream: &str, name: &str) -> Result<ConsumerPause, ApiError> {
        let request = ConsumerPauseRequest::read(self.body(), self.is_strict())?;
        let (stream, live) = self.find_consumer(stream, name).await?;
        let consumers = stream.consumers();
        let known = consumers.config(name).ok_or(ApiError::CONSUMER_NOT_FOUND)?;
        let paused = config::pause(&known, request.pause_until);
        let until = paused.pause_until;
        let leadership = consumers.leadership()?;
        let config = consumers.update(&live, paused).await?;
        self.make_durable(&stream, Some(&config), leadership).await?;
        let now = self.jetstream.host.now();
        let left = until.map_or(0, |until| until.timestamp().saturating_sub(now)).max(0);
        Ok(ConsumerPause { paused: left > 0, pause_until: until.unwrap_or_default(), pause_remaining: left })
    }

    async fn unpin_consumer(&mut self, stream: &str, name: &str) -> Result<ConsumerUnpin, ApiError> {
        let request = ConsumerUnpinRequest::read(self.body())?;
        let (stream, live) = self.find_consumer(stream, name).await?;
        let config = stream.consumers().config(name).ok_or(ApiError::CONSUMER_NOT_FOUND)?;
        if !config.priority_groups.contains(&request.group) {
            return Err(ApiError::CONSUMER_INVALID_PRIORITY_GROUP);
        }
        let unpinned = live.act_soon(move |core, turn| core.unpin(&request.group, turn)).await;
        unpinned.ok_or(ApiError::CONSUMER_NOT_FOUND)?;
        Ok(ConsumerUnpin {})
    }

    async fn reset_consumer(
        &mut self,
        stream: &str,
        live: &Arc<LiveConsumer>,
    ) -> Result<ConsumerReset, ApiError> {
        let request = ConsumerResetRequest::read(self.body())?;
        let stream = self.find(stream).await?;
        let leadership = stream.consumers().leadership()?;
        let (reset_seq, info) = stream.consumers().reset(live, request.seq).await?;
        self.make_durable(&stream, None, leadership).await?;
        if header::get(&self.request.headers, IDENTITY.as_bytes()).is_some() {
            self.add_identity_header(&stream.identity());
        }
        Ok(ConsumerReset { info: Some(self.shown_of(&stream, info)), reset_seq })
    }
}

/// How a consumer stands, with the versions that answers about one show.
fn shown(mut info: Info) -> Info {
    info.config = info.config.as_ref().map(with_versions);
    info
}

/// Makes a name as the reference gives to consumers without one: eight alphanumeric characters.
fn short_name(id: &str) -> String {
    id.chars().rev().take(8).collect()
}

//! `STREAM.NAMES`, `STREAM.LIST` and `STREAM.INFO`.

use super::Call;
use crate::engine::{JetStream, LiveStream};
use myelin_jsapi::ApiError;
use myelin_jsapi::api::info::StreamInfo as Info;
use myelin_jsapi::api::request::{StreamInfoRequest, StreamsRequest};
use myelin_jsapi::api::response::{ListedStream, Paging, StreamInfo, StreamList, StreamNames};
use myelin_jsapi::api::{LIST_LIMIT, NAMES_LIMIT};
use myelin_jsapi::config::with_versions;
use myelin_streams::read::{SUBJECTS_PER_PAGE, subject_page};
use std::sync::Arc;

impl Call {
    pub(super) fn stream_names(&mut self) -> Result<StreamNames, ApiError> {
        let request = StreamsRequest::names(self.body(), self.is_strict())?;
        let (paging, streams) = self.page(&request, NAMES_LIMIT);
        let names: Vec<String> = streams.iter().map(|stream| stream.name().to_owned()).collect();
        Ok(StreamNames { paging, streams: (!names.is_empty()).then_some(names) })
    }

    pub(super) fn stream_list(&mut self) -> Result<StreamList, ApiError> {
        let request = StreamsRequest::list(self.body(), self.is_strict())?;
        let (paging, streams) = self.page(&request, LIST_LIMIT);
        let listed = |stream: &Arc<LiveStream>| {
            ListedStream::Here(Box::new(stream.as_listed(self.info(stream, false))))
        };
        Ok(StreamList { paging, streams: streams.iter().map(listed).collect(), ..StreamList::default() })
    }

    /// The streams that a request is about, by name.
    fn page(&self, request: &StreamsRequest, limit: usize) -> (Paging, Vec<Arc<LiveStream>>) {
        page_of(self.account.streams(), request, limit, |stream, collides| {
            stream.config().subjects.iter().any(collides)
        })
    }

    pub(super) async fn stream_info(&mut self, name: &str) -> Result<StreamInfo, ApiError> {
        let request = StreamInfoRequest::read(self.body(), self.is_strict())?;
        let stream = self.find(name).await?;
        let mut info = self.info(&stream, request.deleted_details);
        info.domain.clone_from(&self.jetstream.settings.domain);
        info.cluster = Some(self.jetstream.cluster_info(&stream));
        info.alternates = self.alternates_of(name);
        let mut paging = Paging::default();
        if !request.subjects_filter.is_empty() {
            let offset = request.page.offset();
            let page = subject_page(&stream.reader(), request.subjects_filter.as_bytes(), offset);
            if page.total > 0 {
                paging = Paging { total: page.total, offset, limit: SUBJECTS_PER_PAGE };
                info.state.subjects =
                    page.subjects.into_iter().map(|(subject, count)| (subject.into_vec(), count)).collect();
            }
        }
        Ok(StreamInfo { paging, info: Some(info) })
    }

    /// A stream by the name in the subject, as whoever has published to it without an
    /// acknowledgement expects it.
    pub(super) async fn find(&self, name: &str) -> Result<Arc<LiveStream>, ApiError> {
        let stream = self.account.stream(name).ok_or(ApiError::STREAM_NOT_FOUND)?;
        self.state_mark(&stream).await;
        Ok(stream)
    }

    /// Has the mark of a stream stated for which messages wait: the first ones do, for a moment.
    /// Where messages are synced or committed before they are released, they wait for more than
    /// that.
    async fn state_mark(&self, stream: &LiveStream) {
        if stream.consumers().is_of_group() {
            return;
        }
        let Ok(leadership) = stream.consumers().leadership() else { return };
        let reader = stream.reader();
        let last = reader.release().last_ticket();
        if !self.jetstream.settings.sync_always && !reader.release().is_released(last) {
            // One that has failed shows what it has.
            let _ = stream.released_through(&reader, last, leadership).await;
        }
    }

    /// Info of a stream, as all answers have it.
    pub(super) fn info(&self, stream: &LiveStream, with_deleted: bool) -> Info {
        self.jetstream.stream_info(stream, with_deleted)
    }
}

/// The page of these streams, in order, that a request is about. `has`: whether subjects of a
/// stream are among those that it is given a test for.
pub(super) fn page_of<S>(
    mut streams: Vec<S>,
    request: &StreamsRequest,
    limit: usize,
    has: impl Fn(&S, &dyn Fn(&String) -> bool) -> bool,
) -> (Paging, Vec<S>) {
    if !request.subject.is_empty() {
        let collides = |own: &String| myelin_subject::overlaps(own.as_bytes(), request.subject.as_bytes());
        streams.retain(|stream| has(stream, &collides));
    }
    let total = streams.len();
    let offset = request.page.offset().min(total);
    let page = streams.drain(offset..).take(limit).collect();
    (Paging { total, offset, limit }, page)
}

impl LiveStream {
    /// Its info as a list has it: without versions.
    pub(in crate::engine) fn as_listed(&self, info: Info) -> Info {
        Info { config: (*self.config()).clone(), ..info }
    }
}

impl JetStream {
    /// Info of a stream, as all answers have it.
    pub(in crate::engine) fn stream_info(&self, stream: &LiveStream, with_deleted: bool) -> Info {
        let (mirror, sources) = stream.sourcing_info();
        Info {
            config: with_versions(&stream.config()),
            created: stream.created(),
            state: stream.state(with_deleted),
            domain: String::new(),
            cluster: None,
            mirror,
            sources,
            alternates: Vec::new(),
            ts: self.host.now(),
        }
    }
}

//! Responses to requests for pages.

use bytes::Bytes;
use serde::Serialize;

use myelin_wire::json;

/// A finished HTTP answer without its framing: the server adds `Date` and `Content-Length`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageResponse {
    /// The HTTP status.
    pub status: u16,
    /// Headers, `Content-Type` first.
    pub headers: &'static [(&'static str, &'static str)],
    /// The whole body. Answers may share it.
    pub body: Bytes,
}

const JSON: &[(&str, &str)] = &[("content-type", "application/json"), ("access-control-allow-origin", "*")];
const HTML: &[(&str, &str)] = &[("content-type", "text/html; charset=utf-8")];
const TEXT: &[(&str, &str)] = &[("content-type", "text/plain; charset=utf-8")];
const VARS: &[(&str, &str)] = &[("content-type", "application/json; charset=utf-8")];
const METRICS: &[(&str, &str)] =
    &[("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")];
const NOT_FOUND: &[(&str, &str)] =
    &[("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")];

impl PageResponse {
    /// A page, indented.
    pub(crate) fn page(value: &impl Serialize) -> Self {
        Self { status: 200, headers: JSON, body: json::pretty(value).into() }
    }

    /// A page, indented by three blanks: what the reference's two youngest pages do.
    pub(crate) fn wide_page(value: &impl Serialize) -> Self {
        Self { status: 200, headers: JSON, body: json::wide(value).into() }
    }

    /// Text under a page's headers.
    ///
    /// Compat: `/stacksz` is announced as JSON and is none.
    pub(crate) fn text_page(text: String) -> Self {
        Self { status: 200, headers: JSON, body: text.into_bytes().into() }
    }

    /// Answer as Go's `expvar` has it; the caller lays it out.
    pub(crate) fn vars(text: String) -> Self {
        Self { status: 200, headers: VARS, body: text.into_bytes().into() }
    }

    /// JSON on one line with any status: how `/healthz` answers.
    pub(crate) fn line(status: u16, value: &impl Serialize) -> Self {
        Self { status, headers: JSON, body: json::compact(value).into() }
    }

    /// Figures for Prometheus, finished.
    pub(crate) fn metrics(body: Bytes) -> Self {
        Self { status: 200, headers: METRICS, body }
    }

    pub(crate) fn html(text: String) -> Self {
        Self { status: 200, headers: HTML, body: text.into_bytes().into() }
    }

    /// 400 with its reason as plain text.
    pub(crate) fn bad_request(reason: String) -> Self {
        Self { status: 400, headers: TEXT, body: reason.into_bytes().into() }
    }

    /// 404 from a page that exists, with its reason as plain text.
    pub(crate) fn nothing(reason: &str) -> Self {
        Self { status: 404, headers: TEXT, body: Bytes::copy_from_slice(reason.as_bytes()) }
    }

    /// 404 with the reference's text; also right for a path outside the base path.
    #[must_use]
    pub fn not_found() -> Self {
        Self { status: 404, headers: NOT_FOUND, body: Bytes::from_static(b"404 page not found\n") }
    }
}

//! The errors of the catalogue that a message get answers with.

use std::borrow::Cow;

use myelin_jsapi::ApiError;

pub(super) const BAD_REQUEST: ApiError =
    ApiError { code: 400, err_code: 10003, description: Cow::Borrowed("bad request") };
/// Another server will have what this one cannot read.
pub(super) const NOT_NOW: ApiError = ApiError::CLUSTER_NOT_AVAIL;
pub(super) const NO_MESSAGE_FOUND: ApiError =
    ApiError { code: 404, err_code: 10037, description: Cow::Borrowed("no message found") };

//! `$SYS.REQ.USER.INFO`: who am I, and what may I do? Every user of every account may ask.

use super::System;
use super::request::SystemRequest;
use myelin_auth::{Permissions, ResponseRule, SubjectRules};
use myelin_broker::Conn;
use myelin_wire::json::{compact, is_zero};
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::SystemTime;

#[derive(Serialize)]
struct UserInfo {
    user: String,
    account: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    account_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    user_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<PermissionsDocument>,
    /// Nanoseconds, whole seconds of them.
    #[serde(skip_serializing_if = "is_zero")]
    expires: i64,
}

#[derive(Serialize)]
struct PermissionsDocument {
    publish: Lists,
    subscribe: Lists,
    #[serde(skip_serializing_if = "Option::is_none")]
    responses: Option<Responses>,
}

#[derive(Serialize)]
struct Lists {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allow: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deny: Vec<String>,
}

#[derive(Serialize)]
struct Responses {
    max: i64,
    ttl: i64,
}

impl From<SubjectRules> for Lists {
    fn from(SubjectRules { allow, deny }: SubjectRules) -> Self {
        Self { allow, deny }
    }
}

impl From<ResponseRule> for Responses {
    /// Compat: no limit is -1.
    fn from(rule: ResponseRule) -> Self {
        let nanoseconds = |ttl: std::time::Duration| i64::try_from(ttl.as_nanos()).unwrap_or(i64::MAX);
        Self { max: rule.max.map_or(-1, |max| max.get().into()), ttl: rule.ttl.map_or(-1, nanoseconds) }
    }
}

fn shown(permissions: &Arc<Permissions>) -> PermissionsDocument {
    PermissionsDocument {
        publish: permissions.publish_rules().into(),
        subscribe: permissions.subscribe_rules().into(),
        responses: permissions.responses().map(Into::into),
    }
}

fn of(conn: &Conn) -> UserInfo {
    let details = conn.details();
    let claims = details.claims.as_ref();
    let tag = claims.map_or(&*details.account, |claims| claims.account().name_tag()).to_owned();
    let left = claims.and_then(|claims| claims.expires()).or(details.expires).map(|end| {
        let seconds = end.duration_since(SystemTime::now()).unwrap_or_default().as_secs();
        i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000_000)
    });
    UserInfo {
        user: details.user.clone().unwrap_or_default(),
        account_name: tag,
        user_name: claims.map(|claims| claims.name().to_owned()).unwrap_or_default(),
        permissions: conn.permissions().as_ref().map(shown),
        expires: left.unwrap_or_default(),
        account: details.account,
    }
}

impl System {
    pub(super) fn answer_user(&self, ask: &SystemRequest) {
        let (Some(origin), false) = (&ask.origin, ask.reply.is_empty()) else { return };
        let text = String::from_utf8(compact(&of(origin))).ok();
        let page = text.and_then(|text| RawValue::from_string(text).ok());
        self.reply(&ask.reply, &[], &self.response(page.as_deref(), None));
    }
}

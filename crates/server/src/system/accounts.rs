//! Requests about one account: of the system account's members about any, of others about their
//! own.

use super::envelope::RequestFault;
use super::gatherings::Gathering;
use super::request::SystemRequest;
use super::{Job, System};
use myelin_broker::Account;
use myelin_monitor::request::{self, Topic};
use myelin_subject::{has_wildcard, is_subset, matches};
use serde::Deserialize;

/// Where every account is asked at once.
const PING: &str = "PING";

impl System {
    /// `$SYS.REQ.ACCOUNT.<account>.<what>`.
    pub(super) fn answer_of_account(&self, ask: &SystemRequest) {
        let account = ask.token(3);
        let topic = match ask.last() {
            "SUBSZ" => Topic::Subsz,
            "CONNZ" => Topic::Connz,
            "LEAFZ" => Topic::Leafz,
            "JSZ" => Topic::Jsz,
            "INFO" => Topic::AccountInfo,
            "STATZ" => Topic::Accstatz,
            "CONNS" => return self.answer_connections(ask, account),
            _ => return,
        };
        self.respond(ask, topic, |request| {
            let request = if topic == Topic::Accstatz && account == PING && ask.guest.is_none() {
                request
            } else {
                request.of_account(account)
            };
            match topic {
                Topic::Jsz => request.answer_for_jetstream(&*self.monitor).map(Some),
                _ => request.answer(&*self.monitor),
            }
            .map_err(RequestFault::of_server)
        });
    }

    /// How many connections an account has, in the form of the event. Compat: silence where there
    /// are none.
    fn answer_connections(&self, ask: &SystemRequest, name: &str) {
        #[derive(Deserialize, Default)]
        struct ResponseBody {
            acc: Option<String>,
        }
        let body = match ask.body.is_empty() {
            true => Ok(ResponseBody::default()),
            false => serde_json::from_slice(&ask.body),
        };
        let body: ResponseBody = match body {
            Ok(body) => body,
            Err(error) => {
                let what = "Error unmarshalling account connections request message";
                return self.log.error(format_args!("{what}: {error}"));
            }
        };
        if body.acc.is_some_and(|acc| acc != name) {
            return self.log.error("Error unmarshalled account does not match subject");
        }
        let has_any = self.broker.account(name).is_some_and(|account| account.connections() > 0);
        if has_any && !ask.reply.is_empty() {
            for (_, stat) in request::account_stats(&[name.to_owned()], &*self.monitor) {
                self.reply(&ask.reply, &[], &self.connections(&stat));
            }
        }
    }

    /// `$SYS.DEBUG.SUBSCRIBERS`: how many of the asker's account listen to a subject, or to
    /// anything inside of a pattern; a queue group may follow.
    pub(super) fn answer_subscribers(&self, ask: &SystemRequest) {
        let Some(origin) = &ask.origin else { return };
        let account = origin.with_details(|details| self.broker.account(&details.account));
        let (Some(account), false) = (account, ask.reply.is_empty()) else { return };
        let body = String::from_utf8_lossy(&ask.body);
        let mut words = body.trim().split(' ');
        let (subject, queue) = (words.next().unwrap_or_default(), words.next());
        let count = subscribers(&account, subject.as_bytes(), queue.map(str::as_bytes));
        let gathering = Gathering {
            account: account.name().to_owned(),
            subject: subject.to_owned(),
            queue: queue.map(str::to_owned),
            reply: ask.reply.clone(),
            count: i64::try_from(count).unwrap_or(i64::MAX),
        };
        self.note(Job::Gather(gathering));
    }

    /// `$SYS.REQ.ACCOUNT.NSUBS`: the same, as servers ask each other.
    pub(super) fn answer_subscriptions(&self, ask: &SystemRequest) {
        #[derive(Deserialize)]
        struct ResponseBody {
            acc: String,
            subject: String,
            /// Compat: bytes in base64.
            queue: Option<String>,
        }
        let body: ResponseBody = match serde_json::from_slice(&ask.body) {
            Ok(body) => body,
            Err(error) => {
                let what = "Error unmarshalling account nsubs request message";
                return self.log.error(format_args!("{what}: {error}"));
            }
        };
        let account = self.broker.account(&body.acc).filter(|account| account.connections() > 0);
        if let (Some(account), false) = (account, ask.reply.is_empty()) {
            let queue = body.queue.and_then(|queue| crate::ocsp::from_base64(&queue));
            let count = subscribers(&account, body.subject.as_bytes(), queue.as_deref());
            self.reply(&ask.reply, &[], count.to_string().as_bytes());
        }
    }
}

/// Subscriptions that hear `subject`, or lie inside of it if it is a pattern.
fn subscribers(account: &Account, subject: &[u8], queue: Option<&[u8]>) -> usize {
    let is_pattern = has_wildcard(subject);
    let mut count = 0;
    account.for_each_subscription(|sub| {
        let fits =
            if is_pattern { is_subset(sub.subject(), subject) } else { matches(sub.subject(), subject) };
        count += usize::from(fits && queue.is_none_or(|queue| sub.queue() == Some(queue)));
    });
    count
}

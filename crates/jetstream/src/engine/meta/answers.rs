//! Answers that the leader of a stream gives for the meta leader.

use super::assignment::{AnswerKind, Asked, Assignment};
use super::late_answers::LateAnswers;
use super::{LiveStream, Meta};
use crate::engine::JetStream;
use myelin_broker::Account;
use myelin_jsapi::ApiError;
use myelin_jsapi::advisory::{self, AUDIT, Action, Advisory, AdvisoryHeader};
use myelin_jsapi::api::response::{
    ApiResponse, StreamCancelMove, StreamCreate, StreamDelete, StreamUpdate, granted, refused,
};
use myelin_stdx::sync::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Pause between two looks for answers that nobody waits for any more.
///
/// Perf: another server gives most of them, and whoever makes the same stream a thousand times a
/// second would have each one look at all the others.
const LOOK: Duration = Duration::from_secs(1);
/// Nobody waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Assignments whose answers somebody waits for, by the stream's id: several, where clients have
/// asked for the same.
#[derive(Default)]
struct PendingAnswers {
    by_stream: BTreeMap<u64, Vec<PendingAnswer>>,
    /// When those were looked for that nobody waits for any more.
    looked: Option<Instant>,
}

/// Answers that this server gives or may have to give.
pub(super) struct Answers {
    pending: Mutex<PendingAnswers>,
    late: Arc<LateAnswers>,
}

impl Answers {
    pub(super) fn new(jetstream: &Arc<JetStream>) -> Self {
        Self { pending: Mutex::default(), late: LateAnswers::new(jetstream) }
    }
}

struct PendingAnswer {
    assignment: Arc<Assignment>,
    since: Instant,
    /// Whether something was done: a request to make what is there already does nothing.
    is_news: bool,
}

impl PendingAnswers {
    /// Answers whether it has looked for old ones.
    fn add(&mut self, pending: PendingAnswer, now: Instant) -> bool {
        let is_due = self.looked.is_none_or(|at| now.saturating_duration_since(at) >= LOOK);
        if is_due {
            self.looked = Some(now);
            self.by_stream.retain(|_, pending| {
                pending.retain(|one| now.saturating_duration_since(one.since) < PATIENCE);
                !pending.is_empty()
            });
        }
        self.by_stream.entry(pending.assignment.id).or_default().push(pending);
        is_due
    }
}

impl Meta {
    /// Has whoever leads the stream answer. At once, if this server does.
    pub(super) fn answer_later(
        &self,
        jetstream: &JetStream,
        (assignment, is_news): (&Arc<Assignment>, bool),
        live: &Arc<LiveStream>,
    ) {
        if !assignment.asked.has_any() {
            return;
        }
        let now = jetstream.host.instant();
        let pending = PendingAnswer { assignment: Arc::clone(assignment), since: now, is_news };
        let _ = lock(&self.answers.pending).add(pending, now);
        if live.role().leads() {
            self.answer_pending(live, true);
        }
    }

    /// Gives the answers that are waited for from a stream that leads. `is_here`: it has led
    /// already when that was asked for.
    pub(super) fn answer_pending(&self, live: &Arc<LiveStream>, is_here: bool) {
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        let assignment = self.view().get(live.account_name(), live.name());
        let Some(assignment) = assignment else { return };
        let pending = lock(&self.answers.pending).by_stream.remove(&assignment.id).unwrap_or_default();
        // Otherwise whoever led it before has answered.
        if is_here || live.has_one_term() {
            pending.iter().for_each(|one| self.answer_changed(&jetstream, live, one));
        }
    }

    fn answer_changed(&self, jetstream: &JetStream, live: &Arc<LiveStream>, pending: &PendingAnswer) {
        let PendingAnswer { ref assignment, since, is_news } = *pending;
        if jetstream.host.instant().saturating_duration_since(since) >= PATIENCE {
            return;
        }
        let info = Some(jetstream.clustered_info(live, false));
        let body = match assignment.answer {
            AnswerKind::Create => granted(&StreamCreate { info, did_create: is_news }),
            AnswerKind::Update => granted(&StreamUpdate { info }),
            AnswerKind::CancelMove => granted(&StreamCancelMove { info }),
            AnswerKind::Delete | AnswerKind::Refused => return,
        };
        if is_news {
            let is_create = assignment.answer == AnswerKind::Create;
            let action = if is_create { Action::Create } else { Action::Modify };
            self.advise_of_change(jetstream, assignment, action);
        }
        self.answer(jetstream, assignment, (&body, false));
    }

    /// Answers a request that has found nothing to change in an assignment, that of this `nonce`,
    /// if this server leads the stream as that says. Says whether it has.
    pub(super) fn answer_unchanged(
        &self,
        jetstream: &JetStream,
        live: &Arc<LiveStream>,
        (nonce, asked, answer): (u64, Asked, AnswerKind),
    ) -> bool {
        let known = self.view().get(live.account_name(), live.name());
        let is_so = |known: &Arc<Assignment>| known.nonce == nonce && known.config == *live.config();
        let Some(known) = known.filter(is_so).filter(|_| live.leads_surely()) else { return false };
        let assignment = Arc::new(Assignment { asked, answer, ..(*known).clone() });
        // Compat: an update that changes nothing is told of as one that does.
        let is_news = answer == AnswerKind::Update;
        let since = jetstream.host.instant();
        self.answer_changed(jetstream, live, &PendingAnswer { assignment, since, is_news });
        true
    }

    /// Tells those who listen what was done to a stream.
    fn advise_of_change(&self, jetstream: &JetStream, of: &Assignment, action: Action) {
        let Some(account) = jetstream.account(&of.key.account) else { return };
        let (id, time) = (jetstream.host.unique_id(), jetstream.host.now());
        let header = AdvisoryHeader { id: &id, time, domain: &jetstream.settings.domain };
        let advisory = advisory::stream_action(header, &of.key.stream, action);
        jetstream.publish_advisory(account.account(), &advisory);
    }

    /// Tells whoever waits that the stream is removed, or why it is not here.
    pub(super) fn answer_removed(
        &self,
        jetstream: &JetStream,
        removed: &Assignment,
        error: Option<&ApiError>,
    ) {
        if error.is_none() {
            self.advise_of_change(jetstream, removed, Action::Delete);
        }
        let body = match error {
            None => granted(&StreamDelete { success: true }),
            Some(error) => refused::<StreamDelete>(error),
        };
        for before in &removed.asked_before {
            let of = removed.with_asked(before.clone());
            self.answer_not_done(jetstream, &of, &ApiError::STREAM_NOT_FOUND);
        }
        self.answer(jetstream, removed, (&body, error.is_some()));
    }

    /// Tells whoever waits for a stream that is made or changed why it is not, in an answer of the
    /// kind that was asked for.
    pub(super) fn answer_not_done(&self, jetstream: &JetStream, of: &Assignment, error: &ApiError) {
        match of.answer {
            AnswerKind::Create => self.answer_failed::<StreamCreate>(jetstream, of, error),
            AnswerKind::Update => self.answer_failed::<StreamUpdate>(jetstream, of, error),
            AnswerKind::CancelMove => self.answer_failed::<StreamCancelMove>(jetstream, of, error),
            AnswerKind::Delete | AnswerKind::Refused => {}
        }
    }

    /// Tells whoever waits that what was to be done has failed here.
    pub(super) fn answer_failed<A: ApiResponse>(
        &self,
        jetstream: &JetStream,
        of: &Assignment,
        error: &ApiError,
    ) {
        self.answer(jetstream, of, (&refused::<A>(error), true));
    }

    /// Answers, counts and has audited what was asked. The second of `said`: whether it is an
    /// error.
    fn answer(&self, jetstream: &JetStream, of: &Assignment, said: (&[u8], bool)) {
        let asked = &of.asked;
        if !asked.has_any() {
            return;
        }
        let (body, is_error) = said;
        let own = || Some(Arc::clone(jetstream.account(&of.key.account)?.account()));
        let account = if asked.is_for_system { jetstream.host.system_account() } else { own() };
        let Some(account) = account else { return };
        if let Some(home) = jetstream.account(account.name()) {
            home.count_call(is_error);
        }
        let audit = self.audit(jetstream, (&account, asked), body);
        self.answers.late.answer(jetstream, account, (&asked.reply, body), audit);
    }

    /// The audit of a request that is answered here. Costs little where nobody listens.
    ///
    /// Compat: the reference's do not show the request, either, where it has gone through the meta
    /// group.
    fn audit(
        &self,
        jetstream: &JetStream,
        (account, asked): (&Account, &Asked),
        body: &[u8],
    ) -> Option<Advisory> {
        if asked.subject.is_empty() || !account.has_interest(AUDIT) {
            return None;
        }
        let (id, time) = (jetstream.host.unique_id(), jetstream.host.now());
        let header = AdvisoryHeader { id: &id, time, domain: &jetstream.settings.domain };
        let (client, subject) = (asked.client.as_ref(), asked.subject.as_bytes());
        Some(advisory::api_audit(header, &self.name, client, subject, b"", body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_answers_are_looked_for_once_a_second() {
        let (mut answers, began) = (PendingAnswers::default(), Instant::now());
        let assignment = Arc::new(Assignment {
            asked: Asked { reply: "_INBOX.1".to_owned(), ..Asked::default() },
            ..Assignment::sample("$G", "S")
        });
        let mut add = |after: u64| {
            let since = began + Duration::from_millis(after);
            let pending = PendingAnswer { assignment: Arc::clone(&assignment), since, is_news: false };
            (answers.add(pending, since), answers.by_stream[&1].len())
        };
        assert_eq!([add(0), add(1), add(999), add(1000)], [(true, 1), (false, 2), (false, 3), (true, 4)]);
        assert_eq!(add(11_000), (true, 1), "ten seconds are over");
    }
}

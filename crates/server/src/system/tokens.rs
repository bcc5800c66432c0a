//! Tokens of accounts between servers: one that is not here is asked for
//! (`$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP`), and servers that keep all of them compare what they have
//! (`$SYS.REQ.CLAIMS.PACK`).
//!
//! Compat: the reference compares once in each interval; here also as soon as a server is heard for
//! the first time.

use super::System;
use super::schedule::EventSchedule;
use crate::resolver::TokenPeers;
use myelin_stdx::entropy::OsEntropy;
use myelin_stdx::sync::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Questions for tokens that wait for answers.
#[derive(Default)]
pub(super) struct TokenQuestions {
    by_inbox: Mutex<HashMap<String, TokenQuestion>>,
}

struct TokenQuestion {
    answer: Sender<String>,
    /// Servers that have not answered.
    left: usize,
}

impl TokenPeers for System {
    fn look_up(&self, key: &str, timeout: Duration) -> Result<String, String> {
        let missing = || "account jwt not found".to_owned();
        let left = self.peers.heard.load(Relaxed);
        if left == 0 {
            return Err(missing());
        }
        let (answer, answers) = channel();
        let inbox = self.peers.inbox(&myelin_stdx::id::unique(&OsEntropy, 8));
        lock(&self.peers.tokens.by_inbox).insert(inbox.clone(), TokenQuestion { answer, left });
        self.request(&format!("$SYS.REQ.ACCOUNT.{key}.CLAIMS.LOOKUP"), &inbox, b"");
        let found = answers.recv_timeout(timeout);
        lock(&self.peers.tokens.by_inbox).remove(&inbox);
        match found {
            Ok(token) if token.is_empty() => Err(missing()),
            Ok(token) => Ok(token),
            Err(_) => Err("fetching jwt timed out".to_owned()),
        }
    }
}

impl System {
    /// Takes the answer of one server; false if it answers another kind of question. The first
    /// token counts, and nothing when nobody has one.
    pub(super) fn hear_token(&self, subject: &str, body: &[u8]) -> bool {
        let mut questions = lock(&self.peers.tokens.by_inbox);
        let Some(question) = questions.get_mut(subject) else { return false };
        question.left = question.left.saturating_sub(1);
        if !body.is_empty() || question.left == 0 {
            // Whoever has asked may have given up.
            let _ = question.answer.send(String::from_utf8_lossy(body).into_owned());
        }
        true
    }

    /// Asks the others for the tokens that are not here, unless they have the same.
    pub(super) fn compare_tokens(&self, pace: &mut EventSchedule, now: Instant) {
        let Some(tokens) = self.tokens.as_ref().filter(|_| self.broker.is_clustered()) else { return };
        let (Some(interval), Some(digest)) = (tokens.comparison_interval(), tokens.digest()) else { return };
        pace.comparison = Some(now + interval);
        if self.peers.heard.load(Relaxed) > 0 {
            self.request("$SYS.REQ.CLAIMS.PACK", &self.peers.inbox(PACKS), &digest);
        }
    }

    /// Takes tokens that another server has; nothing more is the end.
    pub(super) fn hear_pack(&self, body: &[u8]) {
        let Some(tokens) = self.tokens.as_ref().filter(|_| !body.is_empty()) else { return };
        match tokens.merge(&self.broker, &String::from_utf8_lossy(body)) {
            Ok(taken) => self.log.debug(format_args!("DirResolver - Merging took {taken} tokens")),
            Err(error) => {
                self.log.error(format_args!("DirResolver - Merging resulted in error: {error}"));
            }
        }
    }

    /// Whether packs of tokens come at a subject.
    pub(super) fn is_for_packs(&self, subject: &str) -> bool {
        subject.ends_with(PACKS) && subject == self.peers.inbox(PACKS)
    }
}

/// Last token of the subject at which packs come.
const PACKS: &str = "MyelPack";

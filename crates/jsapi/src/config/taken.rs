//! Subjects that the streams of an account take, so arranged that those of a new stream are
//! compared with few of them.
//!
//! Owns the way to those that may overlap: two patterns do only if the literal tokens with which
//! one begins are the first ones of the other, too. Whether they do overlap is compared then.

use super::{OtherStreams, Storage, StreamConfig};
use myelin_subject::{has_wildcard, overlaps};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Subjects of streams. All are valid patterns.
#[derive(Debug, Default)]
pub struct TakenSubjects {
    /// By their [heads](head_of).
    by_head: BTreeMap<Box<str>, Vec<TakenSubject>>,
    /// How many heads have so many tokens: nobody asks for another number of them.
    depths: BTreeMap<usize, usize>,
}

/// One subject of one stream.
#[derive(Debug)]
struct TakenSubject {
    subject: Box<str>,
    stream: Arc<str>,
}

impl TakenSubjects {
    /// A stream takes these subjects.
    pub fn add(&mut self, stream: &str, subjects: &[String]) {
        let stream: Arc<str> = stream.into();
        for subject in subjects {
            let head = head_of(subject);
            if !self.by_head.contains_key(&*head) {
                *self.depths.entry(depth_of(&head)).or_default() += 1;
            }
            let taken = TakenSubject { subject: subject.as_str().into(), stream: Arc::clone(&stream) };
            self.by_head.entry(head).or_default().push(taken);
        }
    }

    /// A stream takes these subjects no more.
    pub fn remove(&mut self, stream: &str, subjects: &[String]) {
        for subject in subjects {
            let head = head_of(subject);
            let Some(taken) = self.by_head.get_mut(&head) else { continue };
            taken.retain(|taken| *taken.stream != *stream || *taken.subject != **subject);
            if taken.is_empty() {
                self.by_head.remove(&head);
                let depth = depth_of(&head);
                let left = self.depths.get(&depth).map_or(0, |heads| heads - 1);
                if left == 0 {
                    self.depths.remove(&depth)
                } else {
                    self.depths.insert(depth, left)
                };
            }
        }
    }

    /// Whether another stream than this one takes a subject that overlaps with one of these.
    #[must_use]
    pub fn is_taken_by_other(&self, stream: &str, subjects: &[String]) -> bool {
        subjects.iter().any(|subject| {
            let is_other = |taken: &TakenSubject| {
                *taken.stream != *stream && overlaps(subject.as_bytes(), taken.subject.as_bytes())
            };
            self.overlap_candidates(subject).any(is_other)
        })
    }

    /// Subjects that may overlap with this one, each once.
    fn overlap_candidates(&self, subject: &str) -> impl Iterator<Item = &TakenSubject> {
        let head = head_of(subject);
        let ends: Vec<usize> = head.match_indices('.').map(|(at, _)| at + 1).collect();
        let shorter: Vec<&Vec<TakenSubject>> = self
            .depths
            .range(..=ends.len())
            .filter_map(|(depth, _)| {
                self.by_head.get(depth.checked_sub(1).map_or("", |at| &head[..ends[at]]))
            })
            .collect();
        // A literal subject is met by nothing that begins with more tokens than it has.
        let longer = has_wildcard(subject.as_bytes()).then(|| {
            let behind =
                self.by_head.range::<str, _>((std::ops::Bound::Excluded(&*head), std::ops::Bound::Unbounded));
            behind.take_while(|(other, _)| other.starts_with(&*head)).map(|(_, taken)| taken)
        });
        let longer: Vec<&Vec<TakenSubject>> = longer.into_iter().flatten().collect();
        shorter.into_iter().chain(longer).flatten()
    }
}

/// The literal tokens with which a pattern begins, a dot behind each.
fn head_of(subject: &str) -> Box<str> {
    let literal = subject.split('.').take_while(|token| !matches!(*token, "*" | ">"));
    literal.flat_map(|token| [token, "."]).collect::<String>().into()
}

fn depth_of(head: &str) -> usize {
    head.bytes().filter(|byte| *byte == b'.').count()
}

impl OtherStreams for BTreeMap<String, Arc<StreamConfig>> {
    fn find(&self, name: &str) -> Option<Arc<StreamConfig>> {
        self.get(name).cloned()
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn list(&self) -> Vec<Arc<StreamConfig>> {
        self.values().cloned().collect()
    }

    fn reserved(&self, storage: Storage) -> i64 {
        let all = self.values().filter(|config| config.storage == storage);
        all.fold(0, |sum, config| sum.saturating_add(config.reserved()))
    }

    fn is_taken_by_other(&self, stream: &str, subjects: &[String]) -> bool {
        let mut taken = TakenSubjects::default();
        self.values().for_each(|config| taken.add(&config.name, &config.subjects));
        taken.is_taken_by_other(stream, subjects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn subjects() -> impl Strategy<Value = Vec<String>> {
        let token = prop::sample::select(vec!["a", "b", "ab", "*"]);
        let subject = (prop::collection::vec(token, 1..4), any::<bool>())
            .prop_map(|(tokens, has_rest)| tokens.join(".") + if has_rest { ".>" } else { "" });
        prop::collection::vec(prop_oneof![9 => subject, 1 => Just(">".to_owned())], 0..4)
    }

    proptest! {
        #[test]
        fn overlaps_are_those_that_a_look_at_all_subjects_finds(
            streams in prop::collection::vec((subjects(), any::<bool>()), 0..6),
            asked in subjects(),
        ) {
            let (mut taken, mut twin) = (TakenSubjects::default(), Vec::new());
            for (number, (subjects, _)) in streams.iter().enumerate() {
                taken.add(&number.to_string(), subjects);
            }
            for (number, (subjects, stays)) in streams.iter().enumerate() {
                let name = number.to_string();
                if *stays { twin.push((name, subjects)) } else { taken.remove(&name, subjects) }
            }
            for name in ["0", "new"] {
                let overlaps = twin.iter().any(|(other, subjects)| {
                    other != name
                        && subjects.iter().any(|theirs| asked.iter().any(|ours| overlaps(ours.as_bytes(), theirs.as_bytes())))
                });
                prop_assert_eq!(taken.is_taken_by_other(name, &asked), overlaps, "{}", name);
            }
            for (name, subjects) in twin {
                taken.remove(&name, subjects);
            }
            prop_assert!(taken.by_head.is_empty() && taken.depths.is_empty());
        }
    }

    #[test]
    fn a_subject_of_half_a_million_tokens_is_compared_with_what_there_is() {
        let mut taken = TakenSubjects::default();
        for depth in 1..100 {
            taken.add("S", &[format!("{}z", "a.".repeat(depth))]);
        }
        assert!(!taken.is_taken_by_other("T", &["a.".repeat(500_000) + "a"]));
        assert!(taken.is_taken_by_other("T", &["a.".repeat(9) + "*"]));
    }
}

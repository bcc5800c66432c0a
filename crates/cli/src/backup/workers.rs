//! Several streams at once: a bounded number of threads, each with connections of its own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use crate::backup::error::BackupError;

/// Outcome for each stream, by name.
pub(super) type StreamOutcomes<R> = Vec<(String, Result<R, BackupError>)>;

/// Does `work` for each of these streams, up to `at_once` of them at the same time, with what
/// `open` makes for each thread. What one stream meets does not keep it from the others.
///
/// # Errors
/// An error that all of them would meet: nothing more was begun then.
pub(super) fn for_each<W, R: Send>(
    streams: &[String],
    at_once: usize,
    open: &(dyn Fn() -> Result<W, BackupError> + Sync),
    work: &(dyn Fn(&mut W, &str) -> Result<R, BackupError> + Sync),
) -> Result<StreamOutcomes<R>, BackupError> {
    let (next, is_ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let outcomes = Mutex::new(Vec::new());
    let worker = || {
        let mut tool = None;
        while !is_ended.load(SeqCst)
            && let Some(stream) = streams.get(next.fetch_add(1, SeqCst))
        {
            let outcome = tool.take().map_or_else(open, Ok).and_then(|mut opened| {
                let done = work(&mut opened, stream)?;
                // After an error there may be more to come of what failed.
                tool = Some(opened);
                Ok(done)
            });
            if outcome.as_ref().is_err_and(BackupError::ends_all) {
                is_ended.store(true, SeqCst);
            }
            outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((stream.clone(), outcome));
        }
    };
    std::thread::scope(|scope| {
        (0..at_once.clamp(1, streams.len().max(1))).for_each(|_| drop(scope.spawn(worker)));
    });
    let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut fatal, mut kept) = (None, Vec::new());
    for (stream, outcome) in outcomes {
        match outcome {
            Err(error) if error.ends_all() => drop(fatal.get_or_insert(error)),
            outcome => kept.push((stream, outcome)),
        }
    }
    kept.sort_by(|(one, _), (other, _)| one.cmp(other));
    fatal.map_or(Ok(kept), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn one_failure_keeps_nobody_back_unless_all_would_meet_it() {
        let streams: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let of_one = |_: &mut (), stream: &str| match stream {
            "b" => Err(BackupError::Other("b is broken".into())),
            stream => Ok(stream.to_owned()),
        };
        let outcomes = for_each(&streams, 3, &|| Ok(()), &of_one).unwrap();
        let names: Vec<&str> = outcomes.iter().map(|(name, _)| name.as_str()).collect();
        let is_well: Vec<bool> = outcomes.iter().map(|(_, outcome)| outcome.is_ok()).collect();
        assert_eq!((names, is_well), (vec!["a", "b", "c", "d"], vec![true, false, true, true]));
        let began = AtomicUsize::new(0);
        let full = |_: &mut (), _: &str| -> Result<(), BackupError> {
            began.fetch_add(1, SeqCst);
            Err(BackupError::File("x".into(), io::ErrorKind::StorageFull.into()))
        };
        let error = for_each(&streams, 1, &|| Ok(()), &full).unwrap_err().to_string();
        assert!(error.contains("make room there") && began.load(SeqCst) == 1, "{error}");
    }
}

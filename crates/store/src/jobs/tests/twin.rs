//! Random histories: whatever is appended, removed, sealed, merged and compacted, the stream is
//! what the twin says, and still is after a restart.

use super::*;

/// The plain twin.
#[derive(Clone, Debug, Default)]
struct Twin {
    messages: BTreeMap<Seq, Message>,
    last: Seq,
}

impl Twin {
    fn remove(&mut self, is_gone: impl Fn(Seq, &Message) -> bool) {
        self.messages.retain(|seq, message| !is_gone(*seq, message));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append { subject: u8, length: usize, lives: bool },
    Delete(u8),
    Erase(u8),
    PurgeSubject(u8),
    Trim(u8),
    PurgeAll,
    Truncate(u8),
    Skip(u8),
    Close,
    Job,
    Settle,
    Round,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..6u8, 0..200usize, any::<bool>())
            .prop_map(|(subject, length, lives)| Step::Append { subject, length, lives }),
        6 => any::<u8>().prop_map(Step::Delete),
        1 => any::<u8>().prop_map(Step::Erase),
        1 => (0..6u8).prop_map(Step::PurgeSubject),
        1 => any::<u8>().prop_map(Step::Trim),
        1 => Just(Step::PurgeAll),
        1 => any::<u8>().prop_map(Step::Truncate),
        1 => (1..9u8).prop_map(Step::Skip),
        3 => Just(Step::Close),
        4 => Just(Step::Job),
        2 => Just(Step::Settle),
        1 => Just(Step::Round),
        2 => Just(Step::Reopen),
    ]
}

/// A sequence of the stream or just beyond its ends.
fn pick(twin: &Twin, choice: u8) -> Seq {
    let first = twin.messages.keys().next().copied().unwrap_or(twin.last + 1);
    let span = twin.last + 3 - first.saturating_sub(1);
    first.saturating_sub(1) + u64::from(choice) % span
}

fn apply(bench: &mut Bench, twin: &mut Twin, step: &Step) {
    match *step {
        Step::Append { subject, length, lives } => {
            let (subject, payload) = (format!("s.{subject}"), vec![b'a' + subject; length]);
            let expires = lives.then_some(1_000_000 + Timestamp::from(subject.as_bytes()[2]));
            let seq = put(bench.stream(), &subject, &payload, expires);
            assert_eq!(seq, twin.last + 1);
            twin.last = seq;
            twin.messages.insert(seq, (subject, payload, expires));
        }
        Step::Delete(choice) => {
            let seq = pick(twin, choice);
            let removed = bench.stream().delete(seq, 1).unwrap();
            assert_eq!(removed.messages, u64::from(twin.messages.remove(&seq).is_some()));
        }
        Step::Erase(choice) => {
            let seq = pick(twin, choice);
            let removed = bench.stream().erase(seq, 1).unwrap();
            assert_eq!(removed.messages, u64::from(twin.messages.remove(&seq).is_some()));
        }
        Step::PurgeSubject(subject) => {
            let subject = format!("s.{subject}");
            let mut purge = Purge { filter: Some(Filter::new(subject.as_bytes())), ..Purge::default() };
            while bench.stream().purge(&mut purge, 3, 1).unwrap().more {}
            twin.remove(|_, message| message.0 == subject);
        }
        Step::Trim(choice) => {
            let first = pick(twin, choice).max(1);
            while bench.stream().compact(first, 3, 1).unwrap().more {}
            twin.remove(|seq, _| seq < first);
            twin.last = twin.last.max(first - 1);
        }
        Step::PurgeAll => {
            while bench.stream().purge(&mut Purge::default(), 3, 1).unwrap().more {}
            twin.messages.clear();
        }
        Step::Truncate(choice) => {
            let last = pick(twin, choice);
            bench.stream().truncate(last, 1).unwrap();
            twin.remove(|seq, _| seq > last);
            twin.last = twin.last.min(last);
        }
        Step::Skip(count) => {
            twin.last += u64::from(count);
            bench.stream().skip(twin.last, 1).unwrap();
        }
        Step::Close => bench.stream().close_segment(0, 1).unwrap(),
        Step::Job => drop(bench.step()),
        Step::Settle => drop(bench.settle()),
        Step::Round => bench.round(),
        Step::Reopen => bench.reopen(),
    }
}

fn compare(bench: &mut Bench, twin: &Twin) -> Result<(), TestCaseError> {
    let stream = bench.stream();
    let totals = stream.state().totals;
    prop_assert_eq!(totals.messages, twin.messages.len() as u64);
    prop_assert_eq!(totals.last_seq, twin.last);
    let bytes: usize =
        twin.messages.values().map(|(subject, payload, _)| subject.len() + payload.len() + 30).sum();
    prop_assert_eq!(totals.bytes, bytes as u64);
    if let Some(first) = twin.messages.keys().next() {
        prop_assert_eq!(totals.first_seq, *first);
    }
    let reader = stream.reader();
    let mut counts: BTreeMap<&str, (u64, Seq)> = BTreeMap::new();
    for (seq, (subject, ..)) in &twin.messages {
        let count = counts.entry(subject).or_default();
        *count = (count.0 + 1, *seq);
    }
    let subjects: Vec<_> =
        counts.iter().map(|(subject, (count, _))| (Box::from(subject.as_bytes()), *count)).collect();
    prop_assert_eq!(reader.subjects(b">", None, usize::MAX), subjects);
    for (subject, (_, last)) in counts {
        let filter = Filter::new(subject.as_bytes());
        prop_assert_eq!(reader.last_seq(&filter).unwrap(), Some(last), "the last of {}", subject);
    }
    let deleted: u64 = reader.deleted().into_iter().map(|range| range.end() - range.start() + 1).sum();
    prop_assert_eq!(deleted + totals.messages, totals.last_seq + 1 - totals.first_seq);
    prop_assert_eq!(contents(stream), twin.messages.clone());
    let mut buffer = Vec::new();
    for (seq, message) in &twin.messages {
        let found = reader.get(*seq, Wait::Allowed, &mut buffer).unwrap().expect("the twin has it");
        prop_assert_eq!(found.payload, &message.1[..]);
    }
    Ok(())
}

/// Lifetimes came through all bases and footers.
fn end_all(bench: &mut Bench, mut twin: Twin) -> Result<(), TestCaseError> {
    while bench.stream().expire(2_000_000, 7, None).unwrap().more {}
    twin.remove(|_, message| message.2.is_some());
    compare(bench, &twin)
}

fn history(shape: Shape, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut bench = Bench::in_memory(shape, 1500);
    let mut twin = Twin::default();
    for step in steps {
        apply(&mut bench, &mut twin, step);
        if matches!(step, Step::Job | Step::Settle | Step::Reopen) {
            compare(&mut bench, &twin)?;
        }
    }
    compare(&mut bench, &twin)?;
    bench.round();
    bench.stream().close_segment(0, 1).unwrap();
    bench.settle();
    prop_assert_eq!(bench.stream().erasing(), 0);
    compare(&mut bench, &twin)?;
    bench.reopen();
    compare(&mut bench, &twin)?;
    bench.settle();
    compare(&mut bench, &twin)?;
    end_all(&mut bench, twin)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn plain(steps in prop::collection::vec(step(), 1..160)) {
        history(SHAPES[0], &steps)?;
    }

    #[test]
    fn packed(steps in prop::collection::vec(step(), 1..160)) {
        history(SHAPES[1], &steps)?;
    }

    #[test]
    fn encrypted(steps in prop::collection::vec(step(), 1..160)) {
        history(SHAPES[2], &steps)?;
    }

    #[test]
    fn encrypted_and_packed(steps in prop::collection::vec(step(), 1..160)) {
        history(SHAPES[3], &steps)?;
    }
}

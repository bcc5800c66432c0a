//! The index against its twin, alone and under threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::twin::Twin;
use super::*;

#[derive(Debug)]
struct Sub {
    number: u64,
    subject: Vec<u8>,
    queue: Option<Vec<u8>>,
}

impl Subscribed for Sub {
    fn subject(&self) -> &[u8] {
        &self.subject
    }

    fn queue(&self) -> Option<&[u8]> {
        self.queue.as_deref()
    }
}

fn sub(number: u64, subject: &str, queue: Option<&str>) -> Arc<Sub> {
    Arc::new(Sub { number, subject: subject.into(), queue: queue.map(Into::into) })
}

/// A result in an order of its own: the plain members, and those of each queue.
type Sorted = (Vec<u64>, BTreeMap<Vec<u8>, Vec<u64>>);

fn sorted(matched: &Matched<Arc<Sub>>) -> Sorted {
    let numbers = |members: &[Arc<Sub>]| {
        let mut numbers: Vec<u64> = members.iter().map(|m| m.number).collect();
        numbers.sort_unstable();
        numbers
    };
    let groups = matched.queues.iter().map(|group| (group.name().to_vec(), numbers(&group.members)));
    let queues: BTreeMap<_, _> = groups.collect();
    assert_eq!(queues.len(), matched.queues.len(), "one group per queue name");
    (numbers(&matched.plain), queues)
}

fn found(index: &Interest<Arc<Sub>>, subject: &str) -> Sorted {
    let mut matched = Matched::new();
    let stamp = index.collect(subject.as_bytes(), &mut matched);
    assert!(index.is_current(&stamp));
    sorted(&matched)
}

fn expected(twin: &Twin<Arc<Sub>>, subject: &str) -> Sorted {
    let mut matched = Matched::new();
    twin.collect(subject.as_bytes(), &mut matched);
    sorted(&matched)
}

fn everybody(index: &Interest<Arc<Sub>>) -> Vec<u64> {
    let mut all = Vec::new();
    index.for_each(|m| all.push(m.number));
    all.sort_unstable();
    all
}

/// One of those who want the same, by its number.
impl Sought<Arc<Sub>> for Sub {
    fn subject(&self) -> &[u8] {
        &self.subject
    }

    fn queue(&self) -> Option<&[u8]> {
        self.queue.as_deref()
    }

    fn id(&self) -> u64 {
        Subscribed::id(self)
    }

    fn is(&self, m: &Arc<Sub>) -> bool {
        m.number == self.number
    }
}

#[test]
fn queues_of_one_name_are_one_group() {
    let index = Interest::new();
    for (number, subject) in ["a.*", "a.b", "*.b", ">", "a.c"].into_iter().enumerate() {
        index.insert(sub(number as u64, subject, Some("q")));
    }
    let (plain, queues) = found(&index, "a.b");
    assert_eq!((plain, queues), (vec![], BTreeMap::from([(b"q".to_vec(), vec![0, 1, 2, 3])])));
}

#[test]
fn an_index_without_stamps_finds_all_and_nothing_that_is_kept_is_current() {
    let index = Interest::without_stamps();
    for (number, subject) in ["a.*", "a.b", "a.b"].into_iter().enumerate() {
        index.insert(sub(number as u64, subject, None));
    }
    let mut matched = Matched::new();
    let stamp = index.collect(b"a.b", &mut matched);
    assert_eq!(sorted(&matched).0, [0, 1, 2]);
    assert!(!index.is_current(&stamp));
}

#[test]
fn only_changes_that_may_matter_outdate_a_result() {
    let index = Interest::new();
    let stamp = |subject: &str| index.collect(subject.as_bytes(), &mut Matched::new());
    let before = stamp("orders.new");
    // A hundred first tokens: some share a counter with `orders`, most do not.
    let spared = (0..100).filter(|i| {
        let before = stamp("orders.new");
        index.insert(sub(0, &format!("other{i}.x"), None));
        index.is_current(&before)
    });
    assert!(spared.count() > 80);
    for pattern in ["orders.new", "orders.*", "orders.old", "*.new", ">"] {
        let (before, member) = (stamp("orders.new"), sub(0, pattern, None));
        index.insert(member.clone());
        assert!(!index.is_current(&before), "insert {pattern}");
        let before = stamp("orders.new");
        assert!(index.remove(&member));
        assert!(!index.is_current(&before), "remove {pattern}");
        let before = stamp("orders.new");
        assert!(!index.remove(&member));
        assert!(index.is_current(&before), "nothing was removed");
    }
    assert!(!index.is_current(&before));
}

#[test]
fn a_subject_with_an_empty_token_reaches_nobody() {
    let index = Interest::new();
    for pattern in [">", "*", "*.*", "a.>", "*.*.*", "a.*.b"] {
        index.insert(sub(0, pattern, None));
    }
    for subject in ["", ".", "a.", ".a", "a..b", "..", "a.b."] {
        assert_eq!(found(&index, subject), Sorted::default(), "{subject:?}");
    }
}

#[test]
fn wildcards_in_a_subject_are_text() {
    let index = Interest::new();
    for (number, pattern) in ["a.*", "a.b", "a.>", "*.b", "*", ">"].into_iter().enumerate() {
        index.insert(sub(number as u64, pattern, None));
    }
    assert_eq!(found(&index, "a.*").0, [0, 2, 5]);
    assert_eq!(found(&index, "a.>").0, [0, 2, 5]);
    assert_eq!(found(&index, ">").0, [4, 5]);
}

#[test]
fn many_members_of_one_subject_come_and_go_in_any_order() {
    let index = Interest::new();
    let queue = |number: u64| [None, Some("q"), Some("r")][number as usize % 3];
    let members: Vec<_> = (0..3000).map(|n| sub(n, "a.b", queue(n))).collect();
    members.iter().for_each(|m| index.insert(m.clone()));
    assert_eq!(index.len(), 3000);
    // 7 and 3000 have no common factor: every member once, in a scattered order.
    for step in 0..3000 {
        let m = &members[step * 7 % 3000];
        assert!(index.remove(m) && !index.remove(m));
        if step % 500 == 0 {
            let (plain, queues) = found(&index, "a.b");
            let grouped: usize = queues.values().map(Vec::len).sum();
            assert_eq!(plain.len() + grouped, 2999 - step);
            assert!(plain.iter().all(|n| n % 3 == 0) && queues[&b"q"[..]].iter().all(|n| n % 3 == 1));
        }
    }
    assert!(index.is_empty() && found(&index, "a.b") == Sorted::default());
}

#[test]
fn many_queues_of_one_subject_come_and_go() {
    let index = Interest::new();
    let members: Vec<_> = (0..2000).map(|n| sub(n, "a.b", Some(&format!("q{n}")))).collect();
    members.iter().for_each(|m| index.insert(m.clone()));
    assert_eq!(found(&index, "a.b").1.len(), 2000);
    assert!(members.iter().all(|m| index.find(&**m).is_some_and(|found| found.same(m))));
    let (gone, left) = members.split_at(1999);
    assert!(gone.iter().all(|m| index.remove(m)));
    assert_eq!(found(&index, "a.b").1, BTreeMap::from([(b"q1999".to_vec(), vec![1999])]));
    assert!(index.remove(&left[0]) && index.is_empty());
}

#[test]
fn patterns_of_any_depth_are_found() {
    let index = Interest::new();
    let deep = |tokens: usize, end: &str| format!("{}{end}", "*.t.".repeat(tokens / 2));
    let subject = format!("{}e", "t.".repeat(20_000));
    let members: Vec<_> =
        (0..8).map(|n| sub(n, &deep(20_000, ["e", ">", "*", "f"][n as usize % 4]), None)).collect();
    members.iter().for_each(|m| index.insert(m.clone()));
    assert_eq!(found(&index, &subject).0, [0, 1, 2, 4, 5, 6]);
    assert_eq!(everybody(&index), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(members.iter().all(|m| index.find(&**m).is_some_and(|found| found.same(m))));
    assert!(members.iter().all(|m| index.remove(m)));
    assert!(members.iter().all(|m| !index.remove(m)));
    assert!(index.is_empty() && !index.has_wildcards());
}

#[test]
fn a_warm_result_is_filled_without_allocating() {
    let index = Interest::new();
    for number in 0..100 {
        index.insert(sub(number, "a.*", [None, Some("q"), Some("r")][number as usize % 3]));
    }
    let mut matched = Matched::new();
    let memory = |matched: &Matched<Arc<Sub>>| {
        let mut groups: Vec<_> =
            matched.queues.iter().map(|g| (g.members.as_ptr(), g.members.capacity())).collect();
        groups.sort_unstable();
        (matched.plain.as_ptr(), matched.plain.capacity(), matched.queues.as_ptr(), groups)
    };
    index.collect(b"a.b", &mut matched);
    // Once more, because groups may swap their memory and grow to the larger of the two.
    index.collect(b"a.b", &mut matched);
    let warm = memory(&matched);
    index.collect(b"b.b", &mut matched);
    assert!(matched.is_empty());
    index.collect(b"a.b", &mut matched);
    assert_eq!(memory(&matched), warm);
}

#[test]
fn for_each_may_use_the_index() {
    let index = Interest::new();
    (0..1000).for_each(|n| index.insert(sub(n, &format!("s.{n}.{}", ["x", "*"][n as usize % 2]), None)));
    index.for_each(|m| assert!(index.remove(m)));
    assert!(index.is_empty() && everybody(&index).is_empty());
}

#[derive(Clone, Debug)]
enum Action {
    Insert(String, Option<&'static str>),
    /// Inserts one of those that were ever inserted, counted around, unless it is there.
    Return(usize),
    /// Removes one of them.
    Remove(usize),
    Collect(String),
}

fn action() -> impl Strategy<Value = Action> {
    let queue = prop_oneof![Just(None), Just(Some("q")), Just(Some("r"))];
    prop_oneof![
        4 => ("(([ab*]|ab)\\.){0,3}[abc*>]", queue).prop_map(|(s, q)| Action::Insert(s, q)),
        2 => any::<usize>().prop_map(Action::Return),
        3 => any::<usize>().prop_map(Action::Remove),
        3 => "([abc]|ab){1}(\\.([ab*]|ab)){0,4}".prop_map(Action::Collect),
        1 => "[ab.*>]{0,4}".prop_map(Action::Collect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn the_index_agrees_with_its_twin(actions in prop::collection::vec(action(), 1..200)) {
        let (index, mut twin, mut ever) = (Interest::new(), Twin::new(), Vec::new());
        for action in actions {
            match action {
                Action::Insert(subject, queue) => {
                    let m = sub(ever.len() as u64, &subject, queue);
                    ever.push(m.clone());
                    twin.insert(m.clone());
                    index.insert(m);
                }
                Action::Return(_) | Action::Remove(_) if ever.is_empty() => {}
                Action::Return(which) => {
                    let m: &Arc<Sub> = &ever[which % ever.len()];
                    let is_there = twin.members().iter().any(|other| other.number == m.number);
                    let known = index.find_or_insert(&**m, || m.clone());
                    prop_assert_eq!(known.map(|known| known.number), is_there.then_some(m.number));
                    if !is_there {
                        twin.insert(m.clone());
                    }
                }
                Action::Remove(which) => {
                    let m = &ever[which % ever.len()];
                    prop_assert_eq!(index.remove(m), twin.remove(m));
                }
                Action::Collect(subject) => {
                    prop_assert_eq!(found(&index, &subject), expected(&twin, &subject), "{}", subject);
                }
            }
            prop_assert_eq!(index.len(), twin.members().len());
        }
        for m in &ever {
            let known = twin.members().iter().find(|other| other.number == m.number);
            prop_assert_eq!(index.find(&**m).map(|m| m.number), known.map(|m| m.number));
        }
        let wild = twin.members().iter().any(|m| has_wildcard(m.subject()));
        prop_assert_eq!(index.has_wildcards(), wild);
        let mut all: Vec<u64> = twin.members().iter().map(|m| m.number).collect();
        all.sort_unstable();
        prop_assert_eq!(everybody(&index), all);
        // What is emptied keeps nothing that a new member could stumble over.
        ever.iter().for_each(|m| { index.remove(m); });
        prop_assert!(index.is_empty() && !index.has_wildcards());
        prop_assert!(everybody(&index).is_empty());
    }
}

const SUBJECTS: [&str; 6] = ["a.b", "a.c", "b.b", "b.c.d", "a.b.c", "c"];
const PATTERNS: [&str; 10] = ["a.b", "a.c", "b.b", "c", "a.*", "a.b.*", "*.b", ">", "b.c.>", "b.c.d"];

/// Inserts and removes at random from a seed of its own; gives back what it left in the index.
fn churn(index: &Interest<Arc<Sub>>, seed: u64) -> Vec<Arc<Sub>> {
    let mut random = seed;
    let mut mine: Vec<Arc<Sub>> = Vec::new();
    for number in 0..100 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let choice = (random >> 33) as usize;
        if choice.is_multiple_of(2) || mine.is_empty() {
            let queue = [None, Some("q")][choice / 2 % 2];
            let m = sub(seed << 32 | number, PATTERNS[choice / 4 % PATTERNS.len()], queue);
            index.insert(m.clone());
            mine.push(m);
        } else {
            let m = mine.swap_remove(choice / 2 % mine.len());
            assert!(index.remove(&m));
        }
    }
    mine
}

/// Changes that a watcher saw, and when.
type Look = (&'static str, Sorted, EpochStamp);

/// Collects until told to stop; gives back all it saw whose stamp was not outdated at once.
fn watch(index: &Interest<Arc<Sub>>, stop: &AtomicBool) -> Vec<Look> {
    let (mut matched, mut looks) = (Matched::new(), Vec::new());
    while !stop.load(Ordering::Acquire) {
        for subject in SUBJECTS {
            let stamp = index.collect(subject.as_bytes(), &mut matched);
            looks.push((subject, sorted(&matched), stamp));
        }
        looks.retain(|(_, _, stamp)| index.is_current(stamp));
    }
    looks
}

/// Lets three threads change an index while two watch; gives back what is left in it and what was
/// seen.
fn race(index: &Interest<Arc<Sub>>, round: u64) -> (Vec<Arc<Sub>>, Vec<Look>) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watchers: Vec<_> = (0..2).map(|_| scope.spawn(|| watch(index, &stop))).collect();
        let churners: Vec<_> = (1..4).map(|n| scope.spawn(move || churn(index, round * 10 + n))).collect();
        let left = churners.into_iter().flat_map(|t| t.join().expect("churns")).collect();
        stop.store(true, Ordering::Release);
        let looks = watchers.into_iter().flat_map(|t| t.join().expect("watches")).collect();
        (left, looks)
    })
}

#[test]
fn threads_leave_the_index_as_its_twin_and_no_stamp_lies() {
    let mut current = 0;
    for round in 0..200 {
        let index = Interest::new();
        let (left, looks) = race(&index, round);
        let mut twin = Twin::new();
        left.into_iter().for_each(|m| twin.insert(m));
        assert_eq!(index.len(), twin.members().len());
        for subject in SUBJECTS {
            assert_eq!(found(&index, subject), expected(&twin, subject), "{subject}");
        }
        for (subject, result, stamp) in looks {
            if index.is_current(&stamp) {
                assert_eq!(result, expected(&twin, subject), "{subject}");
                current += 1;
            }
        }
    }
    assert!(current > 0);
}

#[test]
fn many_queue_groups_on_two_patterns_are_still_one_each() {
    let index = Interest::new();
    for n in 0..200 {
        let name = format!("q{n}");
        index.insert(sub(2 * n, "a", Some(&name)));
        index.insert(sub(2 * n + 1, "*", Some(&name)));
    }
    let mut out = Matched::new();
    for _ in 0..2 {
        index.collect(b"a", &mut out);
        assert_eq!(out.queues.len(), 200);
        assert!(out.queues.iter().all(|group| group.members.len() == 2));
    }
}

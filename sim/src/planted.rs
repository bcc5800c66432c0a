//! Bugs that are planted in the shipped code (`--cfg planted`, `myelin_stdx::planted`): what each
//! is, where it comes from, and whether the simulation finds it in its time.

use std::time::{Duration, Instant};

use crate::Simulated;

/// A bug, by its number in the code.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// Its number.
    pub number: u32,
    /// Words for what is wrong.
    pub what: &'static str,
    /// The bug of nats-server, or the one that replication must not have, that it is like.
    pub like: &'static str,
}

const fn bug(number: u32, what: &'static str, like: &'static str) -> Bug {
    Bug { number, what, like }
}

/// Bugs that one server can have.
pub const BUGS: [Bug; 28] = [
    bug(1, "a file counts as durable without its sync", "an acknowledgement of what is not synced"),
    bug(2, "half of a batch stays when the rest is torn off", "a batch that is released in half"),
    bug(3, "message ids are not known after a start", "nats-server issue 3272"),
    bug(4, "lifetimes of messages are not known after a start", "nats-server issue 2627"),
    bug(5, "deleted messages are back after a start", "nats-server pull requests 6685, 7384, 7387"),
    bug(6, "compaction leaves out the last message", "nats-server pull requests 2505, 7627"),
    bug(7, "streams and consumers are answered for before they are durable", "an answer before commit"),
    bug(8, "a removed consumer is back after a start", "nats-server issue 8258, on one server"),
    bug(9, "the journal counts as durable without its sync", "an acknowledgement of what is not synced"),
    bug(10, "a message goes although a second consumer needs it", "nats-server issues 2097, 3499"),
    bug(11, "acknowledgements are not known after a start", "nats-server pull requests 5419, 5482"),
    bug(12, "how often messages came is not known after a start", "nats-server issue 3361"),
    bug(13, "a purge up to a sequence takes that one, too", "nats-server pull request 2303, issue 4696"),
    bug(14, "what was removed still awaits its acknowledgement", "nats-server issue 6374, pull request 7984"),
    bug(15, "limits that were made tighter remove nothing", "nats-server pull requests 3595, 4446, 6244"),
    bug(
        16,
        "where a source has come to is not read from the messages",
        "nats-server issues 3119, 3559, 7796",
    ),
    bug(17, "the expected sequence of a subject is not looked at", "nats-server issue 4320"),
    bug(18, "a pause is forgotten", "a decision that is not carried over"),
    bug(19, "two increments in one buffer add to the same total", "a decision on what is stored alone"),
    bug(20, "a schedule that has fired stays", "a removal that is not in its entry"),
    bug(22, "sequences that were given out are given out again", "nats-server pull requests 1721, 3284"),
    bug(24, "a rollup removes nothing", "a removal that is not planned"),
    bug(30, "the limit of age takes a segment whose first message has aged", "planted unseen"),
    bug(31, "a limit per subject that refuses does not see a new subject's run", "planted unseen"),
    bug(32, "what a filter said of one segment's subjects counts for the next", "planted unseen"),
    bug(33, "an update of a consumer with the same rules is not written", "planted unseen"),
    bug(34, "message ids that are read at a start are as new as the start", "planted unseen"),
    bug(35, "a purge that keeps some passes over them for consumers", "planted unseen"),
];

/// Bugs of groups, which want a cluster: from 101 on those of the list that replication was
/// designed by, with its numbers; from 130 on others.
pub const BUGS_OF_GROUPS: [Bug; 33] = [
    bug(101, "a vote leaves before it is durable", "two votes in one term"),
    bug(102, "a leader acknowledges what it alone has written", "an acknowledgement without a majority"),
    bug(103, "a follower applies entries when it appends them", "what is taken back has happened"),
    bug(104, "what was to go, and stays, has lost its lifetime", "truncation forgets expiries"),
    bug(105, "ids of messages that were taken back are duplicates", "truncation forgets ids"),
    bug(106, "what was to go goes, though that was taken back", "truncation forgets planned removals"),
    bug(107, "entries of an older term are committed by count", "the figure 8 of the paper on Raft"),
    bug(108, "members that learn count as ones that vote", "a learner that is counted"),
    bug(109, "one majority of all counts in a change of members", "a joint quorum that is none"),
    bug(110, "a member that may have forgotten what it confirmed votes", "votes of amnesiacs"),
    bug(111, "what an earlier life of a member confirmed counts on", "nats-server issue 7549"),
    bug(
        112,
        "a stream that came as a whole has no image of consumers",
        "an install that is switched in early",
    ),
    bug(113, "segments are sealed that may still be taken back", "a seal above the commit"),
    bug(114, "streams that the meta replica does not know yet are removed", "nats-server issue 7556"),
    bug(115, "entries behind a change of members are not taken", "nats-server issue 6456"),
    bug(116, "who is no member any more becomes one by a message", "nats-server issue 8258"),
    bug(117, "a member whose stream was opened anew votes, whatever it has lost", "nats-server issue 7549"),
    bug(118, "followers have messages end by their own clocks", "nats-server issue 3596"),
    bug(119, "deliveries and answers to acknowledgements leave before the commit", "nats-server issue 5720"),
    bug(120, "a group rests while a member lacks entries", "a sleep that nobody ends"),
    bug(121, "no time has passed for a member that wakes", "a lease of a dead leader"),
    bug(122, "what is committed of a batch is released", "a batch that is released in half"),
    bug(123, "support counts from when its answer comes", "a lease that is counted from its receipt"),
    bug(124, "a change of members has no step with two majorities", "nats-server issue 7561"),
    bug(130, "publishers of what was taken back get the next answer", "an acknowledgement of what is lost"),
    bug(131, "followers do not note ids of messages", "a duplicate after a change of leaders"),
    bug(132, "votes are not known after a start", "two votes in one term"),
    bug(133, "some records of consumers are not applied", "states of consumers that differ"),
    bug(134, "the first half of a batch stays when its leader is gone", "a batch that is released in half"),
    bug(135, "a server that was started votes at once", "a promise that is forgotten"),
    bug(136, "a follower rests with another log than its leader's", "a sleep that nobody ends"),
    bug(137, "the file does not say what was taken back", "what is taken back is there after a start"),
    bug(138, "an old heartbeat wakes a follower, and nobody asks a leader that rests", "found here"),
];

/// Bugs that are to be found in one kind of world.
#[must_use]
pub const fn bugs_of(world: Simulated) -> &'static [Bug] {
    match world {
        Simulated::Server => &BUGS,
        Simulated::Cluster => &BUGS_OF_GROUPS,
    }
}

/// Result of the search for a bug.
#[derive(Debug)]
pub struct Found {
    /// The seed that went wrong, and why; nothing if none did.
    pub seed: Option<(u64, String)>,
    /// How many seeds ran, and how long that took.
    pub seeds: u64,
    /// Time of the processor.
    pub took: Duration,
}

/// Looks for a bug in seeds from `first` on, for so long at most. `None`: there are no bugs in this
/// build.
#[must_use]
pub fn find(world: Simulated, number: u32, first: u64, operations: u64, longest: Duration) -> Option<Found> {
    if !myelin_stdx::planted::wake(number) {
        return None;
    }
    let begun = processor_time();
    let took = |begun: Duration| processor_time().saturating_sub(begun);
    let mut found = Found { seed: None, seeds: 0, took: Duration::ZERO };
    while found.seed.is_none() && took(begun) < longest {
        let seed = first.wrapping_add(found.seeds);
        found.seeds += 1;
        if let Err(wrong) = world.attempt(seed, operations) {
            found.seed = Some((seed, wrong.why));
        }
    }
    found.took = took(begun);
    myelin_stdx::planted::wake(0);
    Some(found)
}

/// Time of the processor that the thread has had; where the system does not tell, time that has
/// passed.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|text| text.parse().ok());
    nanos.map_or_else(passed, Duration::from_nanos)
}

fn passed() -> Duration {
    static BEGUN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed()
}

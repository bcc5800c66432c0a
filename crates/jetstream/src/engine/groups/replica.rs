//! Replica of a group as this room knows it: somebody to tell news, and to call when there is some.

use crate::engine::calls::CallScope;
use crate::engine::scrub::Scrubbed;
use myelin_broker::ServiceShard;
use myelin_replica::frame::{GroupPlace, LogWord, RestWord, StateWord};
use myelin_replica::{Peer, RaftMessage, Vote};
use myelin_store::{InstallPoint, InstallSource};

/// News for a member of a group.
#[derive(Clone, Debug)]
pub(in crate::engine) enum MemberEvent {
    /// Another member of its group of this epoch has said something, to this life of this server.
    Message(u32, u32, RaftMessage),
    /// Another member of its group of this epoch has said where its log ends.
    Log(u32, Peer, LogWord),
    /// The leader of its group of this epoch has nothing to do any more.
    Rest(u32, Peer, RestWord),
    /// Another member of its group of this epoch asks for the state of its stream, or says one.
    State(u32, Peer, StateWord),
    /// Its stream is to be compared with those of the others, if it leads.
    Compare,
    /// Time has passed.
    Tick,
    /// A vote that it was to remember is durable.
    VotePersisted(Vote),
    /// Another server has begun a new life.
    NewLife(Peer, u32),
    /// Another server is gone.
    Lost(Peer),
    /// Another server supports this one from here on, at first or after a time in which it did not:
    /// its members may follow somebody else since.
    Lapsed(Peer),
    /// Nobody has led the group yet, and this member is to be the first.
    Stand,
    /// Just these peers are to be the members.
    Want(Vec<Peer>),
    /// Peers that vote where a log does not say who does.
    Founders(Vec<Peer>),
    /// Just these of those that vote are to count from now on; `None`: all again.
    Rescue(Option<Vec<Peer>>),
    /// Its group goes on in this epoch; as long as that is new, with just these of those that vote.
    Recover(u32, Option<Vec<Peer>>),
    /// Another member is to lead: this one, if it is named.
    HandOver(Option<Peer>),
    /// The meta group has said that the stream stays: any member may be the first leader.
    Open,
    /// Takes no lead from now on, or may again.
    SetAside(bool),
    /// Its stream lacks something that it had.
    Damaged,
    /// Its disk, which was full, has room again for what its group stores, or not yet.
    Room(bool),
    /// Another member gets the stream as of this entry.
    Installing(Peer, u64),
    /// Another member has got the stream as a whole: its log is another one now.
    Installed(Peer),
}

/// Stream of this server that is a member of a group.
pub(in crate::engine) trait GroupReplica: Scrubbed {
    /// Leaves news for its member. Somebody has to serve it then.
    fn tell(&self, event: MemberEvent);

    /// Has its member see what was left for it. For shards that hold no turn.
    fn serve_on(&self, shard: &mut ServiceShard);

    /// Has its member see what was left for it. For threads that may wait.
    fn serve_off_shard(&self);

    /// The members of its group, of which one may give it the whole stream: it lacks something that
    /// it had. Has another one lead first if this one leads. `None`: it lacks nothing. Only for
    /// threads that may wait.
    fn wants_whole(&self) -> Option<(GroupPlace, Vec<Peer>)>;

    /// Whether its stream is removed.
    fn is_gone(&self) -> bool;

    /// The stream as a whole for another member, and up to which sequence messages may have
    /// lifetimes of which only their headers tell. Entries behind that are kept for it. Only for
    /// threads that may wait.
    fn install_source(&self, to: Peer) -> Option<(GroupPlace, InstallSource, u64)>;

    /// Begins a replica that takes the place of this one when it has the whole stream. Only for
    /// threads that may wait.
    ///
    /// # Errors
    /// Words for why not.
    fn begin_install(
        &self,
        place: GroupPlace,
        point: InstallPoint,
        lifetimes_until: u64,
    ) -> Result<Box<dyn IncomingReplica>, String>;
}

/// Replica on its way to this server, where nobody sees it. It is removed when it is dropped before
/// it has taken the place of the one that is behind.
pub(in crate::engine) trait IncomingReplica: Send {
    /// Calls that must not come between while it takes its place.
    fn scope(&self) -> CallScope;

    /// Takes the next piece.
    ///
    /// # Errors
    /// Words for why it cannot be a part of the stream, or why the disk refuses it.
    fn take(&mut self, piece: &[u8]) -> Result<(), String>;

    /// How much of it is there, in percent, as far as sequences tell.
    fn percent(&mut self) -> u64;

    /// There was the last piece. Only for threads that may wait.
    ///
    /// # Errors
    /// Words for why the disk refuses it.
    fn finish(&mut self) -> Result<(), String>;

    /// Takes the place of the replica that is behind, and its place in the group. Only on the
    /// thread of the API.
    ///
    /// # Errors
    /// Words for why not. The old one stays, unless they say that there is none.
    fn replace(self: Box<Self>) -> Result<(), String>;
}

//! Services: what can receive messages besides connections.
//!
//! The broker knows that they exist and nothing else about them. A message for a service is copied
//! into a [`ServiceBatch`] of the publishing shard; the shard hands it over before its next flush,
//! and the service does its work right there, on the publisher's thread.

use crate::account::Account;
use crate::conn::Conn;
use crate::imports::{ServiceLink, ShadowService, StreamLink};
use crate::link::counted::CountMark;
use crate::service_batch::ServiceBatch;
use myelin_subject::Subscribed;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::Arc;
use std::time::Instant;

/// A shard as the services that it serves see it: the thread on which they work.
pub type ServiceShard = dyn Serving;

/// Calls by which a shard helps the services that it serves. Implemented by
/// [`Shard`](crate::Shard).
pub trait Serving {
    /// Publishes messages of a service in `account`, in order, and empties the buffer. What
    /// subscribers get is staged.
    fn send(&mut self, account: &Arc<Account>, msgs: &mut MessageBuf, now: Instant);

    /// Tells that nobody takes a message that a service was handed and that `origin` has sent. The
    /// client is told so if it wants to know, as when nobody had received it; one of another
    /// server, of a leaf node or behind a gateway in any case, whose connection only that server
    /// knows.
    fn send_no_responders(
        &mut self,
        account: &Arc<Account>,
        origin: &Arc<Conn>,
        msg: &MessageRef<'_>,
        now: Instant,
    );

    /// An empty buffer for what a service has to say, with the memory of those before.
    fn spare_buf(&mut self) -> MessageBuf;

    /// Takes the memory of a buffer back.
    fn keep_buf(&mut self, msgs: MessageBuf);

    /// Sees to it that the next flush calls `service`, even if nobody sends it anything.
    fn wake(&mut self, service: &Arc<dyn Service>);

    /// Has `service` told when what is staged now is in the outboxes of its receivers: what another
    /// shard sends after that comes later.
    fn after_flush(&mut self, service: Arc<dyn Service>);

    /// Whether a delivery to `subject` would go to a receiver for which
    /// [too much](crate::Settings::max_backlog) is staged or waits already: any of the plain
    /// subscriptions, or all members of a queue group. If so, `waiter` is woken, on whatever shard,
    /// when half of that is worked off or the receiver has ended. It may also be woken without
    /// need.
    fn is_congested(&mut self, account: &Arc<Account>, subject: &[u8], waiter: &Arc<dyn Service>) -> bool;
}

/// Wants to know when interest in a subject may have changed.
pub trait Watcher: Send + Sync {
    /// Tells that interest may have changed. Called where the change was made, right after it, with
    /// the shard if it was made on one: there a service can be [woken](Serving::wake) at once. Must
    /// not wait.
    fn interest_changed(&self, shard: Option<&mut ServiceShard>);
}

/// Takes messages and answers by [`Serving::send`].
pub trait Service: Send + Sync {
    /// Works off what was published since the last time on this shard, in order; an empty batch is
    /// a wake-up ([`Serving::wake`]). Runs on shards' threads, on several at once, and holds up
    /// everything else there: it must not wait, nor read from a disk.
    fn serve(&self, batch: &mut ServiceBatch, shard: &mut ServiceShard);

    /// Tells the service that what it has sent on this shard is in the outboxes of its receivers:
    /// see [`Serving::after_flush`]. What it sends now leaves with the next flush.
    fn flushed(&self, _: &mut ServiceShard) {}

    /// Whether those who publish to it should pause: it takes what comes, but cannot work it off as
    /// fast. Asked at most once for a batch, so it may cost something; a client that has published
    /// pauses a little, and is asked for again then.
    fn is_behind(&self) -> bool {
        false
    }

    /// Role of the service in the trace of a message.
    fn trace_role(&self) -> TraceRole<'_> {
        TraceRole::Untraced
    }

    /// Whether batches should say who sent each message.
    fn wants_origin(&self) -> bool {
        false
    }

    /// Servers whose messages it is for.
    fn reach(&self) -> Reach {
        Reach::Everywhere
    }
}

/// Servers whose messages a service is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All servers of the cluster.
    Everywhere,
    /// This server: the others are not told of it.
    Here,
    /// The others: what this server publishes itself is not published for it.
    Elsewhere,
    /// All servers that ask for it by what the account [offers](Account::offer) on its behalf: none
    /// is told of this subject by itself.
    Offered,
}

/// Role of a service in the [trace](crate::MessageTrace) of a message.
#[derive(Debug, Clone, Copy)]
pub enum TraceRole<'a> {
    /// Nothing is told of it, and it gets even messages that are only to be traced.
    Untraced,
    /// A stream. It gets those too, must not keep them, and says of each traced message what it
    /// did.
    Stream(&'a str),
    /// The service stands for the system account, into which traces do not go.
    System,
    /// The service stands for one of an account that imports the message.
    Import(&'a ShadowService),
}

/// Receiver of what matches a pattern that is no client.
#[derive(Clone)]
pub(crate) enum ServiceTarget {
    /// A service of this server.
    Service(Arc<dyn Service>),
    /// A service of this server that is a member of a queue group.
    Member(Arc<ServiceMember>),
    /// Another account, by what this one imports.
    Import(Arc<ServiceLink>),
    /// Whoever waits in another account for an answer of a service of this one.
    Requesters,
    /// Other servers that measure how long requests to clients of this one take.
    Measurers,
    /// Leaf nodes and hubs of another account, which imports a stream of this one.
    Leafs(Arc<StreamLink>),
}

/// Service that is a member of a queue group, in which other servers have members too.
pub(crate) struct ServiceMember {
    queue: Box<[u8]>,
    pub(crate) service: Arc<dyn Service>,
}

impl ServiceMember {
    pub(crate) fn new(queue: &[u8], service: Arc<dyn Service>) -> Self {
        Self { queue: queue.into(), service }
    }

    pub(crate) fn queue(&self) -> &[u8] {
        &self.queue
    }
}

impl ServiceTarget {
    /// The queue group of which it is a member, if it is one of any.
    pub(crate) fn queue(&self) -> Option<&[u8]> {
        match self {
            Self::Member(member) => Some(&member.queue),
            _ => None,
        }
    }

    /// Whether other servers are told that this one wants what is sent there. Compat: they import
    /// for themselves.
    pub(crate) fn is_announced(&self) -> bool {
        matches!(self.reach(), Reach::Everywhere | Reach::Elsewhere)
    }

    /// Whether leaf nodes and hubs are told of what no other server is.
    pub(crate) fn is_only_for_leafs(&self) -> bool {
        self.reach() == Reach::Here
    }

    /// Servers whose messages it receives.
    pub(crate) fn reach(&self) -> Reach {
        match self {
            Self::Service(service) => service.reach(),
            Self::Member(member) => member.service.reach(),
            Self::Requesters | Self::Leafs(_) => Reach::Everywhere,
            Self::Import(_) | Self::Measurers => Reach::Here,
        }
    }

    /// Whether both would receive a message as one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Service(one), Self::Service(two)) => Arc::ptr_eq(one, two),
            (Self::Member(one), Self::Member(two)) => Arc::ptr_eq(&one.service, &two.service),
            (Self::Import(one), Self::Import(two)) => Arc::ptr_eq(one, two),
            (Self::Leafs(one), Self::Leafs(two)) => Arc::ptr_eq(one, two),
            (Self::Requesters, Self::Requesters) | (Self::Measurers, Self::Measurers) => true,
            _ => false,
        }
    }
}

/// The interest of a receiver in the subjects that match a pattern, in one account.
pub struct Binding {
    subject: Box<[u8]>,
    receiver: ServiceTarget,
    counted: CountMark,
}

impl Binding {
    pub(crate) fn new(subject: &[u8], receiver: ServiceTarget) -> Self {
        Self { subject: subject.into(), receiver, counted: CountMark::default() }
    }

    /// Whether other servers, or leaf nodes, hear of it.
    pub(crate) fn counted(&self) -> &CountMark {
        &self.counted
    }

    pub(crate) fn receiver(&self) -> &ServiceTarget {
        &self.receiver
    }
}

impl Subscribed for Binding {
    fn subject(&self) -> &[u8] {
        &self.subject
    }

    fn queue(&self) -> Option<&[u8]> {
        self.receiver.queue()
    }
}

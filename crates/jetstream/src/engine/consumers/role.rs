//! Consumers of a replica that begins to lead its group, or to follow.
//!
//! What the group has of them is what counts, also of those that are in memory by their
//! configuration: they go on with the next leader. Those that it does not have, for streams that
//! copy, are of the replica that leads, and end when it leads no more: meanwhile another one may
//! have others of their names, with more acknowledged.

use super::StreamConsumers;
use super::left_requests::LeftRequests;
use super::live::LiveConsumer;
use super::manage::CreateContext;
use crate::engine::CallScope;
use myelin_jsapi::consumer::config::stored::Stored;
use myelin_stdx::sync::{lock, write_lock};
use myelin_streams::ReplicaRole;
use myelin_streams::consumer::{ConsumerCore, StateHandle, rules};
use std::sync::Arc;

/// Bytes of the largest message that may come, where nobody has said.
const LARGEST: i64 = 1 << 20;

impl StreamConsumers {
    /// Another role from now on. Requests for messages that end with the one before are told at
    /// once, or go to `left`. Only for threads that may wait.
    pub(in crate::engine) fn set_role(&self, role: ReplicaRole, left: Option<&LeftRequests>) {
        if self.log.is_of_group() {
            if role.leads() {
                self.forget_lost();
            } else {
                self.log.set_leads(false);
            }
        }
        let mut ended = Vec::new();
        for live in self.all() {
            let (stream, seed) = (self.stream.to_string(), self.seed());
            let leaves = left.is_some();
            let active = Arc::clone(self.log.active_times(&self.host));
            let was = live.act(move |core, turn| {
                let led = core.role().leads();
                let requests = if leaves { core.leave_requests() } else { Vec::new() };
                core.set_role(role, &stream, seed, turn);
                if role.leads() {
                    core.was_active(active.of(core.state_handle().id()));
                }
                (led, core.state_handle().clone(), requests)
            });
            let Some((led, state_handle, requests)) = was else { continue };
            if let Some(left) = left {
                left.add(requests.into_iter());
            }
            if led && self.is_of_leader(&state_handle) {
                self.end_with_leader(&live, &state_handle);
                ended.push(live);
            }
        }
        self.tell_downstreams(ended);
        if role.leads() {
            self.log.set_leaving(false);
            self.begin_missed();
            self.log.set_leads(true);
        }
    }

    /// Whether a consumer is none of its group's, but of the replica that leads.
    ///
    /// One that follows already was made before there was a group, which this replica founds.
    fn is_of_leader(&self, state_handle: &StateHandle) -> bool {
        self.log.is_of_group() && !self.is_stored(state_handle)
    }

    /// Ends a consumer of which nobody but this replica knows.
    fn end_with_leader(&self, live: &Arc<LiveConsumer>, state_handle: &StateHandle) {
        write_lock(&self.live).remove(live.name());
        self.forget(live, Some(state_handle), None);
        // One that is removed twice is removed.
        let _ = state_handle.lock().remove(state_handle.id());
    }

    /// Has nothing delivered of which the next leader would not know, until somebody
    /// [goes on](Self::go_on_delivering): what was delivered so far can be proposed then. Only for
    /// threads that may wait.
    pub(in crate::engine) fn stop_delivering(&self) {
        self.log.set_leaving(true);
        // Who is at it is through then.
        let all: Vec<_> = self.all().iter().map(|live| live.query_soon(|_, _| ())).collect();
        for through in all {
            // One that a panic has ended delivers nothing.
            let _ = through.wait();
        }
    }

    /// Goes on where no other replica has come to lead.
    pub(in crate::engine) fn go_on_delivering(&self) {
        self.log.set_leaving(false);
        self.all().iter().for_each(|live| live.wake());
    }

    /// Whether a consumer may deliver now.
    pub(super) fn may_deliver(&self, core: &ConsumerCore) -> bool {
        !self.log.is_leaving() || core.awaits_commit()
    }

    /// Keeps consumers in memory with the others: their stream becomes a group, and they are that
    /// group's.
    pub(in crate::engine) fn adopt_volatile(&self) {
        let states = &self.stored;
        for live in self.all() {
            let known = live.act(|core, _| (core.state_handle().clone(), core.created()));
            let (Some((before, created)), Some(config)) = (known, self.config(live.name())) else { continue };
            if config.direct || self.is_stored(&before) {
                continue;
            }
            let blob = Stored::new(created, &config).encode();
            // One whose name another has that cannot be read stays as it is.
            let Ok(id) = lock(states).create(&config.name, rules(&config), &blob) else { continue };
            let place = StateHandle::new(states, id);
            let moved = place.clone();
            live.act(move |core, _| core.move_state(moved));
            self.interest.set(id, true, &config);
            self.interest.remove(before.id(), false);
            // Nobody looks there any more.
            let _ = before.lock().remove(before.id());
        }
    }

    /// Has those who copy by consumers that were ended find another way.
    fn tell_downstreams(&self, ended: Vec<Arc<LiveConsumer>>) {
        let (false, Ok(stream)) = (ended.is_empty(), self.stream()) else { return };
        let tell = move || ended.iter().for_each(|live| stream.consumer_removed(live));
        self.host.spawn_api(CallScope::Server, Box::new(tell));
    }

    /// Ends consumers that are not as their group has them: they were made or changed here, and the
    /// group has not agreed, or others did while this replica followed: perhaps with the same
    /// configuration, and under the same number, which was given out again.
    fn forget_lost(&self) {
        let known = self.stored_consumers();
        for live in self.all() {
            let found = live.act(|core, _| (core.state_handle().clone(), core.created()));
            let found = found.filter(|(handle, _)| self.is_stored(handle));
            let Some((state_handle, created)) = found else { continue };
            let config = self.config(live.name());
            let is_known = known.iter().any(|(id, _, blob)| {
                let is_it =
                    |stored: Stored| stored.created == created && config.as_deref() == Some(&stored.config);
                *id == state_handle.id() && Stored::decode(blob).is_ok_and(is_it)
            });
            if !is_known {
                write_lock(&self.live).remove(live.name());
                self.forget(&live, Some(&state_handle), None);
            }
        }
    }

    /// Begins consumers that the group has, and that are not here.
    fn begin_missed(&self) {
        let (Some(me), Ok(stream)) = (self.me.upgrade(), self.stream()) else { return };
        if !self.log.is_of_group() {
            return;
        }
        let config = stream.config();
        let largest = if config.max_msg_size > 0 { i64::from(config.max_msg_size) } else { LARGEST };
        for (id, name, blob) in self.stored_consumers() {
            if self.find(&name).is_none() {
                let context = CreateContext { stream: &config, largest, seed: self.seed() };
                me.begin_stored(id, &name, &blob, &context);
            }
        }
    }
}

//! Faults of the server, its disk and its clock.

use std::io::ErrorKind;
use std::path::PathBuf;

use myelin_disk::faulty::{DiskFault, Survival};

use crate::model::{Status, StreamModel};
use crate::taste::Fault;
use crate::trouble::WINDOW;
use crate::world::{World, watched};

/// Turns of threads of which power is lost in one.
const SOON: u64 = 80;

/// Nanoseconds that a point of a slow disk takes, at most, and points that one round may have.
const SLOWEST: u64 = 20_000_000;
const SLOW_POINTS: u64 = 200;
/// Bytes of a message of a batch that power is lost in, and points of the disk of which it is one.
const BATCHED: u64 = 2_000;
const BATCH_POINTS: u64 = 6;

const SECOND: i64 = 1_000_000_000;

impl World {
    /// Something goes wrong, or an operator does something.
    pub(crate) fn fault(&mut self) -> Result<(), String> {
        let fault = self.taste.fault(&mut self.rng);
        self.note(|| format!("fault: {fault:?}"));
        match fault {
            Fault::Kill => {
                let turns = self.rng.below(40);
                self.turns(turns)?;
                return self.kill();
            }
            Fault::LosePower => self.lose_power_soon(SOON),
            Fault::LosePowerInBatch => self.lose_power_in_batch()?,
            Fault::FillDisk => {
                let room = self.rng.below(128 << 10);
                self.disk.set_capacity(Some(self.disk.used() + room));
                self.trouble.is_full = true;
            }
            Fault::Restart => {
                self.settle(10_000_000_000, 0)?;
                return self.restart();
            }
            Fault::JumpClock => self.jump(),
            Fault::FailDisk => self.fail_disk(),
            Fault::SlowDisk => {
                let pause = 1 + self.rng.below(SLOWEST);
                self.trouble.slow = pause * SLOW_POINTS;
                self.watch.set_pause(pause);
            }
            Fault::Panic => self.watch.panic_in(1 + self.rng.below(SOON / 4)),
            Fault::Unreadable => self.make_unreadable(),
            Fault::Damage => return self.damage(),
        }
        Ok(())
    }

    /// Power is lost at one of the next so many points of the disk.
    fn lose_power_soon(&mut self, points: u64) {
        let point = self.disk.points() + self.rng.below(points);
        self.disk.fail_at(point, DiskFault::Crash);
    }

    /// An atomic batch of some size comes, and power is lost while it is written, or just behind.
    fn lose_power_in_batch(&mut self) -> Result<(), String> {
        let keeps = |model: &StreamModel| {
            model.status == Status::There && !model.plan.is_in_memory && !model.is_limited()
        };
        let stream = self.streams.values().find(|model| keeps(model)).map(|model| model.plan.name.clone());
        let Some(stream) = stream else { return Ok(()) };
        self.settle(SECOND.unsigned_abs(), 0)?;
        self.publish_batch(0, &stream, BATCHED);
        self.lose_power_soon(BATCH_POINTS);
        self.tears_batch = true;
        Ok(())
    }

    fn jump(&mut self) {
        self.has_jumped = true;
        let by = (1 + self.rng.below(100) as i64) * SECOND;
        let by = if self.rng.below(2) == 0 { by } else { -by };
        self.clock.jump(by);
        if by < 0 {
            self.server.iter().for_each(|server| server.host.ring_all());
        }
        // What waits for a time of day may come at once, or late.
        let consumers = self.streams.values_mut().flat_map(|model| &mut model.consumers);
        consumers.for_each(|consumer| consumer.paused = None);
    }

    /// A write or a sync fails soon, or all of them until somebody heals the disk.
    fn fail_disk(&mut self) {
        if self.trouble.planned.is_some() {
            return;
        }
        let point = self.disk.points() + self.rng.below(SOON);
        let fault = match self.rng.below(4) {
            0 => DiskFault::ErrorsFrom(ErrorKind::Other),
            _ => DiskFault::Error(ErrorKind::Other),
        };
        self.disk.fail_at(point, fault);
        self.trouble.planned = Some(point);
    }

    /// A file with messages cannot be read until somebody heals it.
    fn make_unreadable(&mut self) {
        let Some(path) = self.some_segment().filter(|_| self.trouble.unreadable.is_none()) else { return };
        if self.disk.fail_reads(&path, 0..u64::MAX).is_ok() {
            self.counts.faults += 1;
            self.trouble.unreadable = Some(path);
        }
    }

    fn some_segment(&mut self) -> Option<PathBuf> {
        let files = self.disk.files().into_iter();
        let segments = files.filter(|(path, length)| {
            *length > 0 && path.extension().is_some_and(|extension| extension == "seg")
        });
        let segments: Vec<PathBuf> = segments.map(|(path, _)| path).collect();
        let at = self.rng.below(segments.len().max(1) as u64) as usize;
        segments.get(at).cloned()
    }

    /// The server ends as it should, bytes of a file change, and it starts: what is gone is said.
    fn damage(&mut self) -> Result<(), String> {
        self.check()?;
        if self.trouble.planned.is_some() {
            return Ok(());
        }
        let Some(server) = self.server.take() else { return Ok(()) };
        let closed = server.close();
        if self.disk.is_off() {
            return self.power_lost();
        }
        closed?;
        self.server_died(None);
        self.disk = watched(self.disk.kill(), &self.watch);
        if let Some(path) = self.some_segment() {
            let length = self.disk.files().get(&path).copied().unwrap_or(0);
            let at = self.rng.below(length.max(1));
            let harmed = match self.rng.below(2) {
                0 => self.disk.flip_bit(&path, at, self.rng.below(8) as u8),
                _ => self.disk.zero(&path, at..(at + 1 + self.rng.below(512)).min(length)),
            };
            harmed.map_err(|error| format!("{path:?} cannot be damaged: {error}"))?;
            self.note(|| format!("{path:?} is damaged at {at} of {length}"));
            self.counts.faults += 1;
            self.streams.values_mut().for_each(StreamModel::damage);
            self.copies.values_mut().for_each(|copy| copy.is_damaged = true);
        }
        self.come_back()
    }

    /// The process is killed, and the next one starts.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        if self.server.is_none() {
            return Ok(());
        }
        self.server_died(None);
        self.disk = watched(self.disk.kill(), &self.watch);
        self.come_back()
    }

    /// Power was lost, and comes back.
    pub(crate) fn power_lost(&mut self) -> Result<(), String> {
        let is_sure = self.plan.is_always_synced;
        let from = self.clock.elapsed().saturating_sub(WINDOW + self.trouble.slow);
        let from = self.trouble.shaky_from.map_or(from, |shaky| shaky.min(from));
        self.server_died((!is_sure).then_some(from));
        // Other survivals take or leave a write as a whole, and with it the batch.
        let is_torn = std::mem::take(&mut self.tears_batch);
        let survival = match self.rng.below(4) {
            _ if is_torn => Survival::Random(self.rng.next_u64()),
            0 => Survival::None,
            1 => Survival::All,
            2 => Survival::Prefix(self.rng.below(self.disk.unsynced() + 1)),
            _ => Survival::Random(self.rng.next_u64()),
        };
        self.disk = watched(self.disk.power_cycle(survival), &self.watch);
        self.come_back()
    }

    /// The server ends as it should, and starts.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        self.note_told_losses();
        let Some(server) = self.server.take() else { return Ok(()) };
        let closed = server.close();
        if self.disk.is_off() {
            return self.power_lost();
        }
        self.look_at_trouble();
        if !self.trouble.is_there() {
            closed?;
        }
        self.server_died(None);
        self.disk = watched(self.disk.kill(), &self.watch);
        self.come_back()
    }

    /// Starts the server, and looks what of what nobody was told about it has.
    fn come_back(&mut self) -> Result<(), String> {
        self.heal();
        self.trouble.restart();
        self.start()?;
        self.settle(SECOND.unsigned_abs(), 0)?;
        let Some(server) = &self.server else { return Ok(()) };
        let streams = server.streams();
        let now = self.clock.elapsed();
        for (name, copy) in &mut self.copies {
            copy.status = found_as(name, copy.status, streams.stream(name).is_some())?;
        }
        for (name, model) in &mut self.streams {
            let found = streams.stream(name);
            model.status = found_as(name, model.status, found.is_some())?;
            let Some(found) = found else { continue };
            if let Some(update) = model.update.take() {
                let config = found.config();
                let has_come = config.max_msgs.max(0).unsigned_abs() == update.limits.messages
                    && config.max_bytes.max(0).unsigned_abs() == update.limits.bytes
                    && config.max_age == update.limits.age
                    && config.max_msgs_per_subject.max(0).unsigned_abs() == update.limits.per_subject;
                if has_come {
                    model.plan = update;
                }
                model.settle_limits(now, self.has_jumped);
            }
            for consumer in &mut model.consumers {
                let is_found = found.consumers().find(&consumer.plan.name).is_some();
                let name = format!("{name} > {}", consumer.plan.name);
                match (consumer.status.is_sure(), is_found) {
                    (Some(true), false) => return Err(format!("{name}: the consumer is gone")),
                    (Some(false), true) => return Err(format!("{name}: the consumer has come back")),
                    _ => {}
                }
                consumer.status = if is_found { Status::There } else { Status::Gone };
                if let Some(config) = found.consumers().config(&consumer.plan.name) {
                    consumer.has_come_back(&name, config.max_ack_pending)?;
                }
                consumer.there_since.get_or_insert(now);
            }
        }
        for (name, mut model) in self.streams.extract_if(.., |_, model| model.status == Status::Gone) {
            model.forget_messages();
            self.gone.insert(name, model);
        }
        Ok(())
    }
}

/// State of a stream of which a server that has started knows, or does not.
fn found_as(name: &str, expected: Status, is_found: bool) -> Result<Status, String> {
    match (expected.is_sure(), is_found) {
        (Some(true), false) => Err(format!("{name}: the stream is gone")),
        (Some(false), true) => Err(format!("{name}: the stream has come back")),
        _ => Ok(if is_found { Status::There } else { Status::Gone }),
    }
}

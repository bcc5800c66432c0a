//! Faults of the server, its disk and its clock.

use myelin_disk::faulty::{DiskFault, Survival};

use crate::model::Status;
use crate::world::World;

/// In the default mode a loss of power takes what came in this time before it, at most.
const WINDOW: u64 = 100_000_000;
/// Turns of threads of which power is lost in one.
const SOON: u64 = 80;

const SECOND: i64 = 1_000_000_000;

impl World {
    /// Something goes wrong, or an operator does something.
    pub(crate) fn fault(&mut self) -> Result<(), String> {
        let what = self.rng.below(10);
        self.note(|| {
            format!("fault {what}: 0 to 2 kill, to 6 loss of power soon, 7 full disk, 8 restart, 9 clock")
        });
        match what {
            0..3 => {
                let turns = self.rng.below(40);
                self.turns(turns)?;
                self.kill()
            }
            3..7 => {
                let point = self.disk.points() + self.rng.below(SOON);
                self.disk.fail_at(point, DiskFault::Crash);
                Ok(())
            }
            7 => {
                let room = self.rng.below(128 << 10);
                self.disk.set_capacity(Some(self.disk.used() + room));
                Ok(())
            }
            8 => {
                self.settle(10_000_000_000, 0)?;
                self.restart()
            }
            _ => {
                self.has_jumped = true;
                let by = (1 + self.rng.below(100) as i64) * SECOND;
                self.clock.jump(if self.rng.below(2) == 0 { by } else { -by });
                Ok(())
            }
        }
    }

    /// The process is killed, and the next one starts.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        if self.server.is_none() {
            return Ok(());
        }
        self.server_died(None);
        self.disk = self.disk.kill();
        self.come_back()
    }

    /// Power was lost, and comes back.
    pub(crate) fn power_lost(&mut self) -> Result<(), String> {
        let is_sure = self.plan.is_always_synced;
        let from = self.clock.elapsed().saturating_sub(WINDOW);
        self.server_died((!is_sure).then_some(from));
        let survival = match self.rng.below(4) {
            0 => Survival::None,
            1 => Survival::All,
            2 => Survival::Prefix(self.rng.below(self.disk.unsynced() + 1)),
            _ => Survival::Random(self.rng.next_u64()),
        };
        self.disk = self.disk.power_cycle(survival);
        self.come_back()
    }

    /// The server ends as it should, and starts.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        let Some(server) = self.server.take() else { return Ok(()) };
        let closed = server.close();
        if self.disk.is_off() {
            return self.power_lost();
        }
        closed?;
        self.server_died(None);
        self.disk = self.disk.kill();
        self.come_back()
    }

    /// Starts the server, and looks what of what nobody was told about it has.
    fn come_back(&mut self) -> Result<(), String> {
        self.disk.set_capacity(None);
        self.start()?;
        self.settle(SECOND.unsigned_abs(), 0)?;
        let Some(server) = &self.server else { return Ok(()) };
        let streams = server.streams();
        let now = self.clock.elapsed();
        for (name, model) in &mut self.streams {
            let found = streams.stream(name);
            match (model.status.is_sure(), &found) {
                (Some(true), None) => return Err(format!("{name}: the stream is gone")),
                (Some(false), Some(_)) => return Err(format!("{name}: the stream has come back")),
                _ => {}
            }
            model.status = if found.is_some() { Status::There } else { Status::Gone };
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
            }
        }
        Ok(())
    }
}

//! Crash enumeration: one workload, every point, every kind of fault, several ways to survive.
//!
//! The workload runs on a fresh [`FaultyDisk`] and notes what it promised to its callers, as it
//! promises it. Then the process is killed or power is lost, and a check opens what is left and
//! holds it against the promises. Runs are reproducible: a [`Failure`] names its [`Case`], and
//! [`Enumeration::replay`] runs that one alone.

use std::fmt;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

use myelin_disk::faulty::{DiskFault, DiskStep, FaultyDisk, Survival};
use myelin_stdx::rng::Rng;

/// Workload that is enumerated. It must do the same each time, and never panic.
pub(crate) trait Script {
    /// Promises of the store to its callers in one run.
    type Promises: Clone + Default + fmt::Debug;

    /// Uses the store on an empty disk, and notes what it promises as it promises it. Returns when
    /// it is done or can do no more.
    fn work(&self, disk: &FaultyDisk, promises: &mut Self::Promises);

    /// Opens what is left, as the next process would, and notes what it promises by showing it.
    /// Power may be lost meanwhile: errors are as good as success.
    fn recover(&self, disk: &FaultyDisk, promises: &mut Self::Promises);

    /// Opens what is left, on a healthy disk, and says what does not agree with the promises.
    fn check(&self, disk: &FaultyDisk, promises: &Self::Promises, loss: Loss) -> Result<(), String>;
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The process dies; what was written is there.
    Process,
    /// The process dies and the disk is as full as it was.
    ProcessOnFullDisk,
    /// Power is lost; what was synced is there.
    Power(Survival),
}

/// One way through the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// Fault that strikes, and the point where; `None` is the healthy run.
    pub(crate) fault: Option<(u64, DiskFault)>,
    pub(crate) loss: Loss,
    /// Power is lost once more at this point of the recovery (or after it), and this is left.
    pub(crate) again: Option<(u64, Survival)>,
}

/// A case that went wrong.
#[derive(Debug)]
pub(crate) struct Failure {
    name: &'static str,
    seed: u64,
    pub(crate) case: Case,
    pub(crate) reason: String,
    journal: Vec<DiskStep>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} (seed {}): {:?}\n{}", self.name, self.seed, self.case, self.reason)?;
        writeln!(f, "what the disk was asked before:")?;
        self.journal.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

/// How much was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Points of the healthy run.
    pub(crate) points: u64,
    /// Runs of the workload.
    pub(crate) runs: u64,
    /// Checks of what was left.
    pub(crate) checks: u64,
    /// Checks after a second loss of power, during the recovery or after it.
    pub(crate) nested: u64,
}

/// Extent of an enumeration: the faults, survivals and recoveries that are tried.
#[derive(Clone, Debug)]
pub(crate) struct Enumeration {
    pub(crate) name: &'static str,
    pub(crate) seed: u64,
    /// Tried at every point.
    pub(crate) faults: Vec<DiskFault>,
    /// How many prefixes of the unsynced changes are tried, besides none and all.
    pub(crate) prefixes: u64,
    /// How many random survivals are tried.
    pub(crate) randoms: u64,
    /// Whether power is lost a second time: after every recovery, and at every point of those from
    /// a crash.
    pub(crate) crash_recovery: bool,
    /// Of how many faults at a point one is tried: which ones they are rotates from point to point,
    /// and with `first_fault`, so that as many runs with others try all of them.
    pub(crate) fault_step: u64,
    pub(crate) first_fault: u64,
    /// At every how many points of a recovery it is lost; where it begins rotates, so that all of
    /// them have their turn.
    pub(crate) recovery_step: u64,
    /// After every how many ways to end it is lost once more, where the process went on after its
    /// fault: which ways those are rotates, if points have no multiple of so many.
    pub(crate) after_step: u64,
}

impl Enumeration {
    pub(crate) fn new(name: &'static str, seed: u64) -> Self {
        let faults = vec![
            DiskFault::Crash,
            DiskFault::Error(ErrorKind::Other),
            DiskFault::ErrorsFrom(ErrorKind::Other),
            DiskFault::Error(ErrorKind::StorageFull),
            DiskFault::FullAfter(0),
            DiskFault::FullAfter(8192),
        ];
        Self {
            name,
            seed,
            faults,
            prefixes: 4,
            randoms: 4,
            crash_recovery: true,
            fault_step: 1,
            first_fault: 0,
            recovery_step: 1,
            after_step: 1,
        }
    }

    /// Tries everything, until something goes wrong.
    pub(crate) fn run(&self, script: &impl Script) -> Result<Summary, Box<Failure>> {
        Run { plan: self, script }.everything()
    }

    /// Tries one case.
    pub(crate) fn replay(&self, script: &impl Script, case: Case) -> Result<(), Box<Failure>> {
        let run = Run { plan: self, script };
        let (disk, promises) = run.work(case.fault)?;
        run.settle(&disk, &promises, case)
    }

    /// The faults to try at `point`.
    fn faults_at(&self, point: u64) -> impl Iterator<Item = DiskFault> {
        let first = (point + self.first_fault) % self.fault_step;
        self.faults.iter().copied().skip(first as usize).step_by(self.fault_step as usize)
    }

    /// The survivals to try after `point`, of `unsynced` changes.
    fn survivals(&self, point: u64, unsynced: u64) -> Vec<Survival> {
        let mut rng = Rng::seeded(self.seed ^ (point << 20));
        let steps = self.prefixes.min(unsynced.saturating_sub(1));
        let prefixes = (1..=steps).map(|step| Survival::Prefix(step * unsynced / (steps + 1)));
        let mut survivals = vec![Survival::None, Survival::All];
        survivals.extend(prefixes);
        survivals.extend((0..self.randoms).map(|_| Survival::Random(rng.next_u64())));
        survivals
    }
}

/// An enumeration on its way.
struct Run<'a, S> {
    plan: &'a Enumeration,
    script: &'a S,
}

impl<S: Script> Run<'_, S> {
    fn everything(&self) -> Result<Summary, Box<Failure>> {
        let (healthy, promises) = self.work(None)?;
        self.compare_with_a_second_run(&healthy)?;
        let mut summary = Summary { points: healthy.points(), runs: 2, ..Summary::default() };
        self.settle_all(&healthy, &promises, None, &mut summary)?;
        for point in 0..summary.points {
            for fault in self.plan.faults_at(point) {
                let fault = Some((point, fault));
                let (disk, promises) = self.work(fault)?;
                summary.runs += 1;
                self.settle_all(&disk, &promises, fault, &mut summary)?;
            }
        }
        Ok(summary)
    }

    /// Runs the workload on a fresh disk.
    fn work(&self, fault: Option<(u64, DiskFault)>) -> Result<(FaultyDisk, S::Promises), Box<Failure>> {
        let disk = FaultyDisk::new(self.plan.seed);
        if let Some((point, fault)) = fault {
            disk.fail_at(point, fault);
        }
        let mut promises = S::Promises::default();
        let worked = catch_unwind(AssertUnwindSafe(|| self.script.work(&disk, &mut promises)));
        match worked {
            Ok(()) => Ok((disk, promises)),
            Err(panic) => {
                let case = Case { fault, loss: Loss::Process, again: None };
                Err(self.failure(&disk, case, format!("the workload panicked: {}", words(&*panic))))
            }
        }
    }

    /// A workload that does not repeat itself cannot be enumerated.
    fn compare_with_a_second_run(&self, first: &FaultyDisk) -> Result<(), Box<Failure>> {
        let (second, _) = self.work(None)?;
        let same = first.journal() == second.journal() && first.difference(&second).is_none();
        let case = Case { fault: None, loss: Loss::Process, again: None };
        if same { Ok(()) } else { Err(self.failure(&second, case, "two equal runs differ".into())) }
    }

    /// Ends a run in all ways.
    fn settle_all(
        &self,
        disk: &FaultyDisk,
        promises: &S::Promises,
        fault: Option<(u64, DiskFault)>,
        summary: &mut Summary,
    ) -> Result<(), Box<Failure>> {
        let point = fault.map_or(summary.points, |(point, _)| point);
        let survivals = self.plan.survivals(point, disk.unsynced());
        let mut losses = vec![Loss::Process];
        if matches!(fault, Some((_, DiskFault::FullAfter(_)))) {
            losses.push(Loss::ProcessOnFullDisk);
        }
        losses.extend(survivals.iter().map(|survival| Loss::Power(*survival)));
        for loss in losses {
            let case = Case { fault, loss, again: None };
            self.settle(disk, promises, case)?;
            summary.checks += 1;
            let is_crash = matches!(fault, Some((_, DiskFault::Crash)));
            if self.plan.crash_recovery && (is_crash || summary.checks.is_multiple_of(self.plan.after_step)) {
                summary.nested += self.crash_the_recovery(disk, promises, case)?;
            }
        }
        Ok(())
    }

    /// Loses power during one recovery and after it. Gives back how many checks there were.
    ///
    /// After it matters even where nothing was lost before: a process that was killed after a
    /// failed sync leaves a cache that shows what the device does not have, and the next process
    /// must not believe it.
    fn crash_the_recovery(
        &self,
        disk: &FaultyDisk,
        promises: &S::Promises,
        case: Case,
    ) -> Result<u64, Box<Failure>> {
        let probe = self.left(disk, case.loss);
        self.recovered(&probe, promises, case)?;
        let behind = probe.points();
        self.settle(disk, promises, Case { again: Some((behind, Survival::None)), ..case })?;
        if !matches!(case.fault, Some((_, DiskFault::Crash))) {
            return Ok(1);
        }
        let step = self.plan.recovery_step;
        let begin = case.fault.map_or(0, |(point, _)| point) % step;
        let mut checks = 1;
        for point in (begin..behind).step_by(step as usize) {
            // Rotates through the survivals: over all points each meets each.
            let turn = point + case.fault.map_or(0, |(point, _)| point);
            let survival = match turn % 3 {
                0 => Survival::None,
                1 => Survival::All,
                _ => Survival::Random(self.plan.seed ^ turn),
            };
            self.settle(disk, promises, Case { again: Some((point, survival)), ..case })?;
            checks += 1;
        }
        Ok(checks)
    }

    /// Ends a run in one way and checks what is left.
    fn settle(&self, disk: &FaultyDisk, promises: &S::Promises, case: Case) -> Result<(), Box<Failure>> {
        let left = self.left(disk, case.loss);
        let Some((point, survival)) = case.again else {
            return self.checked(&left, promises, case, case.loss);
        };
        left.fail_at(point, DiskFault::Crash);
        let promises = self.recovered(&left, promises, case)?;
        // Even where the process was only killed at first, now power was lost.
        let last = left.power_cycle(survival);
        last.set_capacity(None);
        self.checked(&last, &promises, case, Loss::Power(survival))
    }

    fn left(&self, disk: &FaultyDisk, loss: Loss) -> FaultyDisk {
        let left = match loss {
            Loss::Process | Loss::ProcessOnFullDisk => disk.kill(),
            Loss::Power(survival) => disk.power_cycle(survival),
        };
        if loss != Loss::ProcessOnFullDisk {
            left.set_capacity(None);
        }
        left
    }

    /// Recovers; gives back what is promised from then on.
    fn recovered(
        &self,
        left: &FaultyDisk,
        promises: &S::Promises,
        case: Case,
    ) -> Result<S::Promises, Box<Failure>> {
        let mut promises = promises.clone();
        catch_unwind(AssertUnwindSafe(|| self.script.recover(left, &mut promises))).map_err(|panic| {
            self.failure(left, case, format!("the recovery panicked: {}", words(&*panic)))
        })?;
        Ok(promises)
    }

    fn checked(
        &self,
        left: &FaultyDisk,
        promises: &S::Promises,
        case: Case,
        loss: Loss,
    ) -> Result<(), Box<Failure>> {
        let checked = catch_unwind(AssertUnwindSafe(|| self.script.check(left, promises, loss)));
        let reason = match checked {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(reason)) => format!("{reason}\nwhat was promised: {promises:?}"),
            Err(panic) => format!("the check panicked: {}", words(&*panic)),
        };
        Err(self.failure(left, case, reason))
    }

    fn failure(&self, disk: &FaultyDisk, case: Case, reason: String) -> Box<Failure> {
        Box::new(Failure {
            name: self.plan.name,
            seed: self.plan.seed,
            case,
            reason,
            journal: disk.journal(),
        })
    }
}

/// Text of a panic.
fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no words)")
}

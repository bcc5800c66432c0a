//! One run: the server, its loads, the rounds, the verdict.

use crate::judge::{Figure, LAST, judge};
use crate::load::{Loads, Tally};
use crate::measure::{FIGURES, Measure};
use crate::plan::Plan;
use crate::server::Server;
use crate::verdict::Verdict;
use crate::world::World;
use crate::{Error, report};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// How often the process is looked at.
const SAMPLE: Duration = Duration::from_millis(500);
/// How long all is quiet at the end of a round before it is measured. What lives for a second
/// (messages, keys, abandoned consumers, requests without an answer) or two (batches) has gone by
/// then.
const REST: Duration = Duration::from_millis(3500);
/// How long loads may take to end their turns.
const LAST_TURNS: Duration = Duration::from_secs(60);

/// Runs `plan`, and gives every line of its table to `print`.
///
/// # Errors
/// When there is nothing to judge: the server does not start, or a load cannot be set up. What goes
/// wrong later is part of the verdict.
pub async fn run(plan: &Plan, mut print: impl FnMut(&str)) -> Result<Verdict, Error> {
    print(&format!("seed {}: {} s in {} rounds", plan.seed, plan.duration.as_secs(), plan.rounds()));
    let mut server = Server::start(&plan.server)?;
    let world = Arc::new(World::new(plan, &server));
    let loads = match Loads::start(&world).await {
        Ok(loads) => loads,
        Err(why) => return Err(format!("{why}\nthe server's log:\n{}", server.log()).into()),
    };
    let mut verdict = Verdict::default();
    match rounds(plan, &world, &loads, &mut print).await {
        Ok(seen) => {
            verdict.grown = judge(&figures(&world, plan), &seen.rows);
            verdict.held = seen.measure.held();
            verdict.idle =
                loads.tallies().into_iter().filter(|tally| is_idle(tally, &seen.tallies)).collect();
        }
        Err(why) => verdict.faults.push(format!("the run ended early: {why}")),
    }
    print(&summary(&loads.tallies()));
    loads.end().await?;
    stop(&mut server, &mut verdict);
    if !verdict.is_good() {
        verdict.folder = Some(server.keep_folder());
    }
    Ok(verdict)
}

/// Figures that are judged. Compat: nats-server's memory under load is what its collector has not
/// come to yet; at rest it counts.
fn figures(world: &World, plan: &Plan) -> [Figure; FIGURES.len()] {
    let is_judged = |figure: &Figure| world.is_myelin() || figure.name != "rss";
    FIGURES.map(|figure| {
        let floor = if is_judged(&figure) { figure.floor } else { f64::INFINITY };
        Figure { floor: floor.max(if plan.is_short() { warming(figure.name) } else { 0.0 }), ..figure }
    })
}

/// Amount that a figure may still gain in a run whose third round is over before its third minute:
/// streams fill their segments, and the store its caches of their tables (64 MiB at most) and
/// blocks (32 MiB). Seen in two minutes were 12 MiB of memory and 45 of the disk; the leaks that
/// this run is for were larger. Visitors have 300 to 355 subscriptions, by what each does just
/// then, and few rounds may begin with few. So do streams with holes: 1,480 to 2,750 of them were
/// seen, up and down.
fn warming(figure: &str) -> f64 {
    match figure {
        "rss" | "rss.rest" | "anon.rest" => 16.0,
        "disk" | "disk.rest" => 56.0,
        "subs" | "subsz" | "acc.subs" => 56.0,
        "deleted" => 1000.0,
        _ => 0.0,
    }
}

/// Measurements of all rounds.
struct Seen {
    /// A row for each round.
    rows: Vec<Vec<f64>>,
    /// How far the loads had come by the end of each round.
    tallies: Vec<Vec<Tally>>,
    measure: Measure,
}

async fn rounds(
    plan: &Plan,
    world: &World,
    loads: &Loads,
    print: &mut impl FnMut(&str),
) -> Result<Seen, Error> {
    let start = Instant::now();
    let mut measure = Measure::new();
    let (mut rows, mut tallies) = (Vec::new(), Vec::new());
    print(&report::head(&FIGURES));
    for round in 1..=plan.rounds() {
        let until = start + plan.round() * round - REST;
        let mut clock = interval(SAMPLE);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while Instant::now() < until {
            clock.tick().await;
            measure.sample(world)?;
        }
        let rest = timeout(LAST_TURNS, world.rest()).await.map_err(|_| "a load did not come to rest")?;
        let rested = Instant::now() + REST;
        while Instant::now() < rested {
            sleep(SAMPLE).await;
            measure.glance(world)?;
        }
        let row = measure.row(world).await?;
        print(&report::row(&FIGURES, round, start.elapsed().as_secs_f64(), measure.longest_open(), &row));
        rows.push(row);
        tallies.push(loads.tallies());
        if round == plan.rounds() {
            // Nobody begins anew.
            world.end();
        }
        drop(rest);
    }
    Ok(Seen { rows, tallies, measure })
}

/// Whether a load failed more often than it did its work, or did nothing at all in the rounds that
/// speak for the end.
fn is_idle(tally: &Tally, rounds: &[Vec<Tally>]) -> bool {
    let before_last = rounds.len().checked_sub(LAST + 1).map(|at| &rounds[at]);
    let before = before_last.into_iter().flatten().find(|before| before.name == tally.name);
    tally.done <= tally.failed || before.is_some_and(|before| before.done == tally.done)
}

fn summary(tallies: &[Tally]) -> String {
    let failed: Vec<String> = tallies
        .iter()
        .filter(|tally| tally.failed > 0)
        .map(|tally| {
            let why = tally.last_error.as_deref().unwrap_or_default();
            format!(
                "\n  {}: {} of {} turns failed, the last one: {why}",
                tally.name,
                tally.failed,
                tally.done + tally.failed
            )
        })
        .collect();
    let turns: u64 = tallies.iter().map(|tally| tally.done).sum();
    format!("{} loads, {turns} turns{}", tallies.len(), failed.concat())
}

/// Ends the server, and looks for what it should not have said.
fn stop(server: &mut Server, verdict: &mut Verdict) {
    match server.stop() {
        Ok(status) if status.success() => {}
        Ok(status) => verdict.faults.push(format!("the server ended with {status}")),
        Err(why) => verdict.faults.push(why.to_string()),
    }
    let log = server.log();
    let bad = log.lines().filter(|line| line.contains("panic") || line.contains("[FTL]"));
    verdict.faults.extend(bad.take(5).map(|line| format!("the server's log says: {line}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(done: u64, failed: u64) -> Tally {
        Tally { name: "it".into(), done, failed, last_error: None }
    }

    #[test]
    fn who_works_no_more_is_idle() {
        let rounds: Vec<Vec<Tally>> = [5, 10, 15, 15, 15].map(|done| vec![tally(done, 0)]).into();
        assert!(!is_idle(&tally(15, 0), &rounds), "it worked in the third round of five");
        let rounds: Vec<Vec<Tally>> = [5, 10, 10, 10, 10].map(|done| vec![tally(done, 0)]).into();
        assert!(is_idle(&tally(10, 0), &rounds));
        assert!(is_idle(&tally(10, 10), &[]));
        assert!(is_idle(&tally(0, 0), &[]));
        assert!(!is_idle(&tally(10, 9), &[]));
    }
}

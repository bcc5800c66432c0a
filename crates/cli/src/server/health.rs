//! `myelin server check connection|stream|consumer`: whether they are as somebody wants them, for
//! programs that watch.
//!
//! Owns the verdict and its one line, which has the form of Nagios' plugins, as the official
//! command has it: `WARNING name WARNING:what | measured=1;2;3`.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use myelin_loadgen::admin::Admin;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::target_server::ConnectionFlags;
use myelin_loadgen::units::{Time, human_time};
use serde_json::Value;

use crate::screen::{one_line, say};
use crate::table::{passed, text};

/// `myelin server check connection`
#[derive(Args, Debug)]
pub(super) struct ConnectionCheck {
    /// Longest time until the connection stands, for a warning
    #[arg(long, default_value = "500ms", value_name = "DURATION")]
    connect_warn: Time,
    /// Longest time until the connection stands, for a critical verdict
    #[arg(long, default_value = "1s", value_name = "DURATION")]
    connect_critical: Time,
    /// Longest round trip to the server, for a warning
    #[arg(long, default_value = "500ms", value_name = "DURATION")]
    rtt_warn: Time,
    /// Longest round trip to the server, for a critical verdict
    #[arg(long, default_value = "1s", value_name = "DURATION")]
    rtt_critical: Time,
    #[command(flatten)]
    flags: ConnectionFlags,
}

/// `myelin server check stream`
#[derive(Args, Debug)]
pub(super) struct StreamCheck {
    /// Stream to check
    #[arg(long)]
    stream: String,
    /// Messages that a mirror or a source may be behind
    #[arg(long, value_name = "NUMBER")]
    lag_critical: Option<u64>,
    /// Longest time since something was heard of a mirror's or a source's origin
    #[arg(long, value_name = "DURATION")]
    seen_critical: Option<Time>,
    /// Servers that must have the stream
    #[arg(long, value_name = "NUMBER")]
    peer_expect: Option<u64>,
    /// Operations that a replica may be behind
    #[arg(long, value_name = "NUMBER")]
    peer_lag_critical: Option<u64>,
    /// Longest time since something was heard of a replica
    #[arg(long, value_name = "DURATION")]
    peer_seen_critical: Option<Time>,
    /// Warn of fewer messages
    #[arg(long, value_name = "NUMBER")]
    msgs_warn: Option<u64>,
    /// Fewer messages are critical
    #[arg(long, value_name = "NUMBER")]
    msgs_critical: Option<u64>,
    #[command(flatten)]
    flags: ConnectionFlags,
}

/// `myelin server check consumer`
#[derive(Args, Debug)]
pub(super) struct ConsumerCheck {
    /// Stream of the consumer
    #[arg(long)]
    stream: String,
    /// Consumer to check
    #[arg(long)]
    consumer: String,
    /// Messages that may await their acknowledgement
    #[arg(long, value_name = "NUMBER")]
    outstanding_ack_critical: Option<u64>,
    /// Pull requests that may wait
    #[arg(long, value_name = "NUMBER")]
    waiting_critical: Option<u64>,
    /// Messages that may be still to be delivered
    #[arg(long, value_name = "NUMBER")]
    unprocessed_critical: Option<u64>,
    /// Messages that may have been delivered again
    #[arg(long, value_name = "NUMBER")]
    redelivery_critical: Option<u64>,
    /// Longest time since the last delivery
    #[arg(long, value_name = "DURATION")]
    last_delivery_critical: Option<Time>,
    /// Longest time since the last acknowledgement
    #[arg(long, value_name = "DURATION")]
    last_ack_critical: Option<Time>,
    #[command(flatten)]
    flags: ConnectionFlags,
}

/// How bad something is; the number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Fine = 0,
    Warning = 1,
    Critical = 2,
}

/// Everything that was found.
#[derive(Debug, Default)]
struct Findings {
    found: Vec<(Severity, String)>,
    measured: String,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Fine => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
        }
    }
}

impl Findings {
    fn add(&mut self, severity: Severity, what: String) {
        self.found.push((severity, what));
    }

    /// Judges a number by the most that it may be.
    fn most(&mut self, name: &str, value: u64, critical: Option<u64>) {
        let bound = critical.map_or_else(String::new, |critical| format!(";;{critical}"));
        let _ = write!(self.measured, " {}={value}{bound}", name.replace(' ', "_"));
        match critical {
            Some(critical) if value > critical => self.add(Severity::Critical, format!("{name}: {value}")),
            Some(_) => self.add(Severity::Fine, format!("{name}: {value}")),
            None => {}
        }
    }

    /// Judges a length of time by the longest that it may be.
    fn longest(
        &mut self,
        name: &str,
        value: Duration,
        warning: Option<Duration>,
        critical: Option<Duration>,
    ) {
        let seconds = |bound: Option<Duration>| {
            bound.map_or_else(String::new, |bound| format!("{:.4}", bound.as_secs_f64()))
        };
        let (name_of_figure, value_of_figure) = (name.replace(' ', "_"), value.as_secs_f64());
        let (low, high) = (seconds(warning), seconds(critical));
        let _ = write!(self.measured, " {name_of_figure}={value_of_figure:.4}s;{low};{high}");
        let severity = match () {
            () if critical.is_some_and(|critical| value > critical) => Severity::Critical,
            () if warning.is_some_and(|warning| value > warning) => Severity::Warning,
            () => Severity::Fine,
        };
        if warning.or(critical).is_some() {
            self.add(severity, format!("{name}: {}", human_time(value)));
        }
    }

    fn severity(&self) -> Severity {
        self.found.iter().map(|(severity, _)| *severity).max().unwrap_or(Severity::Fine)
    }

    /// The line that is printed, worst findings first.
    fn line(mut self, name: &str) -> String {
        self.found.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
        let severity = self.severity();
        let found: String =
            self.found.iter().map(|(severity, what)| format!(" {}:{what}", severity.word())).collect();
        let measured = if self.measured.is_empty() { String::new() } else { format!(" |{}", self.measured) };
        one_line(&format!("{} {name}{found}{measured}", severity.word()))
    }
}

/// Prints the verdict; a server that cannot be asked is critical.
fn verdict(name: &str, check: impl FnOnce(&mut Findings) -> Result<(), BenchError>) -> ExitCode {
    let mut findings = Findings::default();
    if let Err(error) = check(&mut findings) {
        findings.add(Severity::Critical, error.to_string());
    }
    let severity = findings.severity();
    say(&findings.line(name));
    ExitCode::from(severity as u8)
}

pub(super) fn connection(check: &ConnectionCheck) -> ExitCode {
    verdict("Connection", |findings| {
        let began = Instant::now();
        let mut connection = check.flags.target()?.connect()?;
        let connected = began.elapsed();
        let began = Instant::now();
        connection.barrier()?;
        let (warning, critical) = (Some(check.connect_warn.0), Some(check.connect_critical.0));
        findings.longest("connect time", connected, warning, critical);
        findings.longest("rtt", began.elapsed(), Some(check.rtt_warn.0), Some(check.rtt_critical.0));
        Ok(())
    })
}

pub(super) fn stream(check: &StreamCheck) -> ExitCode {
    verdict(&check.stream, |findings| {
        names::stream(&check.stream)?;
        let info = Admin::open(&check.flags.target()?)?.stream(&check.stream)?;
        judge_stream(check, &info, findings);
        Ok(())
    })
}

fn judge_stream(check: &StreamCheck, info: &Value, findings: &mut Findings) {
    let messages = info["state"]["messages"].as_u64().unwrap_or_default();
    let _ = write!(findings.measured, " messages={messages}");
    for (severity, least) in [(Severity::Warning, check.msgs_warn), (Severity::Critical, check.msgs_critical)]
    {
        if least.is_some_and(|least| messages < least) {
            findings.add(severity, format!("messages: {messages}"));
        }
    }
    let mirror = Some(&info["mirror"]).filter(|mirror| mirror.is_object());
    for origin in mirror.into_iter().chain(info["sources"].as_array().into_iter().flatten()) {
        behind(findings, origin, check.lag_critical, check.seen_critical);
    }
    let cluster = &info["cluster"];
    let replicas = cluster["replicas"].as_array().map_or(&[][..], Vec::as_slice);
    if cluster["name"].is_string() && text(&cluster["leader"]).is_empty() {
        findings.add(Severity::Critical, "no leader".into());
    }
    if let Some(expected) = check.peer_expect {
        let there = replicas.len() as u64 + 1;
        let severity = if there == expected { Severity::Fine } else { Severity::Critical };
        findings.add(severity, format!("servers: {there} of {expected}"));
    }
    for replica in replicas {
        if replica["offline"] == true {
            findings.add(Severity::Critical, format!("{} is offline", text(&replica["name"])));
        }
        behind(findings, replica, check.peer_lag_critical, check.peer_seen_critical);
    }
}

/// Judges how far a copy is behind, and when something was last heard of it.
fn behind(findings: &mut Findings, copy: &Value, lag: Option<u64>, seen: Option<Time>) {
    let name = text(&copy["name"]);
    findings.most(&format!("{name} lag"), copy["lag"].as_u64().unwrap_or_default(), lag);
    match (copy["active"].as_u64(), seen) {
        (Some(nanos), seen) => {
            let critical = seen.map(|Time(seen)| seen);
            findings.longest(&format!("{name} seen"), Duration::from_nanos(nanos), None, critical);
        }
        (None, Some(_)) => findings.add(Severity::Critical, format!("{name} was never seen")),
        (None, None) => {}
    }
}

pub(super) fn consumer(check: &ConsumerCheck) -> ExitCode {
    let ConsumerCheck { stream, consumer, .. } = check;
    verdict(&format!("{stream}_{consumer}"), |findings| {
        names::stream(stream)?;
        names::consumer(consumer)?;
        let mut admin = Admin::open(&check.flags.target()?)?;
        let info = admin.ask(&format!("CONSUMER.INFO.{stream}.{consumer}"), &Value::Null)?;
        judge_consumer(check, &info, findings);
        Ok(())
    })
}

fn judge_consumer(check: &ConsumerCheck, info: &Value, findings: &mut Findings) {
    let count = |name: &str| info[name].as_u64().unwrap_or_default();
    findings.most("ack pending", count("num_ack_pending"), check.outstanding_ack_critical);
    findings.most("waiting pulls", count("num_waiting"), check.waiting_critical);
    findings.most("unprocessed", count("num_pending"), check.unprocessed_critical);
    findings.most("redelivered", count("num_redelivered"), check.redelivery_critical);
    for (name, place, bound) in [
        ("last delivery", "delivered", check.last_delivery_critical),
        ("last ack", "ack_floor", check.last_ack_critical),
    ] {
        match (passed(&info[place]["last_active"]), bound) {
            (Some(passed), bound) => findings.longest(name, passed, None, bound.map(|Time(bound)| bound)),
            (None, Some(_)) => findings.add(Severity::Critical, format!("no {name}")),
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_comes_first_and_is_the_exit_code() {
        let mut findings = Findings::default();
        assert_eq!(findings.severity(), Severity::Fine);
        findings.most("ack pending", 3, Some(3));
        findings.longest(
            "rtt",
            Duration::from_millis(2),
            Some(Duration::from_millis(1)),
            Some(Duration::from_secs(1)),
        );
        assert_eq!(findings.severity(), Severity::Warning);
        findings.most("waiting pulls", 4, Some(3));
        let line = "CRITICAL X CRITICAL:waiting pulls: 4 WARNING:rtt: 2ms OK:ack pending: 3 \
                    | ack_pending=3;;3 rtt=0.0020s;0.0010;1.0000 waiting_pulls=4;;3";
        assert_eq!(findings.line("X"), line);
        let mut plain = Findings::default();
        plain.most("a\n", 1, None);
        assert_eq!(plain.line("X\u{1b}"), "OK X\\u{1b} | a\\u{a}=1");
    }
}

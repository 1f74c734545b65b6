//! `duramen cluster check`: what is wrong, and what to do next.

use super::asked::{ask, Asks};
use crate::{
    context::{Context, Outcome},
    failure::FAILED,
    output, parse,
};
use clap::Args;
use duramen_base::{clock, words::counted};
use duramen_operate::finding::{is_well, Finding, Limits, Severity};
use jiff::SignedDuration;
use std::{process::ExitCode, time::Duration};

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    asks: Asks,
    /// A drain that lasts for longer is taken to be forgotten [default: 1d]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    drain_limit: Option<Duration>,
    /// A certificate that ends within this is told [default: 30d]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    certificate_limit: Option<Duration>,
    /// Clocks that differ by more are told [default: 1s]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    clock_limit: Option<Duration>,
    /// etcd's --quota-backend-bytes, which it does not say before version 3.6 [default: 2G]
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    etcd_quota: Option<u64>,
}

impl CheckArgs {
    fn limits(&self) -> Limits {
        let usual = Limits::usual(clock::utc_now());
        let span = |given: Option<Duration>, usual: SignedDuration| {
            given.map_or(usual, |given| SignedDuration::try_from(given).unwrap_or(SignedDuration::MAX))
        };
        Limits {
            drain: span(self.drain_limit, usual.drain),
            certificate: span(self.certificate_limit, usual.certificate),
            clock_ms: self
                .clock_limit
                .map_or(usual.clock_ms, |limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            etcd_quota: self.etcd_quota.unwrap_or(usual.etcd_quota),
            ..usual
        }
    }
}

pub(crate) async fn run(context: &Context, args: &CheckArgs) -> Outcome {
    let asked = ask(context, &args.asks).await?;
    let findings = asked.findings(&args.limits());
    if context.json {
        output::json(&serde_json::json!({ "well": is_well(&findings), "findings": findings }))?;
    } else {
        for finding in &findings {
            let Finding { severity, kind, about, what, next } = finding;
            output::line(format_args!("{severity:<8} {about}: {what} [{}]\n         {next}", kind.name()));
        }
        output::line(summed(&findings));
    }
    Ok(ended(&findings))
}

/// The exit status: whether everything works.
pub(super) fn ended(findings: &[Finding]) -> ExitCode {
    match is_well(findings) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    }
}

/// How many there are of each severity.
pub(super) fn summed(findings: &[Finding]) -> String {
    let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings, notes) = (of(Severity::Error), of(Severity::Warning), of(Severity::Note));
    if errors + warnings + notes == 0 {
        return "nothing is wrong".to_owned();
    }
    format!("{}, {}, {}", counted(errors, "error"), counted(warnings, "warning"), counted(notes, "note"))
}

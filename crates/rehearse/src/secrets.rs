//! Passwords of branches in texts of a report: struck out.

use crate::report::Report;
use duramen_client::run::Leased;

const STRUCK: &str = "[secret]";

/// What no report may hold.
#[derive(Debug)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    pub(crate) fn of(branch: &Leased) -> Secrets {
        Secrets(branch.secrets())
    }

    fn strike(&self, text: &mut String) {
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), STRUCK);
            }
        }
    }

    /// A report without them.
    pub(crate) fn strike_out(&self, mut report: Report) -> Report {
        let migration = &mut report.migration;
        let statements = migration.statements.iter_mut().map(|statement| &mut statement.text);
        let waits = migration.waits.iter_mut();
        let waits = waits.flat_map(|wait| wait.blockers.iter_mut().chain([&mut wait.statement]));
        let findings = report.findings.iter_mut().map(|finding| &mut finding.text);
        let errors = report.load.iter_mut().flat_map(|load| &mut load.errors);
        let errors = errors.flat_map(|error| [&mut error.message, &mut error.statement]);
        let locks = report.locks.iter_mut().map(|table| &mut table.waiter);
        let definitions = report.definitions.iter_mut().flat_map(|diff| {
            let differences = diff.changes.iter_mut().flat_map(|change| &mut change.differences);
            let sides = differences.flat_map(|it| it.from.iter_mut().chain(&mut it.to));
            let warnings = diff.warnings.iter_mut().map(|warning| &mut warning.message);
            let ddl = diff.ddl.iter_mut().map(|statement| &mut statement.sql);
            sides.chain(warnings).chain(ddl).chain([&mut diff.script, &mut diff.text])
        });
        let command = [&mut migration.command].into_iter().chain(&mut migration.output);
        command
            .chain(statements)
            .chain(waits)
            .chain(findings)
            .chain(errors)
            .chain(locks)
            .chain(definitions)
            .chain(&mut report.looks.error)
            .for_each(|text| self.strike(text));
        report
    }
}

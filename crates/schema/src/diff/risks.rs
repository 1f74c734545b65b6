//! What statements lock, rewrite or lose.
//! Source: the PostgreSQL documentation, "ALTER TABLE" (notes on locks and rewrites), "Explicit Locking", "CREATE INDEX".

use super::{Plan, Risk, Warning};
use crate::{
    catalogue::{Key, Kind, Object},
    statements::text::lines,
};

pub(super) fn of(plan: &Plan) -> Vec<Warning> {
    let mut found = Found { plan, warnings: Vec::new() };
    for key in &plan.gone {
        found.gone(key);
    }
    for key in &plan.made {
        found.made(key);
    }
    for key in &plan.altered {
        found.altered(key);
    }
    for key in &plan.moved {
        if !plan.gone.contains(key) {
            found.moved(key);
        }
    }
    let mut warnings = found.warnings;
    warnings.sort_by(|a, b| (a.risk, &a.key).cmp(&(b.risk, &b.key)));
    warnings
}

struct Found<'a> {
    plan: &'a Plan,
    warnings: Vec<Warning>,
}

impl Found<'_> {
    fn add(&mut self, risk: Risk, key: &Key, message: impl Into<String>) {
        self.warnings.push(Warning { risk, key: key.clone(), message: message.into() });
    }

    /// Whether an object belongs to a table that has been there, and goes on.
    fn on_old_table(&self, object: &Object) -> bool {
        object
            .parent
            .as_ref()
            .is_some_and(|it| self.plan.from.get(it).is_some() && !self.plan.gone.contains(it))
    }

    fn gone(&mut self, key: &Key) {
        let Some(object) = self.plan.from.get(key) else { return };
        let again = self.plan.made.contains(key);
        match key.kind {
            Kind::Table if again => self.add(
                Risk::DataLoss,
                key,
                "it is dropped and made again, empty: what differs cannot be altered; copy its rows first",
            ),
            Kind::Table => self.add(Risk::DataLoss, key, "its rows are lost"),
            Kind::Column if !object.derived && self.on_old_table(object) => match object.get("generated") {
                Some(_) if self.plan.to.get(key).is_some_and(|it| it.has("generated")) => {
                    self.add(Risk::Rewrite, key, "it is dropped and computed anew under ACCESS EXCLUSIVE");
                }
                Some(_) => {}
                None => self.add(Risk::DataLoss, key, "its values are lost"),
            },
            Kind::Sequence if !again && self.plan.to.get(key).is_none() => {
                self.add(Risk::DataLoss, key, "the number where it stands is lost");
            }
            Kind::Other => {
                self.add(Risk::ByHand, key, "it is to be dropped, and no statement is written for its kind")
            }
            _ => {}
        }
    }

    fn made(&mut self, key: &Key) {
        let Some(object) = self.plan.to.get(key) else { return };
        match key.kind {
            Kind::Column
                if self.on_old_table(object)
                    && !self.plan.from.get(key).is_some_and(|it| it.has("generated")) =>
            {
                let default = self.plan.to.get(&Key::new(Kind::Default, key.name.clone()));
                let is_filled = default.is_some() || object.has("generated") || object.has("identity");
                if object.has("not null") && !is_filled {
                    self.add(
                        Risk::MayFail,
                        key,
                        "it is NOT NULL without a default, which a table with rows refuses",
                    );
                }
                let computes = default.is_some_and(is_computed);
                if computes || object.get("generated") == Some("stored") || object.has("identity") {
                    self.add(
                        Risk::Rewrite,
                        key,
                        "its values are computed: the table is written anew under ACCESS EXCLUSIVE",
                    );
                }
            }
            Kind::Constraint | Kind::ForeignKey if self.on_old_table(object) => {
                let definition = object.text("definition");
                if definition.ends_with("NOT VALID") {
                    return;
                }
                let message = match object.get("is") {
                    None => "all rows are checked, while nobody writes to either table (SHARE ROW EXCLUSIVE); add it NOT VALID and validate it later to wait less",
                    Some("check") => "all rows are checked under ACCESS EXCLUSIVE; add it NOT VALID and validate it later to wait less",
                    Some(_) => "its index is built under ACCESS EXCLUSIVE",
                };
                self.add(Risk::Lock, key, message);
                self.add(Risk::MayFail, key, "it fails if rows that are there violate it");
            }
            Kind::Index if self.on_old_table(object) => {
                self.add(Risk::Lock, key, "nobody writes to its table while it is built (SHARE); CREATE INDEX CONCURRENTLY, outside of the transaction, does not block");
            }
            Kind::MaterializedView if self.plan.from.get(key).is_some() => {
                self.add(Risk::Rewrite, key, "it is dropped, made again, and computed anew");
            }
            Kind::View if self.plan.from.get(key).is_some() => {
                self.add(
                    Risk::Lock,
                    key,
                    "it is dropped and made again: whoever reads it waits for the whole transaction",
                );
            }
            Kind::Enum if self.plan.from.get(key).is_some() => {
                let (before, after) =
                    (self.plan.from.get(key).map(|it| it.text("labels")), lines(object.text("labels")));
                let gone: Vec<&str> = before
                    .map(lines)
                    .unwrap_or_default()
                    .into_iter()
                    .filter(|label| !after.contains(label))
                    .collect();
                if !gone.is_empty() {
                    let message = format!("rows that hold {} make it fail", gone.join(", "));
                    self.add(Risk::MayFail, key, message);
                }
            }
            Kind::Other => {
                self.add(Risk::ByHand, key, "it is to be made, and no statement is written for its kind")
            }
            _ => {}
        }
    }

    fn altered(&mut self, key: &Key) {
        let (Some(from), Some(to)) = (self.plan.from.get(key), self.plan.to.get(key)) else { return };
        match key.kind {
            Kind::Column => {
                if self.plan.retyped.contains(key) {
                    if is_wider(from, to) {
                        self.add(
                            Risk::Lock,
                            key,
                            "its type changes under ACCESS EXCLUSIVE, for a moment: values stay as they are",
                        );
                    } else {
                        self.add(Risk::Rewrite, key, "its type changes: the table and its indexes are written anew under ACCESS EXCLUSIVE");
                        self.add(
                            Risk::MayFail,
                            key,
                            format!("it fails if a value is none of {}", to.text("type")),
                        );
                    }
                }
                if to.has("not null") && !from.has("not null") {
                    self.add(Risk::Lock, key, "all rows are checked for NULL under ACCESS EXCLUSIVE");
                    self.add(Risk::MayFail, key, "it fails if there are NULLs");
                }
            }
            Kind::Table => {
                if from.get("unlogged") != to.get("unlogged")
                    || from.get("access method") != to.get("access method")
                {
                    self.add(Risk::Rewrite, key, "it is written anew under ACCESS EXCLUSIVE");
                }
                if to.has("unlogged") && !from.has("unlogged") {
                    self.add(Risk::DataLoss, key, "after a crash it is empty");
                }
            }
            Kind::Composite => {
                let after: Vec<&str> = lines(to.text("attributes"));
                if lines(from.text("attributes")).iter().any(|it| !after.contains(it)) {
                    self.add(
                        Risk::DataLoss,
                        key,
                        "what stored values hold of its dropped attributes is lost",
                    );
                }
            }
            Kind::Domain
                if from.get("constraints") != to.get("constraints")
                    || from.get("not null") != to.get("not null") =>
            {
                self.add(
                    Risk::Lock,
                    key,
                    "all columns of it are checked, while nobody writes to their tables",
                );
            }
            Kind::Constraint | Kind::ForeignKey => {
                self.add(Risk::MayFail, key, "it fails if rows that are there violate it");
            }
            _ => {}
        }
    }

    fn moved(&mut self, key: &Key) {
        let (Some(from), Some(to)) = (self.plan.from.get(key), self.plan.to.get(key)) else { return };
        if from.has("bound") {
            self.add(Risk::Lock, key, "it leaves its parent under ACCESS EXCLUSIVE on both");
        }
        if to.has("bound") {
            self.add(Risk::Lock, key, "its rows are checked against its bound under ACCESS EXCLUSIVE");
            self.add(Risk::MayFail, key, "it fails if rows are outside of its bound");
        }
    }
}

/// Whether all values of a column are, as they are stored, values of its new type.
fn is_wider(from: &Object, to: &Object) -> bool {
    if from.get("collation") != to.get("collation") {
        return false;
    }
    let length = |object: &Object| {
        let rest = object.text("type").strip_prefix("character varying")?;
        Some(rest.trim_matches(['(', ')']).parse::<u32>().unwrap_or(u32::MAX))
    };
    match (length(from), length(to)) {
        (Some(before), Some(after)) => after >= before,
        (Some(_), None) => to.text("type") == "text",
        (None, Some(after)) => from.text("type") == "text" && after == u32::MAX,
        (None, None) => false,
    }
}

/// Functions of the system whose value differs from row to row. What depends on them is not recorded.
const VOLATILE: &[&str] =
    &["gen_random_uuid", "uuidv4", "uuidv7", "random", "random_normal", "clock_timestamp", "timeofday"];

/// Whether a default may differ from row to row, so that each row that is there gets its own.
fn is_computed(default: &Object) -> bool {
    let expression = default.text("expression");
    default.needs.iter().any(|need| matches!(need.kind, Kind::Function | Kind::Sequence))
        || VOLATILE.iter().any(|name| expression.contains(&format!("{name}(")))
}

//! Indexes: `duramen store index ...`, and the arguments of `find`.

use super::{
    handle::{self, Handle},
    listing::Lines,
};
use crate::{context::Outcome, failure::Failure, output};
use clap::{Args, Subcommand};
use duramen_store::filter::Filter;
use duramen_store::index::{Cursor, Found, Plan, Query};
use duramen_store::{index, Primitive};
use serde::Serialize;
use serde_json::json;
use std::{fmt::Display, process::ExitCode, str::FromStr};

const CREATE_EXAMPLES: &str = "\
Examples:
  duramen store index create by-state state at         documents by two fields
  duramen store index create mail user.mail --unique   no two with the same mail
  duramen store index create by-value '$' --on kv      pairs by their values
  duramen store index create open at --where 'state = open'";
const LIST_EXAMPLES: &str = "\
Examples:
  duramen store index list";
const DROP_EXAMPLES: &str = "\
Examples:
  duramen store index drop by-state                    the documents stay as they are";

/// How fields are named wherever a filter is asked for.
const FILTER_HELP: &str =
    "a condition or several: `year >= 2020 and tag in [\"a\", \"b\"]`; operators = != > >= < <= in contains";

#[derive(Debug, Subcommand)]
pub(crate) enum Index {
    /// Declare an index of the space, and fill it
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        /// The index's name
        name: String,
        /// The fields: members of the value (`a`, `a.b`), or `$` for the whole of it
        #[arg(required = true)]
        fields: Vec<String>,
        /// What it is of: json or kv
        #[arg(long, value_name = "KIND", default_value = "json")]
        on: Primitive,
        /// Refuse a second row with the same values
        #[arg(long)]
        unique: bool,
        /// Only of rows that fulfil this
        #[arg(long = "where", value_name = "FILTER", default_value = "", value_parser = Filter::from_str, hide_default_value = true)]
        only: Filter,
    },
    /// List the indexes of the space
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Drop an index
    #[command(after_help = DROP_EXAMPLES)]
    Drop {
        /// The index's name
        name: String,
    },
}

pub(crate) fn run(handle: &Handle, verb: Index) -> Outcome {
    match verb {
        Index::Create { name, fields, on, unique, only } => handle.change(|space| {
            let index = index::Index { on, fields, unique, only };
            let made = space.indexes().create(&name, &index)?;
            let said = if made { "made" } else { "there already" };
            handle.say(&json!({ "index": name, "made": made }), format_args!("{said}: {name}, {index}"))
        }),
        Index::List => handle.look(|space| {
            let all = space.indexes().list()?;
            if handle.json {
                let listed = |(name, index): &(String, index::Index)| json!({ "name": name, "index": index });
                output::json(&all.iter().map(listed).collect::<Vec<_>>())?;
            } else if all.is_empty() {
                output::line("no index in this space");
            } else {
                let rows = all.iter().map(|(name, index)| [name.clone(), index.to_string()]);
                output::print(output::table(["INDEX", "OF"], rows));
            }
            Ok(ExitCode::SUCCESS)
        }),
        Index::Drop { name } => handle.take(|space| {
            let dropped = space.indexes().drop(&name)?;
            let text = if dropped { "dropped" } else { "was not there" };
            handle.say(&json!({ "index": name, "dropped": dropped }), text)
        }),
    }
}

/// What to find.
#[derive(Debug, Args)]
pub(crate) struct Find {
    #[arg(help = FILTER_HELP, default_value = "", value_parser = Filter::from_str, hide_default_value = true)]
    filter: Filter,
    /// In the order of this field; several decide one after the other [default: by key]
    #[arg(long, value_name = "FIELD")]
    order: Vec<String>,
    /// The last first
    #[arg(long)]
    backwards: bool,
    /// Only keys with this prefix
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// Only what comes after the page that ended so
    #[arg(long, value_name = "CURSOR", value_parser = Cursor::from_str)]
    after: Option<Cursor>,
    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
    /// Print how it would be done, and by which index, instead
    #[arg(long)]
    explain: bool,
}

impl Find {
    /// Finds rows and prints them, or how they would be found.
    pub(crate) fn run<K: Serialize + Display>(
        self,
        handle: &Handle,
        explain: impl FnOnce(&Query) -> Result<Plan, Failure>,
        find: impl FnOnce(&Query, usize) -> Result<Found<(K, serde_json::Value)>, Failure>,
    ) -> Outcome {
        let mut query = Query::new(self.filter).order(self.order).prefix(self.prefix);
        if self.backwards {
            query = query.backwards();
        }
        if let Some(after) = self.after {
            query = query.after(after);
        }
        if self.explain {
            let plan = explain(&query)?;
            let answer = json!({
                "index": plan.index, "decided": plan.decided, "tested": plan.tested, "sorted": plan.is_sorted
            });
            return handle.say(&answer, &plan);
        }
        let found = find(&query, self.limit)?;
        let next = found.next.map(|next| next.to_string());
        if handle.json {
            let row = |(key, value): &(K, serde_json::Value)| json!({ "key": key, "value": value });
            let rows: Vec<_> = found.rows.iter().map(row).collect();
            output::json(&json!({ "rows": rows, "next": next, "examined": found.examined }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut lines = Lines::new();
        for (key, value) in &found.rows {
            if lines.line(format_args!("{key}\t{value}")).is_break() {
                break;
            }
        }
        drop(lines);
        if let Some(next) = next {
            handle::note(format_args!("there are more; continue with --after {next}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

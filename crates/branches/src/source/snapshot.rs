//! What lies in a snapshot, as those need to know who make it and who make branches of it.

use super::sanitise::ADMIN;
use crate::model::Policy;
use duramen_postgres::volume;
use std::{num::NonZeroU32, path::PathBuf};

/// The name under which a snapshot keeps its relation cache files.
pub(crate) const KEPT_CACHE: &str = "duramen_internal.init";

/// Rounds of the verifier of a holder's secret: the least that pgjdbc accepts. 130 bits need none.
pub(crate) const HOLDER_ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not zero");

/// Where the snapshot of a generation lies.
pub(crate) fn snapshot_path(store: &volume::Store, source: &str, generation: u32) -> PathBuf {
    store.root.join("snapshots").join(format!("{source}.{generation:06}"))
}

/// The major version from which on a rule takes a database's name that begins with a slash for a regular expression.
const REGULAR_EXPRESSIONS_SINCE: u32 = 16;

/// Which databases of its cluster a branch admits its holder to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// The one that it serves.
    Served,
    /// Every one: somebody asked for it.
    All,
}

impl Admitted {
    pub(crate) const BOTH: [Admitted; 2] = [Admitted::Served, Admitted::All];

    pub(crate) fn of(all_databases: bool) -> Admitted {
        if all_databases {
            Admitted::All
        } else {
            Admitted::Served
        }
    }
}

/// The file with the access rules of one policy's branches. In the branches of a role, which no snapshot knows, there is one
/// of its own.
pub(crate) fn hba_file(policy: Policy, admitted: Admitted) -> String {
    let policy = policy.name();
    match admitted {
        Admitted::Served => format!("pg_hba.{policy}.conf"),
        Admitted::All => format!("pg_hba.{policy}.all.conf"),
    }
}

/// Whether a file of a data directory is one that [`hba_file`] names.
pub(crate) fn is_access_file(name: &str) -> bool {
    name.strip_prefix("pg_hba.").is_some_and(|rest| rest.len() > ".conf".len() && rest.ends_with(".conf"))
}

/// A name as a rule has to hold it to mean that name alone.
fn in_rule(name: &str, major: u32) -> String {
    // From 16 on this is a regular expression, in quotes too.
    if name.starts_with('/') && major >= REGULAR_EXPRESSIONS_SINCE {
        let escape = |letter: char| match letter {
            '"' => "\\\"\"".to_owned(),
            letter if letter.is_ascii_punctuation() || letter == ' ' => format!("\\{letter}"),
            letter => letter.to_string(),
        };
        let name: String = name.chars().filter(|letter| !"\r\n".contains(*letter)).map(escape).collect();
        return format!("\"/^{name}$\"");
    }
    // In quotes no name is a keyword. One with a line break, which a rule cannot hold, is no other's.
    format!("\"{}\"", name.replace('"', "\"\"").replace(['\n', '\r'], ""))
}

/// Who may enter a branch, and which of its databases: its administrator, and its policy's role, each with a secret.
pub(crate) fn access_rules(policy: Policy, admitted: Admitted, database: &str, major: u32) -> String {
    let database = match admitted {
        Admitted::Served => in_rule(database, major),
        Admitted::All => "all".to_owned(),
    };
    let role = match policy {
        Policy::Role(name) => in_rule(name.as_str(), major),
        policy => policy.role().to_owned(),
    };
    format!("local all {ADMIN} scram-sha-256\nlocal {database} {role} scram-sha-256\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_one_database_whatever_it_is_called() {
        for (name, rule) in [
            ("app", "local \"app\" duramen_read "),
            ("all", "local \"all\" duramen_read "),
            ("a b,c", "local \"a b,c\" duramen_read "),
            ("q\"q", "local \"q\"\"q\" duramen_read "),
            ("/.*", r#"local "/^\/\.\*$" duramen_read "#),
            ("a\nlocal all all trust", "local \"alocal all all trust\" duramen_read "),
        ] {
            let rules = access_rules(Policy::ReadOnly, Admitted::Served, name, 18);
            let lines: Vec<&str> = rules.lines().collect();
            assert_eq!(lines.len(), 2, "{rules}");
            assert!(lines[1].starts_with(rule), "{rules}");
            let role = Policy::Role(name.parse().unwrap());
            let rules = access_rules(role, Admitted::Served, "app", 18);
            let rule = rule.replacen("local ", "local \"app\" ", 1).replace("duramen_read ", "scram-sha-256");
            assert_eq!(rules.lines().nth(1), Some(rule.as_str()));
        }
    }
}

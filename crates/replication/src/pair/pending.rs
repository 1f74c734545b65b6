//! Changes of the configuration files that a server has not read yet. A run makes servers read their files, and would
//! bring into force what its owner has only written down.

use tokio_postgres::Client;

use super::super::scenario::Node;
use super::answered;
use duramen_reports::suite::SuiteError;

/// The settings that would change when the server reads its files, by name: where a file that was touched after the server
/// last read it says something else than what is in force, or no longer says anything. What needs a restart would not
/// change; of what a role, a database or the session itself sets it cannot be seen.
pub(super) async fn names(client: &Client, node: Node) -> Result<Vec<String>, SuiteError> {
    // Of a file the time of its last change is known to the second.
    let asked = client.query(
        "SELECT s.name, s.setting, s.unit, s.vartype, f.setting, f.name IS NOT NULL
         FROM pg_settings s
         LEFT JOIN pg_file_settings f ON lower(f.name) = lower(s.name) AND f.applied
         WHERE s.context NOT IN ('internal', 'postmaster')
           AND (s.source = 'configuration file' OR s.source = 'default' AND f.name IS NOT NULL)
           AND coalesce((pg_stat_file(coalesce(f.sourcefile, s.sourcefile), true)).modification, 'infinity')
             >= date_trunc('second', pg_conf_load_time())
         ORDER BY s.name",
        &[],
    );
    let rows = answered("look for changes of its configuration that it has not read", node, asked).await?;
    let is_pending = |row: &&tokio_postgres::Row| {
        let (in_force, unit, kind): (String, Option<String>, String) = (row.get(1), row.get(2), row.get(3));
        let written: Option<String> = row.get(4);
        !row.get::<_, bool>(5) || !is_same(&in_force, &written.unwrap_or_default(), unit.as_deref(), &kind)
    };
    Ok(rows.iter().filter(is_pending).map(|row| row.get(0)).collect())
}

/// Whether a value in a file means what is in force. Texts are compared without case, blanks and quotes, because servers
/// write some of them in a form of their own (`iso, mdy`).
#[must_use]
pub fn is_same(in_force: &str, written: &str, unit: Option<&str>, kind: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace([' ', '"', '\''], "");
    match kind {
        "bool" => truth(in_force) == truth(written),
        "integer" | "real" => match (amount(in_force, unit), amount(written, unit)) {
            // What a server keeps of the one kind is a whole number of its unit.
            (Some(one), Some(two)) if kind == "integer" => one == two.round(),
            (Some(one), Some(two)) => (one - two).abs() <= one.abs() * 1e-6,
            _ => plain(in_force) == plain(written),
        },
        _ => plain(in_force) == plain(written),
    }
}

/// `on` for all that means it: the server takes every unique beginning of these words.
fn truth(text: &str) -> Option<bool> {
    let text = text.trim().to_lowercase();
    let begins = |words: &[&str], least: usize| {
        text.len() >= least && words.iter().any(|word| word.starts_with(&text))
    };
    match text.as_str() {
        "1" => Some(true),
        "0" => Some(false),
        _ if begins(&["on"], 2) || begins(&["true", "yes"], 1) => Some(true),
        _ if begins(&["off"], 2) || begins(&["false", "no"], 1) => Some(false),
        _ => None,
    }
}

/// A number with or without a unit, in the setting's own unit.
fn amount(text: &str, unit: Option<&str>) -> Option<f64> {
    let text = text.trim();
    if let Some(digits) = text.strip_prefix("0x") {
        return Some(i64::from_str_radix(digits, 16).ok()? as f64);
    }
    let is_unit = |c: char| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E');
    let end = text.find(is_unit).unwrap_or(text.len());
    let (number, suffix) = (text[..end].trim(), text[end..].trim());
    let number: f64 = number.parse().ok()?;
    if suffix.is_empty() {
        return Some(number);
    }
    // `8kB` is eight of them.
    let own = unit?;
    let digits = own.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let own = own[..digits].parse::<f64>().unwrap_or(1.0) * size(&own[digits..])?;
    Some(number * size(suffix)? / own)
}

/// What a unit is, in bytes or in seconds.
fn size(unit: &str) -> Option<f64> {
    Some(match unit {
        "B" => 1.0,
        "kB" => 1024.0,
        "MB" => 1024.0 * 1024.0,
        "GB" => 1024.0 * 1024.0 * 1024.0,
        "TB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    })
}

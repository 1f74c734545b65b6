//! Commands as they are typed.

use std::path::Path;

use duramen_base::entropy::SEED_VARIABLE;
use duramen_measure::evidence::Evidence;

/// The command that makes such a document again, with its seed.
pub(crate) fn reproduce(evidence: &Evidence) -> String {
    let mut words = Vec::new();
    if let Some(seed) = seed(evidence) {
        words.push(format!("{SEED_VARIABLE}={}", quoted(&seed)));
    }
    let mut command = evidence.command.iter();
    // Where the program lay is no matter of the run.
    words.extend(command.next().map(|program| {
        let name = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
        quoted(&name.unwrap_or_else(|| program.clone()))
    }));
    words.extend(command.map(|word| quoted(word)));
    words.join(" ")
}

fn seed(evidence: &Evidence) -> Option<String> {
    let seed = evidence.config.get("seed")?;
    Some(seed.as_str().map_or_else(|| seed.to_string(), str::to_owned))
}

/// A word that a shell takes for one word and nothing else.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

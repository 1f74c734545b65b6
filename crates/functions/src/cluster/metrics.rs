//! The figures of several workers as one text: each sample says which shard it is of.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::worker::head;

/// Puts texts in Prometheus' exposition format together, with a label `shard` in front of each sample's own. What is said of a
/// family, and its samples, stay together, as the format wants.
pub(super) fn merged(texts: &[(u16, String)]) -> String {
    let mut order: Vec<&str> = Vec::new();
    // Of each family: what is said of it, and its samples.
    let mut families: BTreeMap<&str, (Vec<&str>, Vec<String>)> = BTreeMap::new();
    for (shard, text) in texts {
        let mut family = "";
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(about) = line.strip_prefix("# ") {
                let Some(name) = about.split_whitespace().nth(1) else { continue };
                family = name;
                let (said, _) = families.entry(name).or_insert_with(|| {
                    order.push(name);
                    Default::default()
                });
                if !said.contains(&line) && said.len() < 2 {
                    said.push(line);
                }
                continue;
            }
            let Some((_, samples)) = families.get_mut(family) else { continue };
            let end = line.find(['{', ' ']).unwrap_or(line.len());
            let (name, rest) = line.split_at(end);
            samples.push(match rest.strip_prefix('{') {
                Some(labels) => format!("{name}{{shard=\"{shard}\",{labels}"),
                None => format!("{name}{{shard=\"{shard}\"}}{rest}"),
            });
        }
    }
    let mut text = String::new();
    for name in order {
        let (said, samples) = &families[name];
        for line in said.iter().copied().chain(samples.iter().map(String::as_str)) {
            // A String takes whatever is written.
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Of each shard of the list, whether its worker is well: so that one that cannot be reached is seen, and not left out.
pub(super) fn served(shards: &[(u16, Result<(), String>)]) -> String {
    let mut text = String::new();
    let help = "Whether the shard is served: its worker has begun, and its database answers.";
    let name = head(&mut text, "shard_served", "gauge", help);
    for (number, standing) in shards {
        // A String takes whatever is written.
        let _ = writeln!(text, "{name}{{shard=\"{number}\"}} {}", u8::from(standing.is_ok()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{merged, served};

    #[test]
    fn a_shard_that_is_not_served_is_seen() {
        let text = served(&[(0, Ok(())), (7, Err("no connection".to_owned()))]);
        assert!(text.contains("# TYPE duramen_functions_shard_served gauge\n"), "{text}");
        assert!(
            text.ends_with("served{shard=\"0\"} 1\nduramen_functions_shard_served{shard=\"7\"} 0\n"),
            "{text}"
        );
    }

    #[test]
    fn samples_of_a_family_stand_together_and_say_their_shard() {
        let one = "# HELP a_total What.\n# TYPE a_total counter\na_total 3\n# HELP b Of.\n# TYPE b gauge\nb{role=\"x\"} 1\n";
        let two = "# HELP a_total What.\n# TYPE a_total counter\na_total 4\n";
        assert_eq!(
            merged(&[(0, one.to_owned()), (7, two.to_owned())]),
            "# HELP a_total What.\n# TYPE a_total counter\na_total{shard=\"0\"} 3\na_total{shard=\"7\"} 4\n\
             # HELP b Of.\n# TYPE b gauge\nb{shard=\"0\",role=\"x\"} 1\n"
        );
    }
}

//! What criterion prints.
//!
//! ```text
//! sum 20                  time:   [19.385 ns 19.572 ns 19.792 ns]
//! a name of more than twenty-three characters
//!                         time:   [1.8876 us 1.9020 us 1.9191 us]
//!                         thrpt:  [521.07 Melem/s 525.76 Melem/s 529.78 Melem/s]
//!                  change:
//!                         time:   [-4.1527% -1.9521% +0.2611%] (p = 0.09 > 0.05)
//! ```

use super::{Figures, ReadError};

pub(super) fn read(text: &str, figures: &mut Figures) -> Result<(), ReadError> {
    let mut name = String::new();
    let mut title = "";
    for line in text.lines() {
        let is_indented = line.starts_with(char::is_whitespace);
        if let Some((before, numbers)) = labelled(line, "time:") {
            // The second block, which compares with an earlier run, is in percent.
            let Some(seconds) = estimate(numbers, seconds) else { continue };
            let own = if is_indented { title } else { before };
            own.clone_into(&mut name);
            if !name.is_empty() {
                figures.put_number(&name, Some(seconds))?;
            }
        } else if let Some((_, numbers)) = labelled(line, "thrpt:") {
            if let (Some(rate), false) = (estimate(numbers, a_second), name.is_empty()) {
                figures.put_number(&format!("{name}/thrpt"), Some(rate))?;
            }
        }
        // A name that is too long for one line stands alone on the line before.
        title = if is_indented { "" } else { line.trim() };
    }
    Ok(())
}

/// What stands before a label, and between the brackets that follow it.
fn labelled<'a>(line: &'a str, label: &str) -> Option<(&'a str, &'a str)> {
    let (before, after) = line.rsplit_once(label)?;
    let (numbers, _) = after.trim_start().strip_prefix('[')?.split_once(']')?;
    Some((before.trim(), numbers))
}

/// The middle one of three numbers with units.
fn estimate(numbers: &str, factor: fn(&str) -> Option<f64>) -> Option<f64> {
    let words: Vec<&str> = numbers.split_whitespace().collect();
    let [_, _, value, unit, _, _] = words[..] else { return None };
    Some(value.parse::<f64>().ok()? * factor(unit)?)
}

fn seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ps" => 1e-12,
        "ns" => 1e-9,
        "\u{b5}s" | "\u{3bc}s" | "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    })
}

/// Elements, bytes or bits a second.
fn a_second(unit: &str) -> Option<f64> {
    let of = unit.strip_suffix("/s")?;
    let prefix = of.strip_suffix("elem").or_else(|| of.strip_suffix('B')).or_else(|| of.strip_suffix('b'))?;
    Some(match prefix {
        "" => 1.0,
        "K" | "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    })
}

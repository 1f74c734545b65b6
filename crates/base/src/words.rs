//! Figures for people.

/// A number with about four significant digits and groups of three: `0.01234`, `12.35`, `1,234`.
///
/// ```
/// assert_eq!(duramen_base::words::number(1_234.5), "1,235");
/// ```
#[must_use]
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        return "no number".to_owned();
    }
    if magnitude >= 1000.0 || value == value.trunc() {
        // Nothing has no sign.
        return group(value.round() + 0.0);
    }
    let digits = match magnitude {
        m if m >= 100.0 => 1,
        m if m >= 10.0 => 2,
        m if m >= 1.0 => 3,
        m if m >= 1e-9 => (3.0 - m.log10().floor()) as usize,
        _ => return format!("{value:.2e}"),
    };
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn group(integer: f64) -> String {
    let plain = format!("{integer:.0}");
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain.as_str()), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 check`, `2 checks`.
#[must_use]
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", group(count as f64))
}

/// Bytes with a binary unit: `23.5 GiB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", number((value * 10.0).round() / 10.0), UNITS[unit])
}

/// Reads a count such as `300k`, `20M` or `336776`; `k`, `M` and `G` are decimal.
///
/// ```
/// use duramen_base::words::parse_count;
/// assert_eq!(parse_count("300k"), Ok(300_000));
/// assert!(parse_count("20 apples").is_err());
/// ```
///
/// # Errors
/// What is wrong with the text, in words.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, factor) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
        Some((at, 'g' | 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let wrong = || format!("{text:?} is not a count; write it like 336776, 300k or 20M");
    // `parse` takes a sign, which a count has not.
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(wrong());
    }
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    count.checked_mul(factor).ok_or_else(wrong)
}

//! Clocks that a test sets off, in builds with debug assertions alone: `DURAMEN_CLOCK_JUMPS=FILE`, which holds two numbers of
//! seconds, by how much the wall clock is off, and how long the machine was suspended. No file: not at all.

use super::Jumped;
use std::{
    path::PathBuf,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

const VARIABLE: &str = "DURAMEN_CLOCK_JUMPS";
/// The file is not read more often than this.
const READ_EVERY: Duration = Duration::from_millis(10);

pub(super) fn now() -> Jumped {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    static LAST: Mutex<Option<(Instant, Jumped)>> = Mutex::new(None);
    let Some(file) = FILE.get_or_init(|| std::env::var_os(VARIABLE).map(PathBuf::from)) else {
        return Jumped::default();
    };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, jumped)) = last.filter(|(at, _)| at.elapsed() < READ_EVERY) {
        return jumped;
    }
    let jumped = std::fs::read_to_string(file).ok().and_then(|text| read(&text)).unwrap_or_default();
    *last = Some((Instant::now(), jumped));
    jumped
}

fn read(text: &str) -> Option<Jumped> {
    let (wall, suspended) = text.trim().split_once(' ')?;
    let wall_ms = wall.parse::<i64>().ok()?.saturating_mul(1000);
    Some(Jumped { wall_ms, suspended: Duration::from_secs(suspended.parse().ok()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_sets_clocks_off_and_nothing_else_does() {
        let jumped = read("-7200 3600\n").unwrap();
        assert_eq!(jumped, Jumped { wall_ms: -7_200_000, suspended: Duration::from_secs(3600) });
        for text in ["", "1", "x 1", "1 -1", "1 2 3"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}

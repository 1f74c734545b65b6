//! Places at which tests have a daemon stop: `DURAMEN_FLEET_STALL=PLACE=FILE` waits there for as long as the file is there, and says so by
//! a file beside it. No release has them.

#[cfg(not(debug_assertions))]
pub(super) async fn at(_: &str) {}

#[cfg(debug_assertions)]
pub(super) async fn at(place: &str) {
    use std::{path::Path, time::Duration};

    const VARIABLE: &str = "DURAMEN_FLEET_STALL";
    let Ok(wanted) = std::env::var(VARIABLE) else { return };
    let Some((_, file)) = wanted.split_once('=').filter(|(wanted, _)| *wanted == place) else { return };
    let file = Path::new(file);
    if file.exists() {
        let _ = std::fs::write(file.with_extension("there"), place);
    }
    while file.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

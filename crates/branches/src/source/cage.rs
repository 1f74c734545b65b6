//! Whether the servers of an import are shut in.

use crate::error::{EngineError, Kind};
use duramen_cage::{Cage, Unavailable};
use std::sync::atomic::{AtomicBool, Ordering};

/// The cage for an import's servers; none on a machine that does not support it.
///
/// # Errors
/// When the cage worked earlier in this process and does not now: a limit that somebody else exhausted must not open it.
pub(crate) fn find() -> Result<Option<Cage>, EngineError> {
    static WORKED: AtomicBool = AtomicBool::new(false);
    decide(Cage::find(), &WORKED)
}

fn decide(found: Result<Cage, Unavailable>, worked: &AtomicBool) -> Result<Option<Cage>, EngineError> {
    match found {
        Ok(cage) => {
            worked.store(true, Ordering::Relaxed);
            Ok(Some(cage))
        }
        Err(error) if worked.load(Ordering::Relaxed) => Err(EngineError::new(
            Kind::Failed,
            "no_cage",
            format!("the import's servers cannot be shut in: {error}"),
        )),
        Err(error) => {
            tracing::warn!(%error, "the servers of an import are not shut in");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cage_that_worked_is_not_given_up() {
        let worked = AtomicBool::new(false);
        let missing = || Err(Unavailable::NotInstalled);
        assert!(matches!(decide(missing(), &worked), Ok(None)));
        assert!(
            matches!(decide(Cage::find(), &worked), Ok(Some(_))),
            "bubblewrap, which make setup installs"
        );
        assert_eq!(decide(missing(), &worked).expect_err("it worked before").code, "no_cage");
    }
}

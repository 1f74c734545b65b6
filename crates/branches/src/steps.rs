//! What a lease's time goes into, for whoever asks while it is made.
//!
//! A caller that wants to know runs what it does by [`watch`], and the engine notes what it did within. For all others [`begin`] is
//! a look at a variable of the thread: not even the clock is read.

use duramen_base::clock;
use std::{cell::RefCell, time::Instant};

tokio::task_local! {
    static NOTED: RefCell<Noted>;
}

/// One thing that was done.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// What.
    pub what: &'static str,
    /// When it began.
    pub began: Instant,
    /// When it had ended.
    pub ended: Instant,
}

/// What was noted.
#[derive(Debug, Clone, Default)]
pub struct Noted {
    /// The steps, in the order of their ends.
    pub steps: Vec<Step>,
    /// The id of the lease that began, if one did.
    pub leased: Option<String>,
}

/// Runs something of which it is noted what it does.
pub async fn watch<F: Future>(what: F) -> F::Output {
    NOTED.scope(RefCell::default(), what).await
}

/// Takes what was noted so far. Nothing, if nobody watches.
#[must_use]
pub fn take() -> Noted {
    NOTED.try_with(RefCell::take).unwrap_or_default()
}

/// The time at which a step begins, if somebody watches.
#[must_use]
pub fn begin() -> Option<Instant> {
    NOTED.try_with(|_| clock::now()).ok()
}

/// Notes a step that began then, and ends now.
pub fn note(what: &'static str, began: Option<Instant>) {
    let Some(began) = began else { return };
    let step = Step { what, began, ended: clock::now() };
    // Whoever began within a watch may end outside of it.
    let _ = NOTED.try_with(|noted| noted.borrow_mut().steps.push(step));
}

/// Notes that a lease began.
pub(crate) fn leased(id: &str) {
    let _ = NOTED.try_with(|noted| noted.borrow_mut().leased = Some(id.to_owned()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_noted_what_is_watched_and_nothing_else() {
        assert!(begin().is_none());
        note("outside", begin());
        leased("outside");
        let noted = watch(async {
            let began = begin();
            tokio::task::yield_now().await;
            note("inside", began);
            leased("inside");
            let noted = take();
            assert!(take().steps.is_empty());
            noted
        });
        let noted = noted.await;
        assert_eq!(noted.steps.iter().map(|step| step.what).collect::<Vec<_>>(), ["inside"]);
        assert!(noted.steps[0].began <= noted.steps[0].ended);
        assert_eq!(noted.leased.as_deref(), Some("inside"));
        assert!(take().leased.is_none());
    }
}

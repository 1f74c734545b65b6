//! Progress of what takes longer than a second: on the standard error, and only when that is a terminal.

use crate::output;
#[cfg(feature = "engines")]
use duramen_base::clock;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{future::Future, pin::pin, time::Duration};
use tokio::time::sleep;

/// What is faster than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(120);
/// A fraction in thousandths.
const LENGTH: u64 = 1000;

/// A line that says what is being done, and how far it is where that is known. It vanishes at the end.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Shows what is being done.
    pub(crate) fn new(doing: &str) -> Progress {
        // The target is hidden when the standard error is not a terminal.
        let bar = ProgressBar::with_draw_target(Some(LENGTH), ProgressDrawTarget::stderr());
        bar.set_style(style("{spinner} {wide_msg} {elapsed}"));
        bar.set_message(output::printable(doing));
        bar.enable_steady_tick(TICK);
        Progress { bar }
    }

    /// Says what is being done now.
    pub(crate) fn step(&self, doing: &str, fraction: Option<f64>) {
        match fraction {
            Some(fraction) => {
                self.bar.set_style(style("{spinner} {msg} [{bar:30}] {percent}% {elapsed}"));
                self.bar.set_position((fraction.clamp(0.0, 1.0) * LENGTH as f64) as u64);
            }
            None => self.bar.set_style(style("{spinner} {wide_msg} {elapsed}")),
        }
        self.bar.set_message(output::printable(doing));
    }

    /// Does something that prints, without the line in its way.
    #[cfg(feature = "engines")]
    pub(crate) fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        self.bar.suspend(work)
    }
}

/// Progress of work that tells by itself how far it is.
#[cfg(feature = "engines")]
#[derive(Debug)]
pub(crate) struct Steps {
    doing: String,
    began: std::time::Instant,
    progress: Option<Progress>,
}

#[cfg(feature = "engines")]
impl Steps {
    /// Begins now; nothing is shown yet.
    pub(crate) fn new(doing: impl Into<String>) -> Steps {
        Steps { doing: doing.into(), began: clock::now(), progress: None }
    }

    /// So much is done, of so much.
    pub(crate) fn step(&mut self, done: u64, all: u64) {
        if self.progress.is_none() && self.began.elapsed() > PATIENCE {
            self.progress = Some(Progress::new(&self.doing));
        }
        if let Some(progress) = &self.progress {
            progress.step(&self.doing, (all > 0).then(|| done as f64 / all as f64));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    style.progress_chars("=> ").tick_chars("|/-\\ ")
}

/// Waits for `work`, and says so when that takes more than a second.
pub(crate) async fn during<F: Future>(doing: &str, work: F) -> F::Output {
    let mut work = pin!(work);
    tokio::select! {
        result = work.as_mut() => return result,
        () = sleep(PATIENCE) => {}
    }
    let _progress = Progress::new(doing);
    work.await
}

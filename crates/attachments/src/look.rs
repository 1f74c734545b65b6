//! How long is looked for what a page holds.

use crate::{error::ReadError, limits::LOOK};
use duramen_base::clock;
use std::{ops::ControlFlow, time::Instant};

/// The time that is left, and the room in a page.
#[derive(Debug)]
pub(crate) struct Look {
    end: Instant,
    is_over: bool,
}

impl Look {
    pub(crate) fn begin() -> Look {
        Look { end: clock::now() + LOOK, is_over: false }
    }

    /// Goes on, unless the time is over.
    pub(crate) fn on(&mut self) -> ControlFlow<()> {
        self.is_over |= clock::now() >= self.end;
        match self.is_over {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Why nothing is told.
    pub(crate) fn too_slow() -> ReadError {
        ReadError::TooSlow { limit_s: LOOK.as_secs() }
    }
}

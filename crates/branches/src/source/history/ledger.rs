//! The record of what is kept, and what can be made of it.

use crate::{
    error::EngineError,
    home::Home,
    source::{
        manifest,
        wal::{segment_name, Position},
    },
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A time and a position that an origin told together: what it had committed by that time is before that position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) at: Timestamp,
    pub(crate) position: u64,
}

/// A clone of a standby as it was at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    pub(crate) number: u32,
    /// The segment that its standby was receiving: from it on, the log is laid over it.
    pub(crate) segment: u64,
    /// A moment after it. Before that it is not known of which moments it may be the base.
    pub(crate) mark: Option<Mark>,
}

/// A stretch of the past: bases, and all that was written after the first of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stretch {
    pub(crate) number: u32,
    pub(crate) system: u64,
    pub(crate) timeline: u32,
    pub(crate) segment_size: u64,
    /// The earliest segment that is kept.
    pub(crate) first: u64,
    /// The last mark that lies before the end of each segment that is kept.
    pub(crate) segments: Vec<Option<Mark>>,
    /// The earliest first. There is one at least.
    pub(crate) bases: Vec<Base>,
    /// The newest moment that it holds; none before the origin told one.
    pub(crate) reach: Option<Mark>,
    /// Why nothing follows; `None` while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<String>,
}

impl Stretch {
    /// The segment that is kept next.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.segments.len() as u64
    }

    /// Bytes of the log that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.len() as u64 * self.segment_size
    }

    pub(crate) fn name_of(&self, segment: u64) -> String {
        segment_name(self.timeline, segment, self.segment_size)
    }

    /// A moment of which its earliest base may be the base.
    pub(crate) fn from(&self) -> Option<Mark> {
        self.bases.iter().find_map(|base| base.mark)
    }

    /// The earliest and the latest moment of which branches can be made; none if there is none yet.
    pub(crate) fn ends(&self) -> Option<(Mark, Mark)> {
        let (from, until) = (self.from()?, self.reach?);
        (from.at <= until.at).then_some((from, until))
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// What was committed by then.
    Time(Timestamp),
    /// What was committed before it.
    Position(Position),
}

/// What a moment is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) stretch: u32,
    pub(crate) base: u32,
    /// The segments that are laid over it. The later ones of them may not be kept yet: then they are the standby's.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Before this position lies all that is asked for.
    pub(crate) needed: Position,
}

/// All stretches of a source, the earliest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ledger {
    /// How many there have been: a number is not used again.
    pub(crate) numbered: u32,
    pub(crate) stretches: Vec<Stretch>,
}

fn path(home: &Home, source: &str) -> PathBuf {
    manifest::dir(home, source).join("history.json")
}

impl Ledger {
    /// That of a source; an empty one if nothing was kept of it.
    ///
    /// # Errors
    /// When it is damaged or cannot be read.
    pub(crate) fn load(home: &Home, source: &str) -> Result<Ledger, EngineError> {
        let path = path(home, source);
        if !path.exists() {
            return Ok(Ledger::default());
        }
        manifest::read_json(&path)
    }

    pub(crate) fn save(&self, home: &Home, source: &str) -> Result<(), EngineError> {
        manifest::write_json(&path(home, source), self)
    }

    /// Whether there is a record at all.
    pub(crate) fn exists(home: &Home, source: &str) -> bool {
        path(home, source).exists()
    }

    /// Forgets that there was any.
    pub(crate) fn forget(home: &Home, source: &str) -> std::io::Result<()> {
        match std::fs::remove_file(path(home, source)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The stretch that goes on.
    pub(crate) fn open(&self) -> Option<&Stretch> {
        self.stretches.last().filter(|stretch| stretch.ended.is_none())
    }

    pub(crate) fn open_mut(&mut self) -> Option<&mut Stretch> {
        self.stretches.last_mut().filter(|stretch| stretch.ended.is_none())
    }

    pub(crate) fn stretch(&self, number: u32) -> Option<&Stretch> {
        self.stretches.iter().find(|stretch| stretch.number == number)
    }

    /// Bytes of the log that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.stretches.iter().map(Stretch::bytes).sum()
    }

    /// The newest moment that is kept.
    pub(crate) fn until(&self) -> Option<Mark> {
        self.stretches.iter().rev().find_map(|stretch| stretch.reach)
    }

    /// Of what a moment is made; `None` if it is out of reach. Where two stretches hold it, the later one counts: clocks and positions of two
    /// servers may overlap.
    pub(crate) fn choose(&self, target: Target) -> Option<Chosen> {
        self.stretches.iter().rev().find_map(|stretch| stretch.choose(target))
    }

    /// About when an origin was at a position.
    pub(crate) fn time_of(&self, chosen: &Chosen) -> Option<Timestamp> {
        let stretch = self.stretch(chosen.stretch)?;
        let marks = stretch.segments.iter().flatten().chain(&stretch.reach);
        marks.filter(|mark| mark.position >= chosen.needed.0).map(|mark| mark.at).next()
    }
}

impl Stretch {
    fn choose(&self, target: Target) -> Option<Chosen> {
        let is_before = |mark: &Mark| match target {
            Target::Time(at) => mark.at <= at,
            Target::Position(position) => mark.position <= position.0,
        };
        let is_enough = |mark: &Mark| match target {
            Target::Time(at) => mark.at >= at,
            Target::Position(position) => mark.position >= position.0,
        };
        let reach = self.reach.filter(is_enough)?;
        let base = self.bases.iter().rev().find(|base| base.mark.as_ref().is_some_and(is_before))?;
        let of_base = usize::try_from(base.segment.checked_sub(self.first)?).ok()?;
        let kept = self.segments.iter().enumerate().skip(of_base);
        let enough =
            kept.filter_map(|(index, mark)| Some((index, (*mark)?))).find(|(_, mark)| is_enough(mark));
        let (to, mark) = match enough {
            Some((index, mark)) => (self.first + index as u64, mark),
            // What is not kept yet is part of one segment, and seldom of more.
            None => (self.next().max(reach.position / self.segment_size), reach),
        };
        let needed = match target {
            Target::Time(_) => Position(mark.position),
            Target::Position(position) => position,
        };
        Some(Chosen { stretch: self.number, base: base.number, from: base.segment, to, needed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(second: i64, position: u64) -> Mark {
        Mark { at: Timestamp::from_second(second).unwrap(), position }
    }

    const MB: u64 = 1 << 20;

    /// Segments 3, 4 and 5 of 1 MB, two bases, and a part of segment 6.
    fn stretch(number: u32, late: i64) -> Stretch {
        Stretch {
            number,
            system: 7,
            timeline: 1,
            segment_size: MB,
            first: 3,
            segments: vec![None, Some(mark(late + 20, 4 * MB + 100)), Some(mark(late + 30, 5 * MB + 100))],
            bases: vec![
                Base { number: 1, segment: 3, mark: Some(mark(late + 10, 3 * MB + 500)) },
                Base { number: 2, segment: 5, mark: Some(mark(late + 25, 5 * MB + 50)) },
                Base { number: 3, segment: 6, mark: None },
            ],
            reach: Some(mark(late + 40, 6 * MB + 100)),
            ended: None,
        }
    }

    #[test]
    fn a_moment_is_made_of_the_newest_base_before_it_and_no_more_of_the_log_than_it_needs() {
        let ledger = Ledger { numbered: 2, stretches: vec![stretch(1, 0), stretch(2, 100)] };
        let time = |second: i64| Target::Time(Timestamp::from_second(second).unwrap());
        let found =
            |target| ledger.choose(target).map(|it| (it.stretch, it.base, it.from, it.to, it.needed.0));
        assert_eq!(found(time(9)), None, "before the first base");
        assert_eq!(found(time(10)), Some((1, 1, 3, 4, 4 * MB + 100)));
        assert_eq!(found(time(21)), Some((1, 1, 3, 5, 5 * MB + 100)));
        assert_eq!(found(time(25)), Some((1, 2, 5, 5, 5 * MB + 100)));
        assert_eq!(found(time(31)), Some((1, 2, 5, 6, 6 * MB + 100)), "what is not kept yet");
        assert_eq!(found(time(41)), None, "between two stretches");
        assert_eq!(found(time(110)), Some((2, 1, 3, 4, 4 * MB + 100)));
        assert_eq!(found(time(141)), None, "later than all that is known");
        let position = |position: u64| Target::Position(Position(position));
        assert_eq!(found(position(3 * MB)), None);
        assert_eq!(found(position(4 * MB)), Some((2, 1, 3, 4, 4 * MB)));
        assert_eq!(found(position(6 * MB + 100)), Some((2, 2, 5, 6, 6 * MB + 100)));
        assert_eq!(found(position(6 * MB + 101)), None);
    }
}

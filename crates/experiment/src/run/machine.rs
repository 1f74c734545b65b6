//! What the machine does beside a command: its load, the time that is stolen from it, and where the command runs.

use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};
use std::fs;

/// The load average of the last minute; 0 where the kernel does not tell.
pub(super) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// All CPU time that the machine has counted, in the kernel's ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    /// Those until now.
    pub(super) fn now() -> Self {
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default()
    }

    /// `cpu user nice system idle iowait irq softirq steal guest guest_nice`: the last two are part of the first two
    /// (proc(5)).
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> =
            line.split_ascii_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { all: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or(0) })
    }

    /// The share of the time since then that was stolen, from 0 to 1; 0 if no tick went by.
    pub(super) fn stolen_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        if all == 0 {
            return 0.0;
        }
        self.stolen.saturating_sub(before.stolen) as f64 / all as f64
    }
}

/// The calling thread on one CPU; what it starts meanwhile stays there. Dropped, the thread may run where it could before.
#[derive(Debug)]
pub(super) struct Pinned {
    before: Option<CpuSet>,
    /// The CPU, if there was a choice and the kernel allowed it.
    pub(super) cpus: Option<Vec<usize>>,
}

impl Pinned {
    /// Pins the thread to the last CPU that it may run on: the first ones serve most interrupts.
    pub(super) fn new(wanted: bool) -> Self {
        let none = Self { before: None, cpus: None };
        let Some(before) = wanted.then(|| sched_getaffinity(None).ok()).flatten() else { return none };
        let Some(last) = (0..CpuSet::MAX_CPU).rev().find(|cpu| before.is_set(*cpu)) else { return none };
        let mut one = CpuSet::new();
        one.set(last);
        if before.count() < 2 || sched_setaffinity(None, &one).is_err() {
            return none;
        }
        Self { before: Some(before), cpus: Some(vec![last]) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}

//! Whether what a program says of its time is borne out by the time that we take ourselves (X22).

use super::blocks::{self, mean, Block};
use crate::event::{Sample, Verdict};
use crate::figures::{CPU, WALL};
use crate::spec::{Direction, Scale, Spec};
use duramen_measure::statistics::Estimate;
use std::collections::BTreeMap;

/// A figure that is at least so much of the whole command's time must take it along.
const MOSTLY: f64 = 0.5;
/// Of what a figure saves, the whole command must save at least so much.
const BORNE_OUT: f64 = 0.5;
/// A figure of more than so many times what the command takes is not its time.
const AT_MOST: f64 = 1.1;
/// How sure it must be that it does not.
const CONFIDENCE: f64 = 0.99;
/// Endings of the names of times, and what they are in seconds.
const UNITS: [(&str, f64); 8] = [
    ("_ns", 1e-9),
    ("_us", 1e-6),
    ("_ms", 1e-3),
    ("_s", 1.0),
    ("_sec", 1.0),
    ("_secs", 1.0),
    ("_seconds", 1.0),
    ("_min", 60.0),
];

/// What is to be said if the program says that it takes less time, and neither the time nor the CPU time of the whole
/// command, most of which that figure is, fell by half of that.
pub(super) fn unbacked(spec: &Spec, samples: &[Sample], scales: &[Scale]) -> Option<(Verdict, String)> {
    if spec.measure.fixed_time {
        return None;
    }
    let metric = spec.primary.metric.as_str();
    let unit = seconds(metric).filter(|_| spec.primary.direction == Direction::Lower)?;
    let all: Vec<Claimed> =
        scales.iter().filter_map(|scale| Claimed::new(samples, metric, unit, &scale.name)).collect();
    let (wall, cpu) = (Saved::of(&all, |it| &it.wall)?, Saved::of(&all, |it| &it.cpu)?);
    if !wall.is_claimed || wall.is_borne_out || cpu.is_borne_out {
        return None;
    }
    let claimed = mean(&all.iter().map(|it| -it.figure.change()).collect::<Vec<_>>());
    let reason = format!(
        "{metric} says {} less a run, and the whole command takes {} and {} of the processor: a figure that the program \
         prints must show in the time that is taken of it; if it runs for a given time, say `measure.fixed_time`",
        words(claimed),
        change(wall.mean),
        change(cpu.mean)
    );
    Some((Verdict::Suspicious, reason))
}

/// What a name says that its figure is in, in seconds. Those of the whole command are no claims of the program.
fn seconds(metric: &str) -> Option<f64> {
    let unit = UNITS.iter().find(|(ending, _)| metric.ends_with(ending)).map(|(_, unit)| *unit);
    unit.filter(|_| ![WALL, CPU].contains(&metric))
}

/// The blocks of a scale at which a figure is most of what the command takes.
struct Claimed {
    figure: Times,
    wall: Times,
    cpu: Times,
}

/// Seconds of base and candidate, by block.
struct Times(BTreeMap<u32, [f64; 2]>);

impl Times {
    fn new(samples: &[Sample], metric: &str, unit: f64, scale: &str) -> Times {
        let both = |block: &Block| [mean(&block.base) * unit, mean(&block.candidate) * unit];
        Times(
            blocks::whole(samples, metric, scale)
                .iter()
                .map(|(number, block)| (*number, both(block)))
                .collect(),
        )
    }

    fn base(&self) -> f64 {
        mean(&self.0.values().map(|[base, _]| *base).collect::<Vec<_>>())
    }

    /// By how much the candidate takes longer.
    fn change(&self) -> f64 {
        mean(&self.0.values().map(|[base, candidate]| candidate - base).collect::<Vec<_>>())
    }
}

impl Claimed {
    fn new(samples: &[Sample], metric: &str, unit: f64, scale: &str) -> Option<Claimed> {
        let at = |metric, unit| Times::new(samples, metric, unit, scale);
        let claimed = Claimed { figure: at(metric, unit), wall: at(WALL, 1.0), cpu: at(CPU, 1.0) };
        let (figure, wall, cpu) = (claimed.figure.base(), claimed.wall.base(), claimed.cpu.base());
        let is_its_time = figure >= MOSTLY * wall && figure <= AT_MOST * wall.max(cpu);
        is_its_time.then_some(claimed)
    }
}

/// What the whole command saves.
struct Saved {
    is_borne_out: bool,
    /// Whether anything is said to be saved.
    is_claimed: bool,
    /// By how much it takes longer, in seconds.
    mean: f64,
}

impl Saved {
    /// Over all scales, block by block: what is saved beyond the part that must be, as a share of what the base takes.
    fn of(all: &[Claimed], time: fn(&Claimed) -> &Times) -> Option<Saved> {
        let share = |claimed: &Claimed, number: u32, part: f64| -> Option<f64> {
            let ([base, candidate], [was, is]) =
                (time(claimed).0.get(&number).copied()?, claimed.figure.0.get(&number).copied()?);
            Some((part * (base - candidate) - BORNE_OUT * (was - is)) / claimed.figure.base())
        };
        let interval = |part: f64| {
            let of_block = |number: &u32| -> Option<f64> {
                let shares: Vec<f64> =
                    all.iter().map(|it| share(it, *number, part)).collect::<Option<_>>()?;
                Some(mean(&shares))
            };
            let values: Vec<f64> = all.first()?.figure.0.keys().filter_map(of_block).collect();
            Some(Estimate::of_balanced(&values)?.interval(CONFIDENCE))
        };
        let (is_borne_out, is_claimed) = (interval(1.0)?.high >= 0.0, interval(0.0)?.high < 0.0);
        let changes: Vec<f64> = all.iter().map(|it| time(it).change()).collect();
        Some(Saved { is_borne_out, is_claimed, mean: mean(&changes) })
    }
}

fn change(seconds: f64) -> String {
    format!("{} {}", words(seconds.abs()), if seconds < 0.0 { "less" } else { "more" })
}

fn words(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 1.0 => format!("{seconds:.2} s"),
        _ if seconds >= 1e-3 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{:.1} us", seconds * 1e6),
    }
}

//! Data that is ten times the memory: random gets and puts, each engine in a process and a control group of its own.
//!
//! The group counts what the system keeps of files for the process, so an engine that leaves its memory to the system has
//! no more of it than one that keeps its own. The data is made from numbers, since the process that knew it all would
//! have no memory left.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_measure::evidence::{Evidence, Measurement, Severity};

use crate::bench::{disk_bytes, remove};
use crate::data::{mix, Key, VALUE_BYTES};
use crate::engine::{Done, Engine, Failure, Kind, Level};
use crate::engines::OURS;
use crate::group::Group;
use crate::latency::Latencies;
use crate::report::Results;
use crate::rows::{less, more, Better, Metric};

/// How many times the memory the keys and values are.
const TIMES: u64 = 10;

/// Rows that are loaded in one transaction where a larger one would not fit into the memory.
const PART: u64 = 100_000;

/// The last puts, which are read again.
const VERIFIED: usize = 1_000;

/// The engines that ours is held against, and how many times the time of the better one it may take.
const AGAINST: [&str; 2] = ["lmdb", "rocksdb"];
const MOST: f64 = 1.3;

/// What is told of an engine.
pub(crate) const METRICS: [Metric; 8] = [
    Metric { better: Better::Neither, ..less("load", "s") },
    Metric { better: Better::Neither, ..less("file/raw", "x") },
    less("get p50", "us"),
    less("get p99", "us"),
    more("get", "k/s"),
    less("put p50", "us"),
    less("put p99", "us"),
    more("put", "k/s"),
];

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limited {
    /// Bytes of memory for everything that an engine's process does.
    pub(crate) memory: u64,
    /// How long gets are counted, and how long puts.
    pub(crate) time: Duration,
    /// The seed of the data.
    pub(crate) seed: u64,
}

impl Limited {
    /// What an engine is told that it may keep of its files: half, so that there is room for all else.
    pub(crate) fn cache(&self) -> usize {
        usize::try_from(self.memory / 2).unwrap_or(usize::MAX)
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> u64 {
        self.memory * TIMES / (size_of::<Key>() + VALUE_BYTES) as u64
    }

    /// The key of a rank: keys ascend, and are spread over all that there could be.
    fn key(&self, rank: u64) -> Key {
        let width = u64::MAX / self.rows();
        let text = format!("{:016x}", rank * width + mix(rank ^ self.seed) % width);
        let mut key = [0; 16];
        key.copy_from_slice(text.as_bytes());
        key
    }

    /// The value that a row has after the put of this number; 0 is the load.
    fn value(&self, rank: u64, put: u64) -> [u8; VALUE_BYTES] {
        let mut value = [0; VALUE_BYTES];
        let mut state = mix(self.seed ^ rank) ^ mix(put);
        for piece in value.chunks_mut(8) {
            state = mix(state);
            piece.copy_from_slice(&state.to_le_bytes()[..piece.len()]);
        }
        value
    }

    /// All of it, in the process of the engine: the figures in the order of [`METRICS`].
    fn measure(&self, dir: &Path, kind: Kind) -> Done<Vec<f64>> {
        let loaded = self.load(dir, kind)?;
        let raw = self.rows() * (size_of::<Key>() + VALUE_BYTES) as u64;
        let mut values = vec![loaded.as_secs_f64(), disk_bytes(dir)? as f64 / raw as f64];
        let engine = (kind.open)(dir, Level::Buffered)?;
        // Until the memory is full of what is read.
        self.gets(&*engine, self.time / 2)?;
        values.extend(figures(&self.gets(&*engine, self.time)?)?);
        values.extend(figures(&self.puts(&*engine)?)?);
        engine.close()?;
        Ok(values)
    }

    fn load(&self, dir: &Path, kind: Kind) -> Done<Duration> {
        let engine = (kind.open)(dir, Level::Strict)?;
        // Ours rewrites what is there, so it gets all at once; it needs no memory for that.
        let part = if kind.name == OURS { u64::MAX } else { PART };
        let begin = clock::now();
        let mut first = 0;
        while first < self.rows() {
            let upto = self.rows().min(first.saturating_add(part));
            self.load_part(&*engine, first, upto)?;
            first = upto;
        }
        let took = begin.elapsed();
        engine.close()?;
        Ok(took)
    }

    fn load_part(&self, engine: &dyn Engine, first: u64, upto: u64) -> Done<()> {
        // Rows are lent, so some are made at a time and given out one by one.
        let made: Vec<(Key, [u8; VALUE_BYTES])>;
        if upto - first <= PART {
            made = (first..upto).map(|rank| (self.key(rank), self.value(rank, 0))).collect();
            return engine.bulk_load(&mut made.iter().map(|(key, value)| (key, value.as_slice())));
        }
        engine.load_made(&mut (first..upto).map(|rank| (self.key(rank), self.value(rank, 0))))
    }

    fn gets(&self, engine: &dyn Engine, time: Duration) -> Done<(Latencies, f64)> {
        let mut random = entropy::rng(self.seed);
        let mut latencies = Latencies::new();
        let mut value = Vec::new();
        let mut busy = Duration::ZERO;
        let begin = clock::now();
        while begin.elapsed() < time {
            let rank = random.u64(..self.rows());
            let key = self.key(rank);
            let start = clock::now();
            let found = engine.get(&key, &mut value)?;
            let took = start.elapsed();
            busy += took;
            latencies.record(took);
            if !found || value != self.value(rank, 0) {
                return Err(Failure::Wrong(format!("get of row {rank} did not find what was loaded")));
            }
        }
        Ok((latencies, busy.as_secs_f64()))
    }

    fn puts(&self, engine: &dyn Engine) -> Done<(Latencies, f64)> {
        let mut random = entropy::rng(self.seed ^ 1);
        let mut latencies = Latencies::new();
        let mut last: VecDeque<(u64, u64)> = VecDeque::new();
        let mut busy = Duration::ZERO;
        let begin = clock::now();
        for put in 1.. {
            if begin.elapsed() >= self.time {
                break;
            }
            let rank = random.u64(..self.rows());
            let (key, value) = (self.key(rank), self.value(rank, put));
            let start = clock::now();
            engine.put(&key, &value)?;
            let took = start.elapsed();
            busy += took;
            latencies.record(took);
            if last.len() == VERIFIED {
                last.pop_front();
            }
            last.push_back((rank, put));
        }
        let newest: HashMap<u64, u64> = last.into_iter().collect();
        let mut found = Vec::new();
        for (rank, put) in newest {
            if !engine.get(&self.key(rank), &mut found)? || found != self.value(rank, put) {
                return Err(Failure::Wrong(format!("row {rank} does not have the value that was put last")));
            }
        }
        Ok((latencies, busy.as_secs_f64()))
    }

    /// What a process does that was started for an engine: it waits until it is in its group, and prints its figures.
    ///
    /// # Errors
    /// When the engine refused, or something was wrong.
    pub(crate) fn child(&self, dir: &Path, kind: Kind) -> Done<()> {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(Failure::io("cannot wait for the group"))?;
        for value in self.measure(dir, kind)? {
            println!("{value}");
        }
        Ok(())
    }

    /// Runs an engine in a process of its own, in a group with a limit of memory.
    fn in_group(&self, dir: &Path, kind: Kind) -> Done<Vec<f64>> {
        let group = Group::make(&format!("duramen-peers-{}-{}", std::process::id(), kind.name), self.memory);
        let group = group.map_err(Failure::Wrong)?;
        let program = std::env::current_exe().map_err(Failure::io("cannot find this program"))?;
        let mut child = Command::new(program)
            .arg("--memory")
            .arg((self.memory >> 20).to_string())
            .args(["--child", kind.name, "--seconds", &self.time.as_secs_f64().to_string(), "--dir"])
            .arg(dir)
            .env(entropy::SEED_VARIABLE, self.seed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::io("cannot start a process for an engine"))?;
        let adopted = group.adopt(child.id());
        let mut values = Vec::new();
        let mut go = || -> std::io::Result<()> {
            if let (Ok(()), Some(mut input)) = (&adopted, child.stdin.take()) {
                writeln!(input)?;
            }
            if let Some(output) = child.stdout.take() {
                for line in BufReader::new(output).lines() {
                    values.extend(line?.parse::<f64>());
                }
            }
            Ok(())
        };
        let told = go();
        if adopted.is_err() {
            // It waits for a line that does not come.
            drop(child.kill());
        }
        let ended = child.wait().map_err(Failure::io("cannot wait for the process of an engine"))?;
        adopted.map_err(Failure::Wrong)?;
        if group.killed() > 0 {
            return Err(Failure::Wrong(format!(
                "{} MiB of memory were not enough for it",
                self.memory >> 20
            )));
        }
        told.map_err(Failure::io("cannot hear of an engine"))?;
        if !ended.success() || values.len() != METRICS.len() {
            return Err(Failure::Wrong(format!("its process ended with {ended}; what it said is above")));
        }
        Ok(values)
    }

    /// Measures all engines.
    ///
    /// # Errors
    /// When there can be no group with a limit of memory: then nothing was measured. When a folder cannot be made.
    pub(crate) fn run(&self, dir: &Path, kinds: &[Kind], repeats: u32) -> Result<Results, String> {
        Group::make(&format!("duramen-peers-{}", std::process::id()), self.memory).map_err(|why| {
            format!("no control group with a limit of memory can be had here, so nothing was measured: {why}")
        })?;
        let mut results = Results::default();
        let mut random = entropy::rng(self.seed);
        for round in 1..=repeats {
            let mut order = kinds.to_vec();
            random.shuffle(&mut order);
            for kind in order {
                let store = dir.join(kind.name);
                let measured = std::fs::create_dir(&store)
                    .map_err(Failure::io("cannot make a folder"))
                    .and_then(|()| self.in_group(&store, kind));
                remove(&store).map_err(|error| error.to_string())?;
                match measured {
                    Ok(values) => {
                        for (metric, value) in METRICS.iter().zip(values) {
                            eprintln!(
                                "{round}/{repeats} {}: {} {value:.3} {}",
                                kind.name, metric.name, metric.unit
                            );
                            results.add(metric, kind.name, value);
                        }
                    }
                    Err(error) => {
                        eprintln!("{round}/{repeats} {} FAILED: {error}", kind.name);
                        METRICS.iter().for_each(|metric| results.fail(metric, kind.name, error.to_string()));
                    }
                }
            }
        }
        Ok(results)
    }
}

fn figures((latencies, busy): &(Latencies, f64)) -> Done<[f64; 3]> {
    Ok([latencies.us(0.5)?, latencies.us(0.99)?, latencies.count() as f64 / busy / 1e3])
}

/// Adds how many times the time of the better of two others ours takes, and says where that is too much.
pub(crate) fn hold(results: &Results, evidence: &mut Evidence) {
    for metric in METRICS.iter().filter(|metric| metric.better == Better::More) {
        let rates = AGAINST.iter().filter_map(|engine| results.median(metric, engine));
        let (Some(best), Some(ours)) = (rates.reduce(f64::max), results.median(metric, OURS)) else {
            continue;
        };
        let times = best / ours;
        let what = format!("{} time over the best of {}", metric.name, AGAINST.join(" and "));
        println!("{what}: {times:.2} (at most {MOST})");
        evidence.measurements.push(Measurement::scalar(format!("{what}/{OURS}"), "x", times));
        if times > MOST {
            let text = format!("{what}: {times:.2} times, above {MOST}");
            evidence.find("target_missed", Severity::Warning, Some(times), text);
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/limited.rs"]
mod tests;

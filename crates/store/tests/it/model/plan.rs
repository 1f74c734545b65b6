//! Plans: what is done to a store, as data. They are made from a seed, cut down when they fail, and kept as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use duramen_base::entropy;
use duramen_store::Value;

/// Branches that a plan speaks of; the first is the default one.
pub(crate) const BRANCHES: [&str; 8] = ["main", "b1", "b2", "feature/x", "b4", "b5", "b6", "b7"];
/// Spaces that it speaks of; the first is the default one.
pub(crate) const SPACES: [&str; 3] = ["default", "a", "second-1"];
/// Places for snapshots and for transactions that are held.
pub(crate) const SLOTS: usize = 4;

/// What the number in a step stands for, and so how it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arg {
    Branch,
    Space,
    Key,
    Value,
    Level,
    Slot,
    Count,
    Flag,
    /// Device steps until the machine stops.
    Fuse,
}

macro_rules! kinds {
    ($($kind:ident $name:literal $weight:literal [$($arg:ident),*])*) => {
        /// What a step does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $($kind),* }

        /// Name, weight in random plans, and numbers of each kind of step.
        const KINDS: &[(Kind, &str, u32, &[Arg])] = &[$((Kind::$kind, $name, $weight, &[$(Arg::$arg),*])),*];
    };
}

kinds! {
    Put "put" 220 [Branch, Space, Key, Value, Level]
    Delete "delete" 90 [Branch, Space, Key, Level]
    PutMany "put-many" 40 [Branch, Space, Key, Count, Value, Level]
    DeleteMany "delete-many" 25 [Branch, Space, Key, Count, Level]
    Get "get" 60 [Branch, Space, Key]
    Range "range" 25 [Branch, Space, Key, Key, Count]
    List "list" 25 [Branch, Space, Key, Count, Flag]
    Count "count" 15 [Branch, Space, Key, Flag]
    CellInit "cell-init" 20 [Branch, Space, Key, Value, Level]
    CellSet "cell-set" 40 [Branch, Space, Key, Value, Level]
    CellCas "cell-cas" 40 [Branch, Space, Key, Value, Level, Count]
    CellDelete "cell-delete" 15 [Branch, Space, Key, Level]
    CellRead "cell-read" 15 [Branch, Space, Key]
    EventAppend "event-append" 22 [Branch, Space, Count, Value, Level]
    DocSet "doc-set" 20 [Branch, Space, Key, Value, Level]
    DocChange "doc-change" 30 [Branch, Space, Key, Value, Level]
    DocDelete "doc-delete" 8 [Branch, Space, Key, Level]
    Create "create" 4 [Branch]
    Fork "fork" 24 [Branch, Branch, Flag]
    DeleteBranch "delete-branch" 10 [Branch]
    Reset "reset" 8 [Branch]
    Protect "protect" 5 [Branch, Count]
    Begin "begin" 25 [Slot, Branch, Level]
    TxPut "tx-put" 60 [Slot, Space, Key, Value]
    TxDelete "tx-delete" 25 [Slot, Space, Key]
    TxCellSet "tx-cell-set" 25 [Slot, Space, Key, Value]
    TxEvent "tx-event" 10 [Slot, Space, Value]
    TxDocChange "tx-doc-change" 14 [Slot, Space, Key, Value]
    TxGet "tx-get" 20 [Slot, Space, Key]
    TxRange "tx-range" 12 [Slot, Space, Key, Key, Count]
    TxCount "tx-count" 8 [Slot, Space, Key, Flag]
    Commit "commit" 22 [Slot]
    GiveUp "give-up" 4 [Slot]
    Snapshot "snapshot" 12 [Slot, Branch]
    CheckSnapshot "check-snapshot" 6 [Slot]
    DropSnapshot "drop-snapshot" 5 [Slot]
    Sync "sync" 6 []
    Checkpoint "checkpoint" 6 []
    Compact "compact" 3 []
    Reopen "reopen" 1 [Flag]
    PowerCut "power-cut" 2 [Fuse]
    Kill "kill" 2 [Fuse]
    StopIn "stop-in" 2 [Fuse, Flag]
    Verify "verify" 2 []
}

/// One thing done to a store. Every sequence of steps is a plan: a step that makes no sense must fail as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    pub(crate) n: [u32; 6],
}

/// What a store stands on in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// Doubles in memory that can lose what was not made durable.
    Doubles,
    /// A folder.
    Folder,
}

/// A plan: how the store is opened, and what is done to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) device: Device,
    pub(crate) keys: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) checkpoint_log_bytes: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) sync_every_ms: u64,
    /// The level of what is done to branches.
    pub(crate) level: u32,
    pub(crate) steps: Vec<Step>,
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn random(seed: u64, device: Device, steps: usize) -> Self {
        let mut rng = entropy::rng(seed);
        let mut plan = Self {
            seed,
            device,
            keys: [12, 80, 600][rng.usize(..3)],
            // From nearly nothing, so that nodes are read again and again, to plenty.
            memory_bytes: [1 << 12, 1 << 16, 1 << 26][rng.usize(..3)],
            checkpoint_log_bytes: [1 << 13, 1 << 16, 1 << 30][rng.usize(..3)],
            segment_bytes: [4096, 16384, 1 << 20][rng.usize(..3)],
            sync_every_ms: [1, 20, 3_600_000][rng.usize(..3)],
            level: rng.u32(..3),
            steps: Vec::new(),
        };
        plan.steps = (0..steps).map(|_| Step::random(&mut rng, plan.keys)).collect();
        plan
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = format!(
            "config seed={} device={} keys={} memory={} checkpoint={} segment={} sync_ms={} level={}\n",
            self.seed,
            if self.device == Device::Doubles { "doubles" } else { "folder" },
            self.keys,
            self.memory_bytes,
            self.checkpoint_log_bytes,
            self.segment_bytes,
            self.sync_every_ms,
            self.level,
        );
        for step in &self.steps {
            text.push_str(step.name());
            for number in &step.n[..step.args().len()] {
                write!(text, " {number}").expect("text can be written to a string");
            }
            text.push('\n');
        }
        text
    }

    /// Reads a plan; lines that begin with `#` say why it is kept.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let config = lines.next().and_then(|line| line.strip_prefix("config ")).ok_or("no config line")?;
        let config: BTreeMap<&str, &str> =
            config.split_whitespace().filter_map(|pair| pair.split_once('=')).collect();
        let number = |name: &str| -> Result<u64, String> {
            let text = config.get(name).ok_or_else(|| format!("config has no {name}"))?;
            text.parse().map_err(|_| format!("config has {name}={text}"))
        };
        let device = match config.get("device").copied() {
            Some("doubles") => Device::Doubles,
            Some("folder") => Device::Folder,
            other => return Err(format!("config has device={other:?}")),
        };
        Ok(Self {
            seed: number("seed")?,
            device,
            keys: number("keys")? as u32,
            memory_bytes: number("memory")?,
            checkpoint_log_bytes: number("checkpoint")?,
            segment_bytes: number("segment")?,
            sync_every_ms: number("sync_ms")?,
            level: number("level")? as u32,
            steps: lines.map(Step::parse).collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Step {
    fn random(rng: &mut fastrand::Rng, keys: u32) -> Self {
        let all: u32 = KINDS.iter().map(|(_, _, weight, _)| weight).sum();
        let mut at = rng.u32(..all);
        let found = KINDS.iter().find(|(_, _, weight, _)| {
            let is_here = at < *weight;
            at = at.wrapping_sub(*weight);
            is_here
        });
        let (kind, _, _, args) = found.expect("the number is below the sum of all weights");
        let mut n = [0; 6];
        for (number, arg) in n.iter_mut().zip(*args) {
            *number = arg.random(rng, keys);
        }
        Self { kind: *kind, n }
    }

    fn about(&self) -> &'static (Kind, &'static str, u32, &'static [Arg]) {
        KINDS.iter().find(|(kind, ..)| *kind == self.kind).expect("every kind is in the table")
    }

    pub(crate) fn name(&self) -> &'static str {
        self.about().1
    }

    fn args(&self) -> &'static [Arg] {
        self.about().3
    }

    fn parse(line: &str) -> Result<Self, String> {
        let bad = || format!("no step: {line:?}");
        let mut words = line.split_whitespace();
        let name = words.next().ok_or_else(bad)?;
        let (kind, _, _, args) = KINDS.iter().find(|(_, known, ..)| *known == name).ok_or_else(bad)?;
        let mut n = [0; 6];
        let mut count = 0;
        for word in words {
            *n.get_mut(count).ok_or_else(bad)? = word.parse().map_err(|_| bad())?;
            count += 1;
        }
        if count == args.len() {
            Ok(Self { kind: *kind, n })
        } else {
            Err(bad())
        }
    }
}

impl Arg {
    fn random(self, rng: &mut fastrand::Rng, keys: u32) -> u32 {
        match self {
            // Half of all is done on the first two.
            Self::Branch => [rng.u32(..2), rng.u32(..BRANCHES.len() as u32)][rng.usize(..2)],
            Self::Space => [0, rng.u32(..SPACES.len() as u32)][rng.usize(..2)],
            Self::Key => rng.u32(..keys),
            Self::Value => rng.u32(..100_000),
            Self::Level => rng.u32(..3),
            Self::Slot => rng.u32(..SLOTS as u32),
            Self::Count => [rng.u32(..4), rng.u32(..24)][rng.usize(..2)],
            Self::Flag => rng.u32(..2),
            Self::Fuse => [0, rng.u32(1..8), rng.u32(1..40)][rng.usize(..3)],
        }
    }
}

/// The keys of a plan: a smaller number has a smaller key.
pub(crate) fn keys(count: u32) -> Vec<String> {
    let key = |n: u32| match n % 11 {
        0 => format!("a/{n}"),
        1 => format!("a/{n}/{}", "long".repeat(1 + n as usize * 7 % 200)),
        2 => format!("caf\u{e9}/{n}"),
        3 => format!("{n}"),
        4 => format!("\u{1}{n}"),
        _ => format!("user:{:06}", u64::from(n) * 7919 % 1_000_000),
    };
    let mut keys: Vec<String> = (0..count.max(1)).map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The value of a number: of all kinds and sizes, mostly small.
pub(crate) fn value(n: u32) -> Value {
    let mut rng = entropy::rng(u64::from(n));
    let bytes = |rng: &mut fastrand::Rng, len: usize| -> Vec<u8> { (0..len).map(|_| rng.u8(..)).collect() };
    match n % 50 {
        0 => Value::Null,
        1..=2 => Value::Bool(n.is_multiple_of(3)),
        3..=12 => Value::Int(i64::from(n) * -7919),
        13..=16 => Value::Float(f64::from(n) / 7.0),
        17..=30 => Value::String(format!("value {n}")),
        31..=38 => {
            let len = rng.usize(..300);
            Value::Bytes(bytes(&mut rng, len))
        }
        39..=44 => Value::Array((0..n % 9).map(|i| Value::Int(i64::from(n + i))).collect()),
        45..=47 => {
            let members = (0..n % 7).map(|i| (format!("member {i}"), Value::String(format!("of {n}"))));
            Value::Object(members.collect())
        }
        48 => {
            let len = rng.usize(1000..5000);
            Value::Bytes(bytes(&mut rng, len))
        }
        _ => {
            let len = [20_000, 3_000][usize::from(!n.is_multiple_of(4))];
            Value::Bytes(bytes(&mut rng, len))
        }
    }
}

/// Types of events.
pub(crate) const EVENT_TYPES: [&str; 3] = ["made", "sold", "made/again"];

/// The type and the payload of the event of a number.
pub(crate) fn event(n: u32) -> (&'static str, serde_json::Value) {
    (EVENT_TYPES[n as usize % 3], serde_json::json!({ "n": n, "text": "x".repeat(n as usize % 90) }))
}

/// A document: a large part that is set as a whole, and a small one that is changed in place; none is not there.
pub(crate) fn document(large: Option<u32>, small: Option<u64>) -> serde_json::Value {
    let mut members = serde_json::Map::new();
    if let Some(n) = large {
        let list: Vec<_> = (0..n % 300).map(|i| serde_json::json!({ "i": i, "of": n })).collect();
        members.insert("large".to_owned(), list.into());
    }
    if let Some(n) = small {
        members
            .insert("small".to_owned(), serde_json::json!({ "n": n, "text": "y".repeat(n as usize % 50) }));
    }
    members.into()
}

//! What the operations and the maintenance thread share.

use crate::{
    activity::{Activity, Wake},
    agreed::{Names, Turns},
    audit::Audit,
    burst::Burst,
    capacity::Capacity,
    environment::Environment,
    error::{EngineError, HomeError},
    files::{self, Passage},
    following::{Followers, LeftAtOrigins},
    generations::Keeping,
    home::Home,
    marker::Marker,
    metrics::Metrics,
    pairs::Pairs,
    registry::Registry,
    sealing::Unsealed,
    source::stall::STALL_LIMIT,
    spare::Packets,
    statements::Statements,
    users::Users,
};
use duramen_base::clock;
use duramen_postgres::{volume, ControlGroups, ServerUser};
use std::{
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Arc, Mutex, OnceLock,
    },
    time::{Duration, Instant},
};

/// A loop-backed volume store takes at most this much, unless it is told otherwise.
const VOLUME_SIZE_MAX: u64 = 32 << 30;
/// How an engine is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The home directory; made if missing.
    pub home: PathBuf,
    /// How volumes are cloned.
    pub volumes: volume::Choice,
    /// Size of the loop-backed volume store, if one has to be made, all of which is allocated at once. `None`: a quarter
    /// of the free disk, at most 32 GiB.
    pub volume_size: Option<u64>,
    /// How long the reading of an origin, for an import or for evidence, may stand still before it is given up. `None`: ten
    /// minutes.
    pub stall: Option<Duration>,
    /// After how long a branch of a token's holder in which nobody is is stopped, until somebody comes. `None`: never.
    pub sleep_after: Option<Duration>,
}

/// What the operations and the maintenance thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) environment: Environment,
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) registry: Registry,
    pub(crate) marker: Marker,
    pub(crate) users: Users,
    pub(crate) followers: Followers,
    pub(crate) left_at_origins: LeftAtOrigins,
    pub(crate) keeping: Keeping,
    pub(crate) pairs: Pairs,
    pub(crate) unsealed: Unsealed,
    pub(crate) opened: Instant,
    /// When creates last looked for lost writes, in milliseconds after `opened`.
    pub(crate) looked_ms: AtomicU64,
    pub(crate) audit: Audit,
    pub(crate) metrics: Metrics,
    pub(crate) activity: Activity,
    pub(crate) burst: Burst,
    /// With what clients come through doors.
    pub(crate) packets: Packets,
    /// How far the logs of branches were read whose statements are in the audit log.
    pub(crate) statements: Statements,
    pub(crate) wake: Wake,
    pub(crate) closing: AtomicBool,
    /// Who agrees on names beyond this machine, if somebody does.
    pub(crate) names: OnceLock<Arc<dyn Names>>,
    pub(crate) turns: Turns,
    pub(crate) boot: String,
    /// How many leases the machine bears.
    pub(crate) capacity: Mutex<Capacity>,
}

impl Shared {
    pub(crate) fn new(
        environment: Environment,
        runtime: tokio::runtime::Handle,
        registry: Registry,
        marker: Marker,
        audit: Audit,
        boot: String,
    ) -> Shared {
        let keeping = Keeping::default();
        // Those of moments whose branches went with an earlier process.
        keeping.look_soon();
        Shared {
            environment,
            runtime,
            registry,
            marker,
            users: Users::default(),
            followers: Followers::default(),
            left_at_origins: LeftAtOrigins::default(),
            keeping,
            pairs: Pairs::default(),
            unsealed: Unsealed::default(),
            opened: clock::now(),
            looked_ms: AtomicU64::new(0),
            audit,
            metrics: Metrics::default(),
            activity: Activity::new(),
            burst: Burst::new(),
            packets: Packets::default(),
            statements: Statements::default(),
            wake: Wake::default(),
            closing: AtomicBool::new(false),
            names: OnceLock::new(),
            turns: Turns::default(),
            boot,
            capacity: Mutex::new(Capacity::of_machine()),
        }
    }

    /// Whether the maintenance thread has something more urgent to do than what it is at: a create waits, or the
    /// engine closes.
    pub(crate) fn is_wanted(&self) -> bool {
        self.closing.load(Ordering::Acquire) || self.registry.has_waiters()
    }

    /// Writes an event into the audit log.
    pub(crate) fn audit(&self, event: &str, details: impl serde::Serialize) -> Result<(), EngineError> {
        self.audit.append(event, details)
    }
}

/// The size of a volume store that has to be made.
pub(crate) fn volume_size(options: &OpenOptions) -> u64 {
    options.volume_size.unwrap_or_else(|| {
        let free = volume::free_bytes(&options.home).unwrap_or(0);
        (free / 4).min(VOLUME_SIZE_MAX)
    })
}

/// The places of an engine, opened.
pub(crate) fn open_environment(options: &OpenOptions) -> Result<Environment, EngineError> {
    let user = ServerUser::current().map_err(HomeError::NoServerUser)?;
    let home = Home::open(&options.home, &user)?;
    let store =
        volume::open(home.root(), options.volumes, volume_size(options)).map_err(HomeError::NoVolumes)?;
    // Mounting put another directory in its place.
    files::make_dir(&store.root, Passage::Servers, &user)?;
    let groups = ControlGroups::open(&home.group_name());
    if let Err(reason) = &groups {
        tracing::warn!(reason, "memory, processes and processors of branches are not limited");
    }
    Ok(Environment {
        losses: Arc::default(),
        home,
        store: Arc::new(store),
        stall: options.stall.unwrap_or(STALL_LIMIT),
        sleep_after: options.sleep_after,
        user,
        groups: Arc::new(groups),
    })
}

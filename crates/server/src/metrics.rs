//! The daemon's figures for Prometheus, in the text format of OpenMetrics 1.0.

use crate::fleet::Peers;
use duramen_api::route::Op;
use duramen_branches::Engine;
use hyper::StatusCode;
use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{exponential_buckets, Histogram},
        info::Info,
    },
    registry::{Registry, Unit},
};
use std::{fmt, sync::Arc, time::Duration};

/// The media type of the text.
pub(crate) const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// What every name begins with.
const PREFIX: &str = "duramen";

type Labels = Vec<(&'static str, &'static str)>;

/// What the daemon counts, and what its engine does.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Histogram>,
    refusals: Family<Labels, Counter>,
    process: Process,
}

impl Metrics {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        router: Option<&RouterMetrics>,
        fleet: Option<&Arc<Peers>>,
    ) -> Metrics {
        let mut registry = Registry::with_prefix(PREFIX);
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("daemon", "What serves", version);
        engine.register_metrics(&mut registry);
        let requests: Family<Labels, Histogram> = Family::new_with_constructor(short);
        registry.register_with_unit(
            "http_request",
            "Requests of the interface until their reply begins",
            Unit::Seconds,
            requests.clone(),
        );
        let refusals = Family::default();
        registry.register(
            "http_refusals",
            "Requests that were not done, by operation and class",
            refusals.clone(),
        );
        if let Some(router) = router {
            router.register(&mut registry);
        }
        if let Some(fleet) = fleet {
            fleet.register_metrics(&mut registry);
        }
        let process = Process::register(&mut registry);
        Metrics { registry, requests, refusals, process }
    }

    /// A request that is answered.
    pub(crate) fn answered(&self, op: Op, status: StatusCode, took: Duration) {
        self.requests.get_or_create(&vec![("operation", op.name())]).observe(took.as_secs_f64());
        let class = match status.as_u16() {
            0..=399 => return,
            401 => "not authenticated",
            403 => "not allowed",
            429 | 503 => "later",
            400..=499 => "wrong",
            _ => "failed",
        };
        self.refusals.get_or_create(&vec![("operation", op.name()), ("class", class)]).inc();
    }

    /// All of it, as text.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        self.process.look();
        let mut text = String::with_capacity(32 << 10);
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// A histogram of what takes from half a millisecond to half a minute.
fn short() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 17))
}

/// What the router counts.
#[derive(Debug, Clone)]
pub(crate) struct RouterMetrics {
    /// Sessions that are open.
    pub(crate) sessions: Gauge,
    entered: Histogram,
    ended: Family<Labels, Counter>,
    bytes: Family<Labels, Counter>,
}

impl Default for RouterMetrics {
    fn default() -> RouterMetrics {
        RouterMetrics {
            sessions: Gauge::default(),
            entered: short(),
            ended: Family::default(),
            bytes: Family::default(),
        }
    }
}

impl RouterMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register("router_sessions", "Sessions of PostgreSQL clients", self.sessions.clone());
        registry.register_with_unit(
            "router_connect",
            "From a PostgreSQL client's first byte to its session",
            Unit::Seconds,
            self.entered.clone(),
        );
        registry.register(
            "router_connections",
            "Connections of PostgreSQL clients that ended, by how: what refused them, or what ended their session",
            self.ended.clone(),
        );
        registry.register_with_unit(
            "router",
            "What went through the router in sessions that ended",
            Unit::Bytes,
            self.bytes.clone(),
        );
    }

    /// A client that is in.
    pub(crate) fn entered(&self, took: Duration) {
        self.sessions.inc();
        self.entered.observe(took.as_secs_f64());
    }

    /// A session that ended.
    pub(crate) fn left(&self, why: &'static str, sent: u64, received: u64) {
        self.sessions.dec();
        self.ended(why);
        self.bytes.get_or_create(&vec![("direction", "sent")]).inc_by(sent);
        self.bytes.get_or_create(&vec![("direction", "received")]).inc_by(received);
    }

    /// A connection that ended, with or without a session.
    pub(crate) fn ended(&self, why: &'static str) {
        self.ended.get_or_create(&vec![("why", why)]).inc();
    }
}

/// What the daemon's process takes.
#[derive(Debug)]
struct Process {
    memory: Gauge,
    descriptors: Gauge,
    cpu: Gauge<f64, std::sync::atomic::AtomicU64>,
}

impl Process {
    fn register(registry: &mut Registry) -> Process {
        let process =
            Process { memory: Gauge::default(), descriptors: Gauge::default(), cpu: Gauge::default() };
        registry.register_with_unit(
            "daemon_resident_memory",
            "Memory of the daemon's own process",
            Unit::Bytes,
            process.memory.clone(),
        );
        registry.register(
            "daemon_open_descriptors",
            "Its open files and sockets",
            process.descriptors.clone(),
        );
        registry.register_with_unit(
            "daemon_cpu",
            "Processor time that it has taken",
            Unit::Seconds,
            process.cpu.clone(),
        );
        process
    }

    /// Looks at what it takes now; what cannot be seen stays as it was.
    fn look(&self) {
        let pages = std::fs::read_to_string("/proc/self/statm");
        let resident = pages.ok().and_then(|text| text.split(' ').nth(1)?.parse::<i64>().ok());
        if let (Some(pages), Ok(size)) = (resident, i64::try_from(rustix::param::page_size())) {
            self.memory.set(pages.saturating_mul(size));
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            self.descriptors.set(i64::try_from(files.count()).unwrap_or(i64::MAX));
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        self.cpu.set(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9);
    }
}

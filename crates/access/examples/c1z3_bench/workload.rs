//! The grants that are read and written.

use std::fmt::Write as _;

use duramen_access::graph::{Any, Expansion, Grant, GrantRef, Timestamp};
use duramen_base::entropy;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// When the sync was, and all grants of the workload `unique` were seen.
pub(crate) const SEEN: Timestamp = Timestamp { seconds: 1_750_000_000, nanos: 0 };

const ENTITLEMENTS: usize = 100;
const SEED: u64 = 1;

/// Which grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Those of `duramen lab run packs`: a hundred entitlements of one resource, users by number, one time,
    /// in order.
    Unique,
    /// Several resources, kinds of principals and times, ids that do not compress; in random order. One in
    /// ten names its sources, and one in ten has an id of its own.
    Varied,
    /// As varied, but every grant has an id without order, and one in five has annotations, sources and an expansion that is
    /// still to be done.
    Irregular,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Unique => "unique",
            Kind::Varied => "varied",
            Kind::Irregular => "irregular",
        }
    }
}

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found =
            [Kind::Unique, Kind::Varied, Kind::Irregular].into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("there is no workload {text:?}; there are unique, varied and irregular"))
    }
}

/// The parts of grants, made before anything is timed. Grant `at` is of entitlement `at mod 100`, held by
/// principal `at div 100`.
pub(crate) struct Workload {
    entitlements: Vec<Entitlement>,
    /// Type and id.
    principals: Vec<(&'static str, String)>,
    rows: Vec<Row>,
    ids: String,
}

struct Entitlement {
    id: String,
    resource_type: &'static str,
    resource: String,
}

struct Row {
    at: usize,
    /// Where its id ends.
    id_end: usize,
    seen: Timestamp,
    /// What a grant says beside its edge.
    rest: Option<Box<Grant>>,
}

impl Workload {
    pub(crate) fn new(count: usize, kind: Kind) -> Self {
        let mut random = entropy::rng(SEED);
        let varied = kind != Kind::Unique;
        let entitlements: Vec<Entitlement> = (0..ENTITLEMENTS)
            .map(|number| {
                let resource = if varied { format!("repo-{:03}", number / 4) } else { "github".to_owned() };
                let resource_type = if varied { "repository" } else { "app" };
                let id = format!("{resource_type}:{resource}:entitlement-{number:04}");
                Entitlement { id, resource_type, resource }
            })
            .collect();
        let principals = (0..count.div_ceil(ENTITLEMENTS))
            .map(|number| match number % 3 {
                _ if !varied => ("user", format!("user-{number:08}")),
                0 => ("group", format!("{:016x}", random.u64(..))),
                1 => ("service-account", format!("{number}@{:08x}.example", random.u32(..))),
                _ => ("user", format!("{:016x}", random.u64(..))),
            })
            .collect();
        let mut places: Vec<usize> = (0..count).collect();
        if varied {
            random.shuffle(&mut places);
        }
        let mut made = Self { entitlements, principals, rows: Vec::with_capacity(count), ids: String::new() };
        for at in places {
            let (entitlement, (principal_type, principal)) = made.parts(at);
            let mut id = format!("{}:{principal_type}:{principal}", entitlement.id);
            let (mut seen, mut rest) = (SEEN, None);
            if varied {
                seen.seconds += at as i64 * 7 % 86_400;
                seen.nanos = random.u32(..1_000_000_000) as i32;
                if kind == Kind::Irregular {
                    id.clear();
                    write!(id, "{:016x}{:016x}", random.u64(..), random.u64(..)).ok();
                }
                let one_in = if kind == Kind::Irregular { 5 } else { 10 };
                match random.u32(..one_in) {
                    0 => rest = Some(entitlement.id.clone()),
                    1 if kind == Kind::Varied => {
                        id.clear();
                        write!(id, "grant-{at:08}-{:016x}", random.u64(..)).ok();
                    }
                    _ => {}
                }
            }
            let rest = rest.map(|source| {
                let mut grant = Grant { id: id.clone(), ..Grant::default() };
                if kind == Kind::Irregular {
                    let any = &made.entitlements[random.usize(..ENTITLEMENTS)].id;
                    grant.sources.push((any.clone(), false));
                    let type_url = "type.googleapis.com/c1.connector.v2.GrantImmutable".to_owned();
                    // The id of its source.
                    let mut value = vec![1 << 3 | 2, 16];
                    value.extend_from_slice(format!("{:016x}", random.u64(..)).as_bytes());
                    grant.annotations.push(Any { type_url, value });
                    let entitlement_ids = vec![made.entitlements[random.usize(..ENTITLEMENTS)].id.clone()];
                    grant.expansion = Some(Expansion { entitlement_ids, ..Expansion::default() });
                    grant.needs_expansion = true;
                }
                grant.sources.push((source, true));
                grant.sources.sort();
                grant.sources.dedup_by(|one, other| one.0 == other.0);
                Box::new(grant)
            });
            made.ids.push_str(&id);
            made.rows.push(Row { at, id_end: made.ids.len(), seen, rest });
        }
        made
    }

    fn parts(&self, at: usize) -> (&Entitlement, (&'static str, &str)) {
        let (principal_type, principal) = &self.principals[at / ENTITLEMENTS];
        (&self.entitlements[at % ENTITLEMENTS], (principal_type, principal))
    }

    /// Calls `put` with each grant, until that fails.
    pub(crate) fn each<E>(&self, put: &mut dyn FnMut(&GrantRef<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut begin = 0;
        for row in &self.rows {
            let (entitlement, (principal_type, principal)) = self.parts(row.at);
            put(&GrantRef {
                id: &self.ids[begin..row.id_end],
                entitlement: &entitlement.id,
                resource_type: entitlement.resource_type,
                resource: &entitlement.resource,
                principal_type,
                principal,
                discovered_at: Some(row.seen),
                rest: row.rest.as_deref(),
            })?;
            begin = row.id_end;
        }
        Ok(())
    }

    pub(crate) fn sum(&self) -> Sum {
        let mut sum = Sum::default();
        let Ok(()) = self.each::<std::convert::Infallible>(&mut |grant| {
            sum.add(grant);
            Ok(())
        });
        sum
    }
}

/// A digest of rows, whatever their order.
#[derive(Default)]
pub(crate) struct Sum {
    rows: u64,
    sum: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, grant: &GrantRef<'_>) {
        let texts = [grant.id, grant.entitlement, grant.resource_type, grant.resource, grant.principal_type];
        let mut row = texts
            .into_iter()
            .chain([grant.principal])
            .fold(0, |hash, text| xxh3_64_with_seed(text.as_bytes(), hash));
        if let Some(time) = grant.discovered_at {
            row = xxh3_64_with_seed(&time.seconds.to_le_bytes(), row);
            row = xxh3_64_with_seed(&time.nanos.to_le_bytes(), row);
        }
        for (source, direct) in grant.rest.into_iter().flat_map(|rest| &rest.sources) {
            row = xxh3_64_with_seed(source.as_bytes(), row ^ u64::from(*direct));
        }
        for any in grant.rest.into_iter().flat_map(|rest| &rest.annotations) {
            row = xxh3_64_with_seed(&any.value, xxh3_64_with_seed(any.type_url.as_bytes(), row));
        }
        if let Some(expansion) = grant.rest.and_then(|rest| rest.expansion.as_ref()) {
            row = xxh3_64_with_seed(expansion.entitlement_ids.join(" ").as_bytes(), row);
        }
        self.rows += 1;
        self.sum = self.sum.wrapping_add(row);
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// A number that a double holds exactly.
    pub(crate) fn digest(&self) -> u64 {
        self.sum >> 11
    }
}

//! Graphs for the tests of `.c1z` files, and all rows of a source in one order.
#![allow(clippy::unwrap_used, reason = "these are steps of tests")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use duramen_access::c1z::{C1z1, C1z1Writer, C1z3, C1z3Writer, ReadOptions, WriteOptions};
use duramen_access::graph::*;

pub(crate) const SYNC: &str = "2aGyRUbxAdE4MTzLqMxgsT1HNjq";

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Graph {
    pub(crate) sync: Sync,
    pub(crate) resource_types: Vec<ResourceType>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) entitlements: Vec<Entitlement>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) assets: Vec<Asset>,
}

impl Graph {
    /// All rows of the only sync of a source, each kind in the order of its ids.
    pub(crate) fn read<S: GraphSource>(source: &S) -> Result<Graph, S::Error> {
        let mut syncs = source.syncs()?;
        assert_eq!(syncs.len(), 1);
        let mut graph = Graph { sync: syncs.remove(0), ..Graph::default() };
        let id = graph.sync.id.clone();
        source.for_each_resource_type(&id, &mut |row| push(&mut graph.resource_types, row))?;
        source.for_each_resource(&id, &mut |row| push(&mut graph.resources, row))?;
        source.for_each_entitlement(&id, &mut |row| push(&mut graph.entitlements, row))?;
        source.for_each_grant(&id, &mut |row| push(&mut graph.grants, row))?;
        let mut borrowed = Vec::new();
        source.for_each_grant_ref(&id, &mut |row| push(&mut borrowed, row.to_grant()))?;
        assert_eq!(borrowed, graph.grants, "borrowed rows are those that are read as values");
        source.for_each_asset(&id, &mut |row| push(&mut graph.assets, row))?;
        graph.sort();
        Ok(graph)
    }

    fn sort(&mut self) {
        self.resource_types.sort_by(|a, b| a.id.cmp(&b.id));
        self.resources.sort_by(|a, b| a.id.cmp(&b.id));
        self.entitlements.sort_by(|a, b| a.id.cmp(&b.id));
        self.grants.sort_by(|a, b| a.id.cmp(&b.id));
        self.assets.sort_by(|a, b| a.id.cmp(&b.id));
    }

    pub(crate) fn put<T: GraphSink>(&self, sink: &mut T) -> Result<(), T::Error> {
        sink.begin_sync(&self.sync)?;
        self.resource_types.iter().try_for_each(|row| sink.put_resource_type(row))?;
        self.resources.iter().try_for_each(|row| sink.put_resource(row))?;
        self.entitlements.iter().try_for_each(|row| sink.put_entitlement(row))?;
        self.grants.iter().try_for_each(|row| sink.put_grant(&GrantRef::from(row)))?;
        self.assets.iter().try_for_each(|row| sink.put_asset(row))?;
        sink.end_sync()
    }

    /// A graph that both versions hold without a loss.
    pub(crate) fn random(seed: u64, grants: usize) -> Graph {
        let mut random = fastrand::Rng::with_seed(seed);
        let time = |random: &mut fastrand::Rng| {
            Some(Timestamp { seconds: random.i64(0..4_000_000_000), nanos: random.i32(0..1_000_000_000) })
        };
        let text = |random: &mut fastrand::Rng, what: &str| {
            let odd = ["", "\0", "\u{1}", ":", "\u{fc}\u{1f600}", "x\0\u{1}\u{2}y"];
            format!("{what}{}{}", odd[random.usize(..odd.len())], random.u32(..))
        };
        let any = |random: &mut fastrand::Rng| Any {
            type_url: format!("type.googleapis.com/c1.{}", random.u8(..)),
            value: (0..random.usize(..200)).map(|_| random.u8(..)).collect(),
        };
        let mut graph = Graph {
            sync: Sync {
                id: SYNC.to_owned(),
                kind: SyncKind::ALL[random.usize(..5)],
                parent: random.bool().then(|| "2aGyRWGmu5kZmV8UYWUZ9ISXyhE".to_owned()),
                linked: random.bool().then(|| "2aGyRWGmu5kZmV8UYWUZ9ISXyhF".to_owned()),
                started_at: time(&mut random).unwrap_or_default(),
                ended_at: time(&mut random),
                token: "{\"version\":1}".to_owned(),
                supports_diff: random.bool(),
                ..Sync::default()
            },
            ..Graph::default()
        };
        for index in 0..4 {
            graph.resource_types.push(ResourceType {
                id: format!("type{index}{}", text(&mut random, "")),
                display_name: text(&mut random, "Type "),
                description: if random.bool() { text(&mut random, "d") } else { String::new() },
                traits: (0..random.usize(..4)).map(|_| Trait::from_number(random.i32(0..13))).collect(),
                annotations: (0..random.usize(..3)).map(|_| any(&mut random)).collect(),
                sourced_externally: random.bool(),
                discovered_at: time(&mut random),
                extra: Extra::default(),
            });
        }
        for index in 0..grants.min(200) + 2 {
            let kind = graph.resource_types[index % 4].id.clone();
            let parent =
                (index > 2 && random.bool()).then(|| graph.resources[random.usize(..index)].id.clone());
            graph.resources.push(Resource {
                id: ResourceId::new(kind, format!("r{index}{}", text(&mut random, ""))),
                parent,
                display_name: text(&mut random, "Resource "),
                annotations: (0..random.usize(..2)).map(|_| any(&mut random)).collect(),
                profile: random.bool().then(|| vec![10, 2, 10, 0]),
                status: random.bool().then(|| vec![8, 1, 18, 2, b'o', b'k']),
                created_at: if random.bool() { time(&mut random) } else { None },
                icon: random.bool().then(|| "icon".to_owned()),
                discovered_at: time(&mut random),
                ..Resource::default()
            });
        }
        for index in 0..10 {
            let resource = graph.resources[random.usize(..graph.resources.len())].id.clone();
            let id = match index % 3 {
                0 => format!("opaque{index}"),
                1 => format!("{}:{}:e{index}", resource.resource_type, resource.resource),
                _ => format!("{}:{}x:e{index}", resource.resource_type, resource.resource),
            };
            graph.entitlements.push(Entitlement {
                id,
                resource,
                display_name: text(&mut random, "E"),
                slug: text(&mut random, "s"),
                purpose: Purpose::from_number(random.i32(0..4)),
                annotations: (0..random.usize(..2)).map(|_| any(&mut random)).collect(),
                grantable_to: (0..random.usize(..3)).map(|at| graph.resource_types[at].id.clone()).collect(),
                discovered_at: time(&mut random),
                ..Entitlement::default()
            });
        }
        for index in 0..grants {
            let entitlement = &graph.entitlements[random.usize(..10)];
            let principal = ResourceId::new(graph.resource_types[0].id.clone(), format!("p{index}"));
            let parent = random.bool().then(|| graph.resources[0].id.clone());
            let expansion = (random.u8(..) < 40).then(|| Expansion {
                entitlement_ids: vec![text(&mut random, "e"), "  ".to_owned()],
                shallow: random.bool(),
                resource_type_ids: (0..random.usize(..2)).map(|_| "type0".to_owned()).collect(),
            });
            let mut sources: Vec<_> =
                (0..random.usize(..4)).map(|at| (format!("source{at}"), random.bool())).collect();
            sources.sort();
            graph.grants.push(Grant {
                id: format!("grant{index}"),
                entitlement: EntitlementRef {
                    resource: entitlement.resource.clone(),
                    id: entitlement.id.clone(),
                },
                principal: PrincipalRef { id: principal, parent },
                annotations: (0..random.usize(..2)).map(|_| any(&mut random)).collect(),
                sources,
                needs_expansion: expansion.is_some() && random.bool(),
                expansion,
                discovered_at: time(&mut random),
                ..Grant::default()
            });
        }
        graph.assets.push(Asset {
            id: "icon".to_owned(),
            content_type: "image/png".to_owned(),
            data: (0..5_000).map(|_| random.u8(..)).collect(),
            discovered_at: time(&mut random),
        });
        graph.sort();
        graph
    }
}

fn push<Row>(rows: &mut Vec<Row>, row: Row) -> ControlFlow<()> {
    rows.push(row);
    ControlFlow::Continue(())
}

pub(crate) fn write_v1(graph: &Graph, path: &Path) -> Vec<Loss> {
    let mut writer = C1z1Writer::create(path, &WriteOptions::default()).unwrap();
    graph.put(&mut writer).unwrap();
    let losses = writer.losses().to_vec();
    assert_eq!(writer.finish().unwrap(), std::fs::metadata(path).unwrap().len());
    losses
}

pub(crate) fn write_v3(graph: &Graph, path: &Path) -> Vec<Loss> {
    let mut writer = C1z3Writer::create(path, &WriteOptions::default()).unwrap();
    graph.put(&mut writer).unwrap();
    let losses = writer.losses().to_vec();
    assert_eq!(writer.finish().unwrap(), std::fs::metadata(path).unwrap().len());
    losses
}

/// Writes a version 3 file with grants for several tables, and nothing else; says how many grants.
pub(crate) fn write_many(path: &Path) -> usize {
    let mut writer = C1z3Writer::create(path, &WriteOptions::default()).unwrap();
    writer.begin_sync(&Sync { id: SYNC.to_owned(), ..Sync::default() }).unwrap();
    let count = 150_000;
    for index in 0..count {
        let (entitlement, principal) =
            (format!("app:github:e{}", index % 100), format!("user-{:08}", index / 100));
        let id = format!("{entitlement}:user:{principal}");
        let row = GrantRef {
            id: &id,
            entitlement: &entitlement,
            resource_type: "app",
            resource: "github",
            principal_type: "user",
            principal: &principal,
            discovered_at: None,
            rest: None,
        };
        writer.put_grant(&row).unwrap();
    }
    writer.end_sync().unwrap();
    writer.finish().unwrap();
    count
}

pub(crate) fn read_v1(path: &Path) -> Result<Graph, duramen_access::c1z::C1zError> {
    Graph::read(&C1z1::open(path, &ReadOptions::default())?)
}

pub(crate) fn read_v3(path: &Path) -> Result<Graph, duramen_access::c1z::C1zError> {
    Graph::read(&C1z3::open(path, &ReadOptions { check_sha256: true, ..ReadOptions::default() })?)
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/c1z").join(name)
}

/// Changes the database in a version 1 file by statements.
pub(crate) fn with_database(path: &Path, statements: &str) {
    let database = path.with_extension("database");
    let frame = std::fs::read(path).unwrap();
    std::fs::write(&database, zstd::decode_all(&frame[5..]).unwrap()).unwrap();
    let connection = rusqlite::Connection::open(&database).unwrap();
    connection.execute_batch(statements).unwrap();
    drop(connection);
    let frame = zstd::bulk::compress(&std::fs::read(&database).unwrap(), 1).unwrap();
    std::fs::write(path, [b"C1ZF\0".as_slice(), &frame].concat()).unwrap();
    std::fs::remove_file(database).unwrap();
}

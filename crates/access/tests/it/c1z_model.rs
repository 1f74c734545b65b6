//! Z-6, Z-7: whatever rows are put, in whatever order and however often, each format gives back what a map of them
//! would, but for the losses that it reports and the design page names.

mod hold;
mod query;
mod random;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use duramen_access::c1z::*;
use duramen_access::convert::copy;
use duramen_access::graph::*;
use duramen_base::entropy;
use hold::{Held, Holds};
use random::Random;

/// One row of any kind.
#[derive(Clone, Debug)]
pub(crate) enum Row {
    Type(ResourceType),
    Resource(Resource),
    Entitlement(Entitlement),
    Grant(Grant),
    Asset(Asset),
}

/// All rows of a sync by their keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) types: BTreeMap<String, ResourceType>,
    pub(crate) resources: BTreeMap<ResourceId, Resource>,
    pub(crate) entitlements: BTreeMap<(ResourceId, String), Entitlement>,
    pub(crate) grants: BTreeMap<String, Grant>,
    pub(crate) assets: BTreeMap<String, Asset>,
}

impl Model {
    pub(crate) fn put(&mut self, row: Row) {
        match row {
            Row::Type(row) => drop(self.types.insert(row.id.clone(), row)),
            Row::Resource(row) => drop(self.resources.insert(row.id.clone(), row)),
            Row::Entitlement(row) => {
                drop(self.entitlements.insert((row.resource.clone(), row.id.clone()), row));
            }
            Row::Grant(row) => drop(self.grants.insert(row.id.clone(), row)),
            Row::Asset(row) => drop(self.assets.insert(row.id.clone(), row)),
        }
    }

    /// All rows that a source gives, and that it gives each of them once.
    fn read<S: GraphSource>(source: &S, sync: &str) -> Result<Model, S::Error> {
        let (mut model, mut count) = (Model::default(), 0);
        let mut put = |row: Row| {
            count += 1;
            model.put(row);
            ControlFlow::Continue(())
        };
        source.for_each_resource_type(sync, &mut |row| put(Row::Type(row)))?;
        source.for_each_resource(sync, &mut |row| put(Row::Resource(row)))?;
        source.for_each_entitlement(sync, &mut |row| put(Row::Entitlement(row)))?;
        source.for_each_grant(sync, &mut |row| put(Row::Grant(row)))?;
        source.for_each_asset(sync, &mut |row| put(Row::Asset(row)))?;
        assert_eq!(count, model.rows(), "a row came twice");
        Ok(model)
    }

    fn rows(&self) -> usize {
        self.types.len()
            + self.resources.len()
            + self.entitlements.len()
            + self.grants.len()
            + self.assets.len()
    }
}

fn put_all<T: GraphSink>(sink: &mut T, sync: &Sync, rows: &[Row]) -> Result<(), T::Error> {
    sink.begin_sync(sync)?;
    for row in rows {
        match row {
            Row::Type(row) => sink.put_resource_type(row)?,
            Row::Resource(row) => sink.put_resource(row)?,
            Row::Entitlement(row) => sink.put_entitlement(row)?,
            Row::Grant(row) => sink.put_grant(&GrantRef::from(row))?,
            Row::Asset(row) => sink.put_asset(row)?,
        }
    }
    sink.end_sync()
}

/// What a source gives is what the format holds, and breaking off breaks off.
fn assert_holds<S: GraphSource>(source: &S, held: &Held, said: &str) {
    assert_eq!(source.syncs().unwrap(), std::slice::from_ref(&held.sync), "{said}");
    let id = held.sync.id.as_str();
    let found = Model::read(source, id).unwrap();
    // Kind by kind, so that a difference can be read.
    assert_eq!(found.types, held.model.types, "{said}");
    assert_eq!(found.resources, held.model.resources, "{said}");
    assert_eq!(found.entitlements, held.model.entitlements, "{said}");
    assert_eq!(found.grants, held.model.grants, "{said}");
    assert_eq!(found.assets, held.model.assets, "{said}");
    let mut visited = 0;
    source
        .for_each_grant(id, &mut |_| {
            visited += 1;
            ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(visited, 1, "{said}");
    assert!(source
        .for_each_asset("2aGyRWGmu5kZmV8UYWUZ9ISXyhZ", &mut |_| ControlFlow::Continue(()))
        .is_err());
}

/// Copies a file into a pack, whose queries answer as the model does.
fn assert_queries<S: GraphSource>(source: &S, held: &Held, path: &Path, said: &str) {
    let mut sink = GraphStore::open(path).unwrap();
    copy(source, &mut sink, &source.syncs().unwrap()).unwrap();
    assert_eq!(sink.losses(), [], "{said}");
    sink.close().unwrap();
    let pack = GraphPack::open(path).unwrap();
    assert_holds(&pack, held, said);
    query::check(&pack.view(None).unwrap(), &held.model, said);
}

fn run(seed: u64, dir: &Path) {
    let mut random = Random::new(seed);
    let (sync, rows) = (random.sync(), random.rows());
    let (one, three, pack) = (dir.join("1.c1z"), dir.join("3.c1z"), dir.join("graph.dpack"));

    let mut writer = C1z1Writer::create(&one, &WriteOptions::default()).unwrap();
    put_all(&mut writer, &sync, &rows).unwrap();
    let held = Held::new(Holds::Version1, &sync, &rows);
    held.assert_losses(writer.losses(), &format!("seed {seed}, version 1"));
    writer.finish().unwrap();
    let file = C1z1::open(&one, &ReadOptions::default()).unwrap();
    assert_holds(&file, &held, &format!("seed {seed}, version 1"));
    assert_queries(&file, &held, &dir.join("1.dpack"), &format!("seed {seed}, version 1 as a pack"));

    let mut writer = C1z3Writer::create(&three, &WriteOptions::default()).unwrap();
    put_all(&mut writer, &sync, &rows).unwrap();
    // Losses of single rows may be reported when they are put, and those of rows that are one at the end of the sync.
    let held = Held::new(Holds::Version3, &sync, &rows);
    held.assert_losses(writer.losses(), &format!("seed {seed}, version 3"));
    writer.finish().unwrap();
    let options = ReadOptions { check_sha256: true, ..ReadOptions::default() };
    let file = C1z3::open(&three, &options).unwrap();
    assert_holds(&file, &held, &format!("seed {seed}, version 3"));
    assert_queries(&file, &held, &dir.join("3.dpack"), &format!("seed {seed}, version 3 as a pack"));

    let mut store = GraphStore::open(&pack).unwrap();
    put_all(&mut store, &sync, &rows).unwrap();
    let held = Held::new(Holds::Pack, &sync, &rows);
    held.assert_losses(GraphSink::losses(&store), &format!("seed {seed}, pack"));
    store.close().unwrap();
    assert_queries(
        &GraphPack::open(&pack).unwrap(),
        &held,
        &dir.join("copy.dpack"),
        &format!("seed {seed}, pack"),
    );
}

#[test]
fn every_format_holds_what_a_map_would_but_for_what_it_tells() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    for round in 0..10 {
        run(seed.wrapping_add(round), tempfile::tempdir().unwrap().path());
    }
}

/// Each line of the table of the design page is known to this test, and this test knows none beside them.
#[test]
fn the_table_of_losses_is_complete() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/c1z.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = page.split_once("## What a version cannot hold").unwrap().1;
    let lines = table.lines().skip_while(|line| !line.starts_with("| ---")).skip(1);
    let mut lines: Vec<&str> = lines.map_while(|line| line.strip_prefix("| ")?.split(" | ").next()).collect();
    lines.sort_unstable();
    let mut known: Vec<&str> = hold::TABLE.iter().map(|(line, _)| *line).collect();
    known.sort_unstable();
    assert_eq!(lines, known);
}

//! Rows by filters: of files of every format the same, and those that reading everything finds.

use std::collections::BTreeSet;

use crate::c1z_support::*;
use duramen_access::c1z::ReadOptions;
use duramen_access::file::GraphFile;
use duramen_access::graph::*;
use duramen_access::rows::*;

fn written(file: &GraphFile, table: Table, filter: &Filter, form: Form) -> String {
    let (sync, mut text) = (file.sync(None).unwrap(), Vec::new());
    write_rows(file, &sync, (table, filter), form, u64::MAX, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn rows(file: &GraphFile, table: Table, filter: &Filter) -> BTreeSet<String> {
    written(file, table, filter, Form::Json).lines().map(str::to_owned).collect()
}

#[test]
fn a_filter_means_the_same_rows_in_every_format_by_an_index_or_without() {
    let dir = tempfile::tempdir().unwrap();
    let mut graph = Graph::random(11, 300);
    graph.sync.kind = SyncKind::Full;
    let at = |name: &str| dir.path().join(name);
    write_v1(&graph, &at("1.c1z"));
    write_v3(&graph, &at("3.c1z"));
    let mut store = GraphStore::open(at("a.dpack")).unwrap();
    graph.put(&mut store).unwrap();
    store.close().unwrap();
    let open = |name: &str| GraphFile::open(&at(name), &ReadOptions::default()).unwrap();
    let files = [open("a.dpack"), open("1.c1z"), open("3.c1z")];
    let grant = &graph.grants[17];
    let (of, holder) = (grant.entitlement.resource.clone(), grant.principal.id.clone());
    let (entitlement, principal) = (Some(grant.entitlement.id.clone()), Some(holder.clone()));
    let filters = [
        Filter::default(),
        Filter { resource_type: Some(of.resource_type.clone()), ..Filter::default() },
        Filter { resource: Some(of.clone()), ..Filter::default() },
        Filter { entitlement: entitlement.clone(), ..Filter::default() },
        Filter { principal: principal.clone(), ..Filter::default() },
        Filter { principal_type: Some(holder.resource_type.clone()), ..Filter::default() },
        Filter { entitlement, principal, resource: Some(of.clone()), ..Filter::default() },
        Filter { parent: graph.resources.iter().find_map(|row| row.parent.clone()), ..Filter::default() },
        Filter { principal: Some(ResourceId::new("no", "body")), resource: Some(of), ..Filter::default() },
    ];
    for filter in &filters {
        for table in Table::ALL {
            let found = files.each_ref().map(|file| rows(file, table, filter));
            assert!(found[0] == found[1] && found[0] == found[2], "{table:?} {filter:?}: {found:#?}");
            let lines: usize = written(&files[0], table, filter, Form::Json).lines().count();
            assert_eq!(lines, found[0].len(), "{table:?}: a row twice");
        }
        let expected = graph.grants.iter().filter(|grant| {
            let (of, holder) = (&grant.entitlement, &grant.principal.id);
            filter.entitlement.as_ref().is_none_or(|id| *id == of.id)
                && filter.resource.as_ref().is_none_or(|id| *id == of.resource)
                && filter.resource_type.as_ref().is_none_or(|id| *id == of.resource.resource_type)
                && filter.principal.as_ref().is_none_or(|id| id == holder)
                && filter.principal_type.as_ref().is_none_or(|id| *id == holder.resource_type)
        });
        assert_eq!(rows(&files[0], Table::Grants, filter).len(), expected.count(), "{filter:?}");
    }
    assert_eq!(rows(&files[0], Table::Grants, &filters[0]).len(), graph.grants.len());
}

#[test]
fn csv_and_json_have_the_columns_that_the_table_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("3.c1z");
    write_v3(&Graph::random(12, 40), &path);
    let file = GraphFile::open(&path, &ReadOptions::default()).unwrap();
    for table in Table::ALL {
        let names: Vec<&str> = table.columns().iter().map(|(name, _)| *name).collect();
        let csv = written(&file, table, &Filter::default(), Form::Csv);
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        assert_eq!(reader.headers().unwrap().iter().collect::<Vec<_>>(), names);
        let json = written(&file, table, &Filter::default(), Form::Json);
        let mut records = reader.records();
        for line in json.lines() {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            let record = records.next().unwrap().unwrap();
            assert_eq!(object.as_object().unwrap().len(), names.len());
            for (name, cell) in names.iter().zip(&record) {
                let expected = match &object[*name] {
                    serde_json::Value::Null => String::new(),
                    serde_json::Value::String(text) => text.clone(),
                    serde_json::Value::Array(all) => {
                        all.iter().map(|text| text.as_str().unwrap()).collect::<Vec<_>>().join(" ")
                    }
                    other => other.to_string(),
                };
                assert_eq!(cell, expected, "{table:?}.{name}");
            }
        }
        assert!(records.next().is_none());
    }
}

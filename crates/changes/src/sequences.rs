//! Where the sequences of one side stand.

use crate::{
    catalogue::is_wanted,
    change::{Sequence, SequenceState},
    error::ChangesError,
};
use duramen_postgres::quote_identifier;
use std::collections::BTreeMap;
use tokio_postgres::Client;

/// Sequences that one statement reads.
const A_STATEMENT: usize = 200;

pub(crate) type Sequences = BTreeMap<(String, String), SequenceState>;

/// Reads them. They stand outside of transactions: this is where they stand now.
pub(crate) async fn read(
    side: &'static str,
    client: &Client,
    wanted: &[String],
) -> Result<Sequences, ChangesError> {
    let fail =
        |source| ChangesError::Server { side, doing: "did not tell where its sequences stand", source };
    let found = client
        .query(
            "select n.nspname::text, c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace \
             where c.relkind = 'S' and c.relpersistence <> 't' and n.nspname !~ '^pg_' \
               and n.nspname <> 'information_schema' order by 1, 2",
            &[],
        )
        .await
        .map_err(fail)?;
    let names: Vec<(String, String)> = found
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .filter(|(schema, name): &(String, String)| is_wanted(wanted, schema, name))
        .collect();
    let mut sequences = Sequences::new();
    for names in names.chunks(A_STATEMENT) {
        let each: Vec<String> = names
            .iter()
            .enumerate()
            .map(|(place, (schema, name))| {
                let (schema, name) = (quote_identifier(schema), quote_identifier(name));
                format!("select {place}, last_value, is_called from {schema}.{name}")
            })
            .collect();
        for row in client.query(&each.join(" union all "), &[]).await.map_err(fail)? {
            let Some(name) = usize::try_from(row.get::<_, i32>(0)).ok().and_then(|place| names.get(place))
            else {
                continue;
            };
            let state = SequenceState { last_value: row.get(1), is_called: row.get(2) };
            sequences.insert(name.clone(), state);
        }
    }
    Ok(sequences)
}

/// Those that differ, in the order of their names.
pub(crate) fn differing(old: &Sequences, new: &Sequences) -> Vec<Sequence> {
    let names: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    names
        .into_iter()
        .map(|name| Sequence {
            schema: name.0.clone(),
            name: name.1.clone(),
            old: old.get(name).copied(),
            new: new.get(name).copied(),
        })
        .filter(|sequence| sequence.old != sequence.new)
        .collect()
}

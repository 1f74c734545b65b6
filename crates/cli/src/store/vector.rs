//! Vector collections: `duramen store vector ...`.

use super::{
    handle::Handle,
    input,
    listing::{self, Keys},
    parquet,
};
use crate::{context::Outcome, failure::Failure, output};
use clap::{Args, Subcommand};
use duramen_store::filter::{Condition, Filter};
use duramen_store::vector::{Metric, SearchOptions};
use serde::Deserialize;
use serde_json::{json, Value};
use std::{process::ExitCode, str::FromStr};

const CREATE_EXAMPLES: &str = "\
Examples:
  duramen store vector create words --dimension 384
  duramen store vector create points --dimension 3 --metric euclidean";
const DROP_EXAMPLES: &str = "\
Examples:
  duramen store vector drop words                  with all its vectors";
const COLLECTIONS_EXAMPLES: &str = "\
Examples:
  duramen store vector collections";
const UPSERT_EXAMPLES: &str = "\
Examples:
  duramen store vector upsert words oak '[1, 0, 0]' --metadata '{\"year\": 2021}'
  duramen store vector upsert words oak - < oak.json";
const UPSERT_MANY_EXAMPLES: &str = "\
Examples:
  duramen store vector upsert-many words < words.jsonl
      lines like {\"key\": \"oak\", \"vector\": [1, 0, 0], \"metadata\": {\"year\": 2021}}";
const GET_EXAMPLES: &str = "\
Examples:
  duramen store vector get words oak --json";
const DELETE_EXAMPLES: &str = "\
Examples:
  duramen store vector delete words oak elm";
const LIST_EXAMPLES: &str = "\
Examples:
  duramen store vector list words --prefix o";
const SEARCH_EXAMPLES: &str = "\
Examples:
  duramen store vector search words '[0.9, 0.1, 0]' --k 5
  duramen store vector search words - --filter 'year>=2020' --filter 'tag in [\"a\", \"b\"]' < query.json";
const EXPORT_EXAMPLES: &str = "\
Examples:
  duramen store vector export words --parquet words.parquet";
const COUNT_EXAMPLES: &str = "\
Examples:
  duramen store vector count words";

/// Vectors of one commit of `upsert-many`.
const BATCH_ROWS: usize = 1_000;

#[derive(Debug, Subcommand)]
pub(crate) enum Vector {
    /// Make a collection
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        /// The collection's name
        collection: String,
        /// The elements of each vector
        #[arg(long, value_name = "COUNT")]
        dimension: usize,
        /// The metric: cosine, dot or euclidean
        #[arg(long, value_name = "METRIC", default_value = "cosine")]
        metric: Metric,
    },
    /// Delete a collection and everything in it
    #[command(after_help = DROP_EXAMPLES)]
    Drop(Collection),
    /// List the collections
    #[command(after_help = COLLECTIONS_EXAMPLES)]
    Collections,
    /// Put a vector under a key
    #[command(after_help = UPSERT_EXAMPLES)]
    Upsert {
        /// The collection's name
        collection: String,
        /// The vector's key
        key: String,
        /// A JSON list of numbers; `-` reads it from the standard input
        vector: String,
        /// A JSON object that searches can filter by
        #[arg(long, value_name = "JSON")]
        metadata: Option<String>,
    },
    /// Put many vectors from the standard input
    #[command(after_help = UPSERT_MANY_EXAMPLES)]
    UpsertMany(Collection),
    /// Print a vector and its metadata
    #[command(after_help = GET_EXAMPLES)]
    Get {
        /// The collection's name
        collection: String,
        /// The vector's key
        key: String,
    },
    /// Delete vectors, all or none
    #[command(after_help = DELETE_EXAMPLES)]
    Delete {
        /// The collection's name
        collection: String,
        /// The vectors' keys
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// List the keys of vectors
    #[command(after_help = LIST_EXAMPLES)]
    List {
        /// The collection's name
        collection: String,
        #[command(flatten)]
        keys: Keys,
    },
    /// Write the vectors of a collection into a Parquet file, for DuckDB and others
    #[command(after_help = EXPORT_EXAMPLES)]
    Export {
        /// The collection's name
        collection: String,
        #[command(flatten)]
        to: parquet::Target,
    },
    /// Find the nearest vectors, exactly
    #[command(after_help = SEARCH_EXAMPLES)]
    Search {
        /// The collection's name
        collection: String,
        /// A JSON list of numbers; `-` reads it from the standard input
        vector: String,
        /// How many to find
        #[arg(long, value_name = "COUNT", default_value_t = 10)]
        k: usize,
        /// Only vectors whose metadata match, like year>=2020; if repeated, all must match
        #[arg(long = "filter", value_name = "CONDITION", value_parser = Condition::from_str)]
        filters: Vec<Condition>,
    },
    /// Count the vectors of a collection
    #[command(after_help = COUNT_EXAMPLES)]
    Count(Collection),
}

#[derive(Debug, Args)]
pub(crate) struct Collection {
    /// The collection's name
    collection: String,
}

pub(crate) fn run(handle: &Handle, verb: Vector) -> Outcome {
    match verb {
        Vector::Export { collection, to } => parquet::vectors(handle, &to, &collection),
        Vector::Create { collection, dimension, metric } => handle.change(|space| {
            let made = space.vectors().create(&collection, dimension, metric)?;
            let answer = json!({
                "collection": collection,
                "dimension": dimension,
                "metric": metric.as_str(),
                "made": made,
            });
            let text = if made { "made" } else { "was there already" };
            handle.say(&answer, format_args!("{text}: {collection}, {dimension} dimensions, {metric}"))
        }),
        Vector::Drop(Collection { collection }) => handle.take(|space| {
            let dropped = space.vectors().drop(&collection)?;
            let text = if dropped { "dropped" } else { "was not there" };
            handle.say(&json!({ "collection": collection, "dropped": dropped }), text)
        }),
        Vector::Collections => handle.look(|space| {
            let vectors = space.vectors();
            let names = vectors.list()?;
            let infos = names.iter().map(|name| vectors.info(name)).collect::<Result<Vec<_>, _>>()?;
            if handle.json {
                output::json(&infos)?;
            } else {
                let rows = infos.into_iter().map(|info| {
                    [info.name, info.dimension.to_string(), info.metric.to_string(), info.count.to_string()]
                });
                output::print(output::table(["COLLECTION", "DIMENSION", "METRIC", "COUNT"], rows));
            }
            Ok(ExitCode::SUCCESS)
        }),
        Vector::Upsert { collection, key, vector, metadata } => {
            let vector = self::vector(handle, &vector)?;
            let metadata = metadata.map(|text| handle.input.json_argument("metadata", &text)).transpose()?;
            handle.change(|space| {
                space.vectors().collection(&collection).upsert(&key, &vector, metadata.as_ref())?;
                handle.say(&json!({ "key": key }), format_args!("put {key}"))
            })
        }
        Vector::UpsertMany(Collection { collection }) => upsert_many(handle, &collection),
        Vector::Get { collection, key } => handle.look(|space| {
            let found = space.vectors().collection(&collection).get(&key)?;
            let row = found.ok_or_else(|| {
                Failure::Other(format!(
                    "there is no vector {key:?} in {collection:?}; list them with `duramen store vector list \
                     {collection}`"
                ))
            })?;
            if handle.json {
                output::json(&json!({ "key": key, "vector": row.vector, "metadata": row.metadata }))?;
            } else {
                output::line(json!(row.vector));
                if let Some(metadata) = row.metadata {
                    output::line(metadata);
                }
            }
            Ok(ExitCode::SUCCESS)
        }),
        Vector::Delete { collection, keys } => handle.take(|space| {
            let deleted = space.vectors().collection(&collection).delete_many(&keys)?;
            listing::deleted(handle, keys.len(), deleted)
        }),
        Vector::List { collection, keys } => handle.look(|space| {
            let collection = space.vectors().collection(&collection);
            listing::page(handle, &collection.list(&keys.prefix, keys.after.as_deref(), keys.limit)?)
        }),
        Vector::Search { collection, vector, k, filters } => {
            let vector = self::vector(handle, &vector)?;
            let options = SearchOptions { filter: Filter { conditions: filters } };
            handle.look(|space| {
                let matches = space.vectors().collection(&collection).search(&vector, k, &options)?;
                if handle.json {
                    output::json(&matches)?;
                } else {
                    let rows = matches.into_iter().map(|found| {
                        let metadata = found.metadata.map_or_else(|| "-".to_owned(), |it| it.to_string());
                        [found.key, format!("{:.6}", found.score), format!("{:.6}", found.distance), metadata]
                    });
                    output::print(output::table(["KEY", "SCORE", "DISTANCE", "METADATA"], rows));
                }
                Ok(ExitCode::SUCCESS)
            })
        }
        Vector::Count(Collection { collection }) => handle.look(|space| {
            let count = space.vectors().collection(&collection).count()?;
            handle.say(&json!({ "count": count }), count)
        }),
    }
}

/// A vector that was given as an argument, or `-` for the standard input.
fn vector(handle: &Handle, text: &str) -> Result<Vec<f32>, Failure> {
    let json = handle.input.json_argument("vector", text)?;
    serde_json::from_value(json)
        .map_err(|error| Failure::Usage(format!("the vector is not a list of numbers: {error}")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    vector: Vec<f32>,
    #[serde(default)]
    metadata: Option<Value>,
}

fn upsert_many(handle: &Handle, collection: &str) -> Outcome {
    let example = r#"{"key": "oak", "vector": [1, 0, 0], "metadata": {"year": 2021}}"#;
    let lines = handle.input.lines(|line| input::json::<Line>(line, example))?;
    handle.change(|space| {
        let collection = space.vectors().collection(collection);
        for (index, batch) in lines.chunks(BATCH_ROWS).enumerate() {
            let rows = batch.iter().map(|line| (&line.key, &line.vector, line.metadata.as_ref()));
            collection.upsert_many(rows).map_err(|error| {
                let before = index * BATCH_ROWS;
                Failure::Other(format!("{error}; the first {before} vectors are put, the others are not"))
            })?;
        }
        let count = lines.len();
        handle.say(&json!({ "put": count }), format_args!("put {}", listing::several(count as u64, "vector")))
    })
}

//! Which rows of two generations of a source differ. Invariants G11 to G14 of docs/design/generations.md.

use crate::{
    baseline::{self, Baseline},
    data_diff::{in_time, WantedDiff},
    doors::Holder,
    engine::Engine,
    error::{EngineError, GenerationError},
    leases::named,
};
use duramen_changes::{compare, Part, Request, Side, Written};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The generations whose rows are to be compared.
#[derive(Debug, Clone, Default)]
pub struct WantedGenerations {
    /// The one from which the changes lead: a number or a label.
    pub from: String,
    /// The one to which they lead.
    pub to: String,
    /// What of them.
    pub rows: WantedDiff,
    /// Whether both have to be masked.
    pub masked: bool,
}

impl Engine {
    /// Compares the rows of two generations of a source, and tells what differs as it is found: the changes from the first to
    /// the second. `by` is whoever came through a door.
    ///
    /// # Errors
    /// Unknown source, generation or table; a generation that was made under other rules for masking, or is not masked and has
    /// to be; too many comparisons at a time; too much differs.
    pub async fn generation_data_diff(
        self: &Arc<Self>,
        by: Option<&Holder>,
        name: &str,
        wanted: WantedGenerations,
        told: &mpsc::Sender<Part>,
    ) -> Result<(), EngineError> {
        let WantedGenerations { from, to, rows, masked } = wanted;
        let _place = baseline::place().await?;
        let shared = &self.shared;
        let _active = shared.activity.enter();
        let record = self.record(name)?;
        let held = [shared.hold_generation(&record, &from)?, shared.hold_generation(&record, &to)?];
        let mut generations = Vec::with_capacity(held.len());
        for held in &held {
            let generation = Arc::new(shared.open_generation(&record, held)?);
            if masked && generation.manifest.masking.is_none() {
                let (source_name, generation) = (name.to_owned(), held.number);
                return Err(GenerationError::NotMasked { source_name, generation }.into());
            }
            generations.push(generation);
        }
        let [old, new] = &generations[..] else { unreachable!("two were held") };
        // Nothing is started in what is compared: each has a server on a clone of it, which goes with this.
        let (old_side, new_side) =
            (Baseline::of(shared, old, None).await?, Baseline::of(shared, new, None).await?);
        let _visits = [old_side.branch.visit(), new_side.branch.visit()];
        let (old_client, new_client, holding) = tokio::try_join!(
            old_side.branch.administrator_client(),
            new_side.branch.administrator_client(),
            new_side.branch.administrator_client()
        )?;
        let request = Request {
            branch: Side { client: &new_client, files: &new.snapshot },
            holding: &holding,
            baseline: Side { client: &old_client, files: old_side.branch.data_dir() },
            snapshot: &old.snapshot,
            written: &Written::Apart,
            only: &rows.only,
            whole: rows.whole,
            rows: rows.rows,
        };
        let summary = in_time(compare(request, told)).await?;
        let details = json!({ "source": name, "from": held[0].number, "to": held[1].number, "tables": rows.only,
            "summary": summary });
        shared.audit("generations_data_compared", named(details, by))
    }
}

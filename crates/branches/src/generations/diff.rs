//! What two generations of a source define, compared.

use crate::{
    baseline::{self, Baseline},
    doors::Holder,
    engine::Engine,
    error::EngineError,
    leases::named,
    model::SchemaDiff,
    schema,
};
use serde_json::json;
use std::sync::Arc;

impl Engine {
    /// Compares what two generations of a source define: the changes from the first to the second. Each is a number or a
    /// label.
    ///
    /// # Errors
    /// Unknown source or generation, one that was made under other rules for masking; or too many comparisons at a time.
    pub async fn generation_diff(&self, name: &str, from: &str, to: &str) -> Result<SchemaDiff, EngineError> {
        self.generation_diff_by(None, name, from, to).await
    }

    /// [`Engine::generation_diff`] for somebody who came through a door.
    ///
    /// # Errors
    /// As for [`Engine::generation_diff`].
    pub async fn generation_diff_for(
        &self,
        holder: &Holder,
        name: &str,
        from: &str,
        to: &str,
    ) -> Result<SchemaDiff, EngineError> {
        self.generation_diff_by(Some(holder), name, from, to).await
    }

    async fn generation_diff_by(
        &self,
        by: Option<&Holder>,
        name: &str,
        from: &str,
        to: &str,
    ) -> Result<SchemaDiff, EngineError> {
        let _place = baseline::place().await?;
        let shared = &self.shared;
        let _active = shared.activity.enter();
        let record = self.record(name)?;
        let held = [shared.hold_generation(&record, from)?, shared.hold_generation(&record, to)?];
        let mut sides = Vec::with_capacity(held.len());
        for held in &held {
            let generation = Arc::new(shared.open_generation(&record, held)?);
            let baseline = Baseline::of(shared, &generation, None).await?;
            let title = format!("source {name}, generation {}", held.number);
            sides.push((title, schema::read(&baseline.branch).await?));
        }
        let [(from, left), (to, right)] = &sides[..] else { unreachable!("two were held") };
        let diff = schema::compared(from.clone(), left, to.clone(), right);
        let details = json!({ "source": name, "from": held[0].number, "to": held[1].number, "changes": diff.changes.len() });
        shared.audit("generations_compared", named(details, by))?;
        Ok(diff)
    }
}

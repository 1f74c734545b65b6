//! The generations of a source: which there are, which are kept, and what they are called. Invariants G7 to G14 of
//! docs/design/generations.md.

mod branching;
mod diff;
mod keeping;
mod rows;
mod timeline;

pub(crate) use keeping::Keeping;
pub use rows::WantedGenerations;

use crate::{
    doors::Holder,
    engine::Engine,
    error::{EngineError, GenerationError, LABELS_MAX},
    leases::named,
    model::{GenerationView, LabelGeneration},
    names,
    source::manifest::{self, Manifest, SourceRecord},
};
use duramen_base::suggest;
use serde_json::json;

impl Engine {
    /// The generations of a source that there are, the earliest first.
    ///
    /// # Errors
    /// Unknown source.
    pub fn generations(&self, name: &str) -> Result<Vec<GenerationView>, EngineError> {
        let record = self.record(name)?;
        let home = &self.shared.environment.home;
        let branches = self.shared.registry.branches_by_generation(name);
        let kept = self.shared.kept_by_rule(&record);
        // One above the current one is being imported, or was given up.
        let numbers = manifest::generations(home, name).into_iter().filter(|it| *it <= record.generation);
        let numbers = numbers.chain(manifest::moments(home, name));
        let views = numbers.filter_map(|number| {
            // One may be removed just now.
            let manifest = Manifest::load(home, name, number).ok()?;
            let kept_by = kept.get(&number).into_iter().flatten().map(|period| period.name().to_owned());
            Some(GenerationView {
                generation: number,
                imported_at: manifest.imported_at,
                server_version: manifest.server_version.to_string(),
                bytes: manifest.bytes,
                digest: manifest.digest.clone(),
                data: manifest.data().to_owned(),
                promoted: manifest.promoted,
                moment: manifest.moment.map(|of| of.moment),
                current: number == record.generation,
                labels: labels_of(&record, number),
                kept_by: kept_by.collect(),
                branches: branches.get(&number).copied().unwrap_or(0),
            })
        });
        Ok(views.collect())
    }

    /// Gives a generation of a source a label, or takes one away. As long as it has one, it is kept.
    ///
    /// # Errors
    /// Unknown source or generation; a label that another generation has, or that is none.
    pub async fn label_generation(
        &self,
        name: &str,
        request: LabelGeneration,
    ) -> Result<Vec<GenerationView>, EngineError> {
        self.label_generation_by(None, name, request).await
    }

    /// [`Engine::label_generation`] for somebody who came through a door.
    ///
    /// # Errors
    /// As for [`Engine::label_generation`].
    pub async fn label_generation_for(
        &self,
        holder: &Holder,
        name: &str,
        request: LabelGeneration,
    ) -> Result<Vec<GenerationView>, EngineError> {
        self.label_generation_by(Some(holder), name, request).await
    }

    async fn label_generation_by(
        &self,
        by: Option<&Holder>,
        name: &str,
        request: LabelGeneration,
    ) -> Result<Vec<GenerationView>, EngineError> {
        let LabelGeneration { generation, label, remove } = request;
        let _one = self.sources_lock.lock().await;
        let shared = &self.shared;
        let mut record = self.record(name)?;
        // What is being named is not removed meanwhile.
        let held = shared.hold_generation(&record, &generation)?;
        let number = held.number;
        if remove {
            if record.labels.get(&label) != Some(&number) {
                let own = labels_of(&record, number);
                let closest = suggest::closest(&label, own.iter().map(String::as_str)).map(str::to_owned);
                let source_name = name.to_owned();
                return Err(
                    GenerationError::NoLabel { source_name, label, generation: number, closest }.into()
                );
            }
            record.labels.remove(&label);
        } else {
            check_label(&label)?;
            match record.labels.get(&label) {
                Some(other) if *other != number => {
                    let (source_name, generation) = (name.to_owned(), *other);
                    return Err(GenerationError::LabelTaken { source_name, label, generation }.into());
                }
                None if record.labels.len() >= LABELS_MAX => {
                    return Err(GenerationError::TooManyLabels.into())
                }
                Some(_) | None => {}
            }
            record.labels.insert(label.clone(), number);
        }
        record.save(&shared.environment.home)?;
        shared.registry.put_source(record);
        drop(held);
        let event = if remove { "generation_unlabelled" } else { "generation_labelled" };
        let details = json!({ "source": name, "generation": number, "label": label });
        shared.audit(event, named(details, by))?;
        shared.wake.wake();
        self.generations(name)
    }
}

/// A label is a name that no number is taken for.
fn check_label(label: &str) -> Result<(), EngineError> {
    names::check("generation", label)?;
    if label.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Ok(());
    }
    Err(GenerationError::NotALabel { label: label.to_owned() }.into())
}

fn labels_of(record: &SourceRecord, number: u32) -> Vec<String> {
    record.labels.iter().filter(|(_, other)| **other == number).map(|(label, _)| label.clone()).collect()
}

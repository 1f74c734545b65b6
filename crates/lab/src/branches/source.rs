//! The source of a run: that it is there, and that its pool is the one that is measured. Afterwards it is put
//! back.

use std::collections::BTreeMap;

use duramen_api::model::{
    AddSource, ChangeSettings, Origin, Policy, PoolSize, RefillSettings, SourceSettings, SourceView,
};

use super::control::Control;
use super::options::Options;
use duramen_reports::suite::SuiteError;

/// The name under which the sample is imported without being asked.
const SAMPLE: &str = "flights";

/// A source that is ready to be measured.
pub(crate) struct Prepared {
    pub(crate) view: SourceView,
    /// How its branches ran before, to be put back; nothing for a source that this run imported.
    before: Option<SourceSettings>,
}

impl Prepared {
    /// Whether it is the sample, whose tables are known.
    pub(crate) fn is_flights(&self) -> bool {
        self.view.origin == Origin::Flights { rows: None }.kind()
    }

    /// Whether this run imported it.
    pub(crate) fn is_imported(&self) -> bool {
        self.before.is_none()
    }

    /// Whether no branch of the pool to be measured was ready before, so that warming all of it can be timed.
    pub(crate) fn was_cold(&self, policy: Policy) -> bool {
        let hot = self.before.as_ref().and_then(|before| before.pool.hot.get(&policy));
        hot.copied().unwrap_or(0) == 0
    }
}

/// Finds the source, and imports the sample if it is what is missing.
pub(crate) async fn ensure(
    control: &mut Control,
    options: &Options,
    say: &dyn Fn(&str),
) -> Result<Prepared, SuiteError> {
    let sources = control.sources().await?;
    let names: Vec<String> = sources.iter().map(|source| source.name.clone()).collect();
    if let Some(view) = sources.into_iter().find(|source| source.name == options.source) {
        let before = Some(view.settings.clone());
        return Ok(Prepared { view, before });
    }
    if options.source != SAMPLE {
        let known = if names.is_empty() {
            "there are none yet".to_owned()
        } else {
            format!("known: {}", names.join(", "))
        };
        return Err(SuiteError::Failed(format!(
            "there is no source {:?}; {known}. Import one with `duramen source add`, or measure the sample with \
             --source flights",
            options.source
        )));
    }
    say("importing the sample: real flights of one year");
    let view = import(control, SAMPLE, Origin::Flights { rows: options.rows }, say).await?;
    Ok(Prepared { view, before: None })
}

/// Imports a source with an empty pool, so that nothing is warmed that will not be measured.
pub(crate) async fn import(
    control: &mut Control,
    name: &str,
    origin: Origin,
    say: &dyn Fn(&str),
) -> Result<SourceView, SuiteError> {
    let pool = PoolSize { hot: BTreeMap::new(), cold: 0 };
    let request = AddSource {
        name: name.to_owned(),
        origin,
        database: None,
        settings: SourceSettings { pool, ..SourceSettings::default() },
    };
    control.import(&request, say).await
}

/// Makes the pool the one that is measured: of one policy, of the asked size, with nothing in reserve.
pub(crate) async fn prepare(control: &mut Control, options: &Options) -> Result<SourceView, SuiteError> {
    let change = ChangeSettings {
        hot: only(options.write.policy(), options.pool_size()),
        cold: Some(0),
        server: options.settings.iter().cloned().collect(),
        durable: Some(options.durable),
        refill: RefillSettings { way: Some(options.refill), ..RefillSettings::default() },
        ..ChangeSettings::default()
    };
    control.change_settings(&options.source, &change).await
}

/// Empties the source's pools, for what is measured without a pool.
pub(crate) async fn empty_pool(control: &mut Control, options: &Options) -> Result<SourceView, SuiteError> {
    let change = ChangeSettings { hot: only(options.write.policy(), 0), ..ChangeSettings::default() };
    control.change_settings(&options.source, &change).await
}

/// Puts back what [`prepare`] changed, and removes a source that was not there before.
pub(crate) async fn restore(
    control: &mut Control,
    options: &Options,
    prepared: &Prepared,
) -> Result<(), SuiteError> {
    let Some(before) = &prepared.before else { return control.remove_source(&options.source).await };
    let hot = Policy::ALL.map(|policy| (policy, before.pool.hot.get(&policy).copied().unwrap_or(0)));
    // An empty value removes a setting that was not there.
    let old = |name: &str| before.server.get(name).cloned().unwrap_or_default();
    let change = ChangeSettings {
        hot: hot.into(),
        cold: Some(before.pool.cold),
        server: options.settings.iter().map(|(name, _)| (name.clone(), old(name))).collect(),
        durable: Some(before.durable),
        refill: as_before(&before.refill),
        ..ChangeSettings::default()
    };
    control.change_settings(&options.source, &change).await.map(drop)
}

/// The change that restores these settings.
fn as_before(before: &RefillSettings) -> RefillSettings {
    RefillSettings {
        way: Some(before.way.unwrap_or_default()),
        clones: Some(before.clones.unwrap_or(0)),
        starts: Some(before.starts.unwrap_or(0)),
        connects: Some(before.connects.unwrap_or(0)),
    }
}

/// Sets how the pools of a source are refilled.
pub(crate) async fn set_refill(
    control: &mut Control,
    source: &str,
    refill: &RefillSettings,
) -> Result<SourceView, SuiteError> {
    let change = ChangeSettings { refill: as_before(refill), ..ChangeSettings::default() };
    control.change_settings(source, &change).await
}

/// Sizes the pool of a source, and leaves the rest.
pub(crate) async fn set_pool(
    control: &mut Control,
    source: &str,
    policy: Policy,
    size: u32,
) -> Result<SourceView, SuiteError> {
    let change = ChangeSettings { hot: only(policy, size), cold: Some(0), ..ChangeSettings::default() };
    control.change_settings(source, &change).await
}

fn only(wanted: Policy, size: u32) -> BTreeMap<Policy, u32> {
    Policy::ALL.map(|policy| (policy, if policy == wanted { size } else { 0 })).into()
}

//! `duramen config`: what a daemon of this home would serve with, and from where it has that.

mod settings;

pub(crate) use settings::Settings;

use crate::{
    context::{Context, Outcome},
    output,
};
use std::{path::PathBuf, process::ExitCode};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen config show                     what `duramen serve` would serve with, and from where it has that
  duramen config check duramen.toml       whether a file is in order
  duramen config schema > schema.json     for editors that complete and check TOML

Each option of `duramen serve` is a setting: --pg-listen is DURAMEN_PG_LISTEN in the environment, and pg-listen in
duramen.toml in the home (or the file that DURAMEN_CONFIG or --config names). Options come before the environment,
and the environment before the file.";

const SHOW_EXAMPLES: &str = "\
Examples:
  duramen config show
  DURAMEN_PG_LISTEN=0.0.0.0:6432 duramen config show --json";
const CHECK_EXAMPLES: &str = "\
Examples:
  duramen config check
  duramen config check /etc/duramen.toml";
const SCHEMA_EXAMPLES: &str = "\
Examples:
  duramen config schema > duramen.schema.json";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Config {
    /// Show what a daemon would serve with, and from where it has that
    #[command(after_help = SHOW_EXAMPLES)]
    Show,
    /// Check a file, or that of the home, and the environment
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// The file [default: DURAMEN_CONFIG, else duramen.toml in the home]
        file: Option<PathBuf>,
    },
    /// Print what may stand in a file, as JSON Schema
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
}

pub(crate) fn run(context: &Context, config: Config) -> Outcome {
    match config {
        Config::Show => {
            let settings = Settings::read(&context.home, None)?;
            settings.checked()?;
            let shown = settings.shown();
            if context.json {
                output::json(&shown)?;
            } else {
                let rows = shown.into_iter().map(|setting| [setting.name, setting.value, setting.from]);
                output::print(output::table(["SETTING", "VALUE", "FROM"], rows));
            }
        }
        Config::Check { file } => {
            let settings = Settings::read(&context.home, file.as_deref())?;
            settings.checked()?;
            let (file, count) = (settings.file().map(PathBuf::from), settings.len());
            if context.json {
                output::json(&serde_json::json!({ "file": file, "settings": count }))?;
            } else {
                match file {
                    Some(file) => output::line(format_args!(
                        "{} is in order; {count} settings are given",
                        file.display()
                    )),
                    None => output::line(format_args!(
                        "there is no file, and the environment is in order; {count} settings are given"
                    )),
                }
            }
        }
        Config::Schema => output::json(&settings::schema())?,
    }
    Ok(ExitCode::SUCCESS)
}

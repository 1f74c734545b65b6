//! The settings of a daemon, out of a file, the environment and the options of `duramen serve`, by one rule for all of them.
//!
//! What was given is put together into the options that would say the same, and read as those are: there is one reader, and
//! what an option may be, a setting may be.

use crate::{failure::Failure, serve::Serve};
use clap::{
    error::{ContextKind, ContextValue},
    parser::ValueSource,
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches,
};
use duramen_base::suggest::closest;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

/// The file of a home.
const FILE: &str = "duramen.toml";
/// The variable that names another one.
const VARIABLE: &str = "DURAMEN_CONFIG";
/// The largest file that is read.
const FILE_MAX: u64 = 1 << 20;
/// Options that are for one start, and no settings.
const NO_SETTINGS: [&str; 3] = ["config", "handover", "until-stdin-ends"];

/// A value, as texts of an option; none for a switch that is on.
type Values = Vec<String>;

/// From where a setting is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum From {
    File,
    Variable(String),
    Option,
}

/// What was given.
#[derive(Debug)]
pub(crate) struct Settings {
    file: Option<PathBuf>,
    given: BTreeMap<String, (Values, From)>,
}

/// A setting, for people and programs.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) from: String,
}

impl Settings {
    /// Those of the file, which is that of the home unless another one is named, and of the environment.
    pub(crate) fn read(home: &Path, file: Option<&Path>) -> Result<Settings, Failure> {
        let named = file
            .map(Path::to_owned)
            .or_else(|| env::var_os(VARIABLE).filter(|it| !it.is_empty()).map(PathBuf::from));
        let path = named.clone().unwrap_or_else(|| home.join(FILE));
        let mut given = BTreeMap::new();
        let text = match read(&path) {
            // Nobody said that there is one.
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => None,
            text => Some(text.map_err(Failure::io("read", &path))?),
        };
        let file = text.is_some().then(|| path.clone());
        let table = text.unwrap_or_default().parse::<toml::Table>();
        let table = table.map_err(|error| {
            Failure::Usage(format!("{}: {}", path.display(), error.to_string().trim_end()))
        })?;
        let known = known();
        for (name, value) in table {
            let at = |what: String| Failure::Usage(format!("{}: {what}", path.display()));
            let Some(setting) = known.iter().find(|setting| setting.get_long() == Some(&name)) else {
                let names = known.iter().filter_map(|setting| setting.get_long());
                let meant =
                    closest(&name, names).map_or_else(String::new, |name| format!("; did you mean {name}?"));
                return Err(at(format!(
                    "there is no setting {name}{meant} `duramen config schema` has all of them"
                )));
            };
            if let Some(values) = values(setting, value).map_err(|what| at(format!("{name} {what}")))? {
                given.insert(name, (values, From::File));
            }
        }
        for setting in &known {
            let name = setting.get_long().unwrap_or_default();
            let variable = format!("DURAMEN_{}", name.replace('-', "_").to_uppercase());
            let Some(value) = env::var_os(&variable).filter(|value| !value.is_empty()) else { continue };
            let value = value.into_string().map_err(|_| Failure::Usage(format!("{variable} is no text")))?;
            let values = if is_switch(setting) {
                match value.as_str() {
                    "true" | "1" => Vec::new(),
                    "false" | "0" => {
                        given.remove(name);
                        continue;
                    }
                    other => {
                        return Err(Failure::Usage(format!("{variable} is {other:?}; write true or false")))
                    }
                }
            } else {
                vec![value]
            };
            given.insert(name.to_owned(), (values, From::Variable(variable)));
        }
        Ok(Settings { file, given })
    }

    /// The same, and what options of `duramen serve` say, which comes first.
    pub(crate) fn with_options(mut self, matches: &ArgMatches) -> Settings {
        for setting in known() {
            let (id, name) = (setting.get_id().as_str(), setting.get_long().unwrap_or_default());
            if matches.value_source(id) != Some(ValueSource::CommandLine) {
                continue;
            }
            let values = if is_switch(&setting) {
                Vec::new()
            } else {
                let raw = matches.get_raw(id).into_iter().flatten();
                raw.map(|value| value.to_string_lossy().into_owned()).collect()
            };
            self.given.insert(name.to_owned(), (values, From::Option));
        }
        self
    }

    /// What they say together.
    pub(crate) fn checked(&self) -> Result<Serve, Failure> {
        let mut arguments = vec![OsString::from("duramen serve")];
        for (name, (values, _)) in &self.given {
            if values.is_empty() {
                arguments.push(format!("--{name}").into());
            }
            arguments.extend(values.iter().map(|value| OsString::from(format!("--{name}={value}"))));
        }
        let read = command().try_get_matches_from(arguments);
        read.and_then(|matches| Serve::from_arg_matches(&matches)).map_err(|error| self.told(&error))
    }

    /// What is wrong, and where it stands.
    fn told(&self, error: &clap::Error) -> Failure {
        let wrong = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(text)) => text.as_str(),
            _ => "",
        };
        let name = wrong.trim_start_matches("--").split([' ', '=']).next().unwrap_or_default();
        let place = self.given.get(name).map(|(_, from)| self.place(from));
        let text = error.to_string();
        let text =
            text.split("\n\nUsage").next().unwrap_or_default().trim_start_matches("error: ").trim_end();
        let text = text.split("\n\nFor more").next().unwrap_or_default();
        Failure::Usage(match place {
            Some(place) => format!("{place}: {text}"),
            None => format!("{text}; `duramen config show` says what is given where"),
        })
    }

    fn place(&self, from: &From) -> String {
        match from {
            From::File => self.file.as_deref().unwrap_or(Path::new(FILE)).display().to_string(),
            From::Variable(name) => name.clone(),
            From::Option => "option".to_owned(),
        }
    }

    /// The file that was read.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// How many are given.
    pub(crate) fn len(&self) -> usize {
        self.given.len()
    }

    /// All of them, with those that are not given.
    pub(crate) fn shown(&self) -> Vec<Shown> {
        let each = |setting: Arg| {
            let name = setting.get_long().unwrap_or_default().to_owned();
            match self.given.get(&name) {
                Some((values, from)) => {
                    let value = if values.is_empty() { "true".to_owned() } else { values.join(",") };
                    Shown { name, value, from: self.place(from) }
                }
                None => Shown { value: usual(&setting), name, from: "default".to_owned() },
            }
        };
        known().into_iter().map(each).collect()
    }
}

fn read(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > FILE_MAX {
        return Err(io::Error::other(format!("it has more than {FILE_MAX} bytes")));
    }
    fs::read_to_string(path)
}

fn command() -> Command {
    Serve::augment_args(Command::new("duramen serve"))
}

/// The options that are settings.
fn known() -> Vec<Arg> {
    let mut command = command();
    command.build();
    let is_setting = |arg: &&Arg| {
        arg.get_long()
            .is_some_and(|name| !NO_SETTINGS.contains(&name) && !["help", "version"].contains(&name))
    };
    command.get_arguments().filter(is_setting).cloned().collect()
}

fn is_switch(setting: &Arg) -> bool {
    matches!(setting.get_action(), ArgAction::SetTrue)
}

fn is_list(setting: &Arg) -> bool {
    setting.get_value_delimiter().is_some()
}

/// What it is when nobody says anything: as its help says it.
fn usual(setting: &Arg) -> String {
    let help = setting.get_help().map(ToString::to_string).unwrap_or_default();
    let said = help.split_once("[default: ").and_then(|(_, rest)| rest.strip_suffix(']'));
    let value = setting.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
    match (value, said) {
        _ if is_switch(setting) => "false".to_owned(),
        (Some(value), _) => value,
        (None, Some(said)) => said.to_owned(),
        (None, None) => "none".to_owned(),
    }
}

/// A value of a file as those of an option; nothing for a switch that is off.
fn values(setting: &Arg, value: toml::Value) -> Result<Option<Values>, String> {
    let text = |value: toml::Value| match value {
        toml::Value::String(text) => Ok(text),
        toml::Value::Integer(number) => Ok(number.to_string()),
        _ => Err("has to be a text".to_owned()),
    };
    match value {
        toml::Value::Boolean(on) if is_switch(setting) => Ok(on.then(Vec::new)),
        _ if is_switch(setting) => Err("has to be true or false".to_owned()),
        toml::Value::Array(items) if is_list(setting) => {
            let items = items.into_iter().map(text).collect::<Result<Values, _>>()?;
            Ok(Some(items).filter(|items| !items.is_empty()))
        }
        value => text(value).map(|text| Some(vec![text])),
    }
}

/// What may stand in a file.
pub(crate) fn schema() -> serde_json::Value {
    let properties = known().into_iter().map(|setting| {
        let help = setting.get_help().map(ToString::to_string).unwrap_or_default();
        let mut schema = if is_switch(&setting) {
            serde_json::json!({ "type": "boolean" })
        } else if is_list(&setting) {
            serde_json::json!({ "type": ["string", "array"], "items": { "type": "string" } })
        } else {
            serde_json::json!({ "type": ["string", "integer"] })
        };
        let choices = setting.get_possible_values();
        if !choices.is_empty() && !is_switch(&setting) {
            schema =
                serde_json::json!({ "enum": choices.iter().map(|it| it.get_name()).collect::<Vec<_>>() });
        }
        schema["description"] = help.into();
        (setting.get_long().unwrap_or_default().to_owned(), schema)
    });
    serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "duramen.toml",
        "type": "object",
        "additionalProperties": false,
        "properties": properties.collect::<serde_json::Map<_, _>>(),
    })
}

//! What a proposer says: the last line of its output that is a JSON object.

use super::Claim;
use crate::series::note::TEXT_LIMIT;
use serde_json::{Map, Value};

/// An answer, as far as it can be read.
pub(super) struct Answer {
    fields: Map<String, Value>,
    pub(super) stop: bool,
}

impl Answer {
    pub(super) fn parse(output: &str) -> Result<Answer, String> {
        let object = output
            .lines()
            .rev()
            .find_map(|line| serde_json::from_str::<Map<String, Value>>(line.trim()).ok());
        let fields = object.ok_or("the proposer printed no line with a JSON object")?;
        let stop = match fields.get("stop") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(stop)) => *stop,
            Some(_) => return Err("the proposer's `stop` is neither true nor false".to_owned()),
        };
        Ok(Answer { fields, stop })
    }

    /// Why there is nothing more to propose.
    pub(super) fn why_stop(&self) -> String {
        match self.text("hypothesis").unwrap_or_default() {
            Some(why) => format!("the proposer has nothing more: {why}"),
            None => "the proposer has nothing more".to_owned(),
        }
    }

    /// What is said of the change, or as much of it as can be read, and what is wrong with it.
    pub(super) fn claim(&self) -> Result<Claim, (Claim, String)> {
        let mut claim = Claim::default();
        match self.fill(&mut claim) {
            Ok(()) => Ok(claim),
            Err(why) => Err((claim, why)),
        }
    }

    fn fill(&self, claim: &mut Claim) -> Result<(), String> {
        claim.hypothesis = self.text("hypothesis")?.ok_or("the proposer said no `hypothesis`")?;
        claim.mechanism = self.text("mechanism")?.ok_or("the proposer said no `mechanism`")?;
        claim.axis = self.text("axis")?;
        claim.idea = match self.fields.get("idea") {
            None | Some(Value::Null) => None,
            Some(idea) => {
                let number = idea.as_u64().and_then(|number| u32::try_from(number).ok());
                Some(number.ok_or("the proposer's `idea` is not a number of an idea")?)
            }
        };
        Ok(())
    }

    /// A text that says something.
    fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.len() > TEXT_LIMIT => {
                Err(format!("the proposer's `{name}` is longer than {TEXT_LIMIT} bytes"))
            }
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
            Some(_) => Err(format!("the proposer's `{name}` is not text")),
        }
    }
}

//! What a run computed, as a digest: both sides must compute the same (X23).

use super::{error::fail, place::failure, walls::Doing, Series, SeriesError};
use crate::{
    run::Ran,
    spec::{Equal, Spec},
};
use blake3::Hasher;
use std::{fs::File, path::Path};

/// Begins a line of figures.
const FIGURES: &str = "METRIC";

impl Series<'_> {
    /// The digest of what a run that has just ended computed, if the spec names what that is, or why there is none.
    pub(super) fn computed(
        &self,
        spec: &Spec,
        dir: &Path,
        scale: &str,
        ran: &Ran,
    ) -> Result<Option<Result<String, String>>, SeriesError> {
        let Some(equal) = spec.measure.equal.as_ref().filter(|_| ran.ended.success()) else {
            return Ok(None);
        };
        let mut hasher = Hasher::new();
        match equal {
            Equal::Stdout(_) => {
                if ran.stdout_omitted > 0 {
                    return Ok(Some(Err("it printed too much to be compared (`measure.equal`)".to_owned())));
                }
                let mut is_empty = true;
                let is_output = |line: &&str| spec.measure.file.is_some() || !is_figure(line);
                for line in ran.stdout.lines().filter(is_output) {
                    is_empty &= line.trim().is_empty();
                    hasher.update(line.as_bytes()).update(b"\n");
                }
                if is_empty {
                    let why = "it printed nothing but figures, so there is nothing to compare (`measure.equal`): print a \
                               digest of what was computed";
                    return Ok(Some(Err(why.to_owned())));
                }
            }
            Equal::Files(files) => {
                for name in files {
                    let path = dir.join(name);
                    // A pipe would never end.
                    if !path.metadata().is_ok_and(|meta| meta.is_file()) {
                        return Ok(Some(Err(format!(
                            "it wrote no {name}, which is to be compared (`measure.equal`)"
                        ))));
                    }
                    let read =
                        File::open(&path).and_then(|file| hasher.update_reader(file).map(|it| it.count()));
                    let length = read.map_err(fail("read", &path))?;
                    hasher.update(&length.to_le_bytes());
                }
            }
            Equal::Command { command } => {
                let caged = self.caged(dir, spec, Doing::Run);
                let env = vec![(super::measure::SCALE_VARIABLE.to_owned(), scale.to_owned())];
                let command = command.replace("{scale}", scale);
                let ran = self.command(&command, dir, spec.measure.timeout_s, None, env, caged)?;
                if let Some(why) = failure(&ran, spec.measure.timeout_s) {
                    return Ok(Some(Err(format!("the command of `measure.equal` fails: {why}"))));
                }
                if ran.stdout.trim().is_empty() || ran.stdout_omitted > 0 {
                    return Ok(Some(Err("the command of `measure.equal` must print a digest".to_owned())));
                }
                hasher.update(ran.stdout.trim().as_bytes());
            }
        }
        Ok(Some(Ok(hasher.finalize().to_hex()[..DIGITS].to_owned())))
    }
}

/// The log holds so many hex digits of a digest.
const DIGITS: usize = 32;

fn is_figure(line: &str) -> bool {
    line.trim_start().strip_prefix(FIGURES).is_some_and(|rest| rest.starts_with([' ', '\t']))
}

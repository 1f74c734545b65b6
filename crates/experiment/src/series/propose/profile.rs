//! The profile of a base: taken once, in a clean folder, for whoever proposes.

use super::super::{
    measure::SCALE_VARIABLE, place::failure, short, walls::Doing, Current, Series, SeriesError,
};
use crate::{event::Event, plain};

/// The worktree for it.
const PROFILE: &str = "profile";
/// What is kept of it, in bytes, from its end.
const TEXT_MAX: usize = 24 << 10;

impl Series<'_> {
    /// Takes the profile of the head, unless the spec asks for none or the log has it.
    pub(super) fn profile(&mut self, current: &Current) -> Result<(), SeriesError> {
        let Some(profile) = current.spec.profile.clone() else { return Ok(()) };
        let (head, spec) = (&current.head, &current.spec);
        if self.state.current().is_some_and(|segment| segment.profiles.contains_key(head)) {
            return Ok(());
        }
        self.say(&format!("taking the profile of {}", short(head)));
        let (text, why) = match self.place(PROFILE, head, spec, Some(&format!("profile-{head}")))? {
            Err(why) => (String::new(), Some(format!("it does not build: {why}"))),
            Ok(path) => {
                let scale = spec.deciding().next().map(|scale| scale.value).unwrap_or_default();
                let command = profile.command.replace("{scale}", &scale);
                let env = vec![(SCALE_VARIABLE.to_owned(), scale)];
                let caged = self.caged(&path, spec, Doing::Run);
                let ran = self.command(&command, &path, profile.timeout_s, None, env, caged)?;
                let why = failure(&ran, profile.timeout_s);
                (plain::end(&plain::text(&ran.stdout), TEXT_MAX).to_owned(), why)
            }
        };
        self.clear(&[PROFILE])?;
        if let Some(why) = &why {
            self.say(&format!("there is no profile of {}: {why}", short(head)));
        }
        let failure = why.map(|why| plain::text(&why));
        self.append(Event::Profiled { commit: head.clone(), text, failure })
    }
}

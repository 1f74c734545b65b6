//! What can be done with one instance from outside.

use tokio_postgres::{types::Type, Client, Error};

/// The reason of a cancellation that has none.
const NO_REASON: &str = "Cancelled by user";

/// Something to do with an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// End it, its running statement and its children.
    Cancel {
        /// Why: the instance keeps it. `Cancelled by user` unless it is said.
        reason: Option<String>,
    },
    /// Send it a signal, which is kept until it waits for it.
    Signal {
        /// The signal's name.
        name: String,
        /// What goes with it: JSON, or text. `{}` unless it is said.
        data: Option<String>,
    },
    /// Let it begin no further step. What runs already runs to its end.
    Pause,
    /// Go on with one that is paused; or with one that failed or was cancelled, from what did not complete.
    Resume {
        /// Run this text in the place of the step that failed.
        step: Option<String>,
    },
    /// Start another one with what one that has ended has completed.
    Fork {
        /// Do this step again, and what follows it: a node id, or the name of a result.
        from: Option<String>,
        /// Run this text in the place of that step, or of the one that failed.
        step: Option<String>,
        /// The label of the new one; that of the first unless it is said.
        label: Option<String>,
    },
    /// Delete one that has ended, with its history.
    Delete,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controlled {
    /// In words.
    pub message: String,
    /// How the instance stood before a cancellation: one that had ended stays as it is.
    pub status_before: Option<String>,
    /// The instance that a fork has made.
    pub fork: Option<String>,
}

impl Controlled {
    fn said(message: String) -> Controlled {
        Controlled { message, status_before: None, fork: None }
    }
}

impl Action {
    /// Its word.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(duramen_functions::inspect::Action::Pause.word(), "pause");
    /// ```
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Action::Cancel { .. } => "cancel",
            Action::Signal { .. } => "signal",
            Action::Pause => "pause",
            Action::Resume { .. } => "resume",
            Action::Fork { .. } => "fork",
            Action::Delete => "delete",
        }
    }

    /// Does it. `None`: there is no such instance, or it is another role's; of some actions the server says so itself.
    ///
    /// # Errors
    /// What the server says against it.
    pub async fn run(&self, client: &Client, id: &str) -> Result<Option<Controlled>, Error> {
        let id_is = (&id as _, Type::TEXT);
        let said = async |sql| -> Result<_, Error> {
            Ok(Some(Controlled::said(
                client.query_typed_one(sql, &[(&id as _, Type::TEXT)]).await?.try_get(0)?,
            )))
        };
        match self {
            Action::Pause => said("SELECT df.pause($1)").await,
            Action::Delete => said("SELECT df.delete($1)").await,
            Action::Resume { step } => {
                let parameters = [id_is, (step as _, Type::TEXT)];
                let row = client.query_typed_one("SELECT df.resume($1, $2)", &parameters).await?;
                Ok(Some(Controlled::said(row.try_get(0)?)))
            }
            Action::Signal { name, data } => {
                let data = data.as_deref().unwrap_or("{}");
                let parameters = [id_is, (name as _, Type::TEXT), (&data as _, Type::TEXT)];
                client.query_typed_one("SELECT df.signal($1, $2, $3)", &parameters).await?;
                Ok(Some(Controlled::said(format!("signal {name} was sent to {id}"))))
            }
            Action::Fork { from, step, label } => {
                let parameters =
                    [id_is, (from as _, Type::TEXT), (step as _, Type::TEXT), (label as _, Type::TEXT)];
                let row = client.query_typed_one("SELECT df.fork($1, $2, $3, $4)", &parameters).await?;
                let fork: String = row.try_get(0)?;
                let message = format!("Instance {id} forked: {fork}");
                Ok(Some(Controlled { fork: Some(fork), ..Controlled::said(message) }))
            }
            Action::Cancel { reason } => {
                let row = client.query_typed_one("SELECT df.status($1)", &[(&id as _, Type::TEXT)]).await?;
                let Some(before) = row.try_get::<_, Option<String>>(0)? else { return Ok(None) };
                let reason = reason.as_deref().unwrap_or(NO_REASON);
                let parameters = [id_is, (&reason as _, Type::TEXT)];
                let row = client.query_typed_one("SELECT df.cancel($1, $2)", &parameters).await?;
                let message = match is_over(&before) {
                    true => format!("instance {id} is {before} already: there is nothing to cancel"),
                    false => row.try_get(0)?,
                };
                Ok(Some(Controlled { status_before: Some(before), ..Controlled::said(message) }))
            }
        }
    }
}

/// Whether nothing more happens to an instance with this status.
fn is_over(status: &str) -> bool {
    !matches!(status, "pending" | "running")
}

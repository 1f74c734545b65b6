//! What the daemon shows beside branches: `duramen attachment ...`.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::{Args, Subcommand};
use duramen_api::attachments::{AddAttachment, Attachment, AttachmentKind};
use std::{
    path::{self, PathBuf},
    process::ExitCode,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen attachment add shop --functions postgresql://ops@db/shop
  duramen attachment add notes --store ~/notes
  duramen console                                     all of it in a browser
  duramen attachment remove notes";
const ADD_EXAMPLES: &str = "\
Examples:
  duramen attachment add shop --functions postgresql://ops@db/shop
  duramen attachment add notes --store ~/notes        only read, also while another process writes
  duramen attachment add access --pack access.c1z
  duramen attachment add measured --lab out           evidence and logs of experiments";
const LIST_EXAMPLES: &str = "\
Examples:
  duramen attachment list
  duramen attachment list --json | jq -r '.[].name'";
const REMOVE_EXAMPLES: &str = "\
Examples:
  duramen attachment remove notes         what it was stays as it is";

#[derive(Debug, Subcommand)]
pub(crate) enum AttachmentCommand {
    /// Attach a database, store, pack or lab directory to the daemon
    #[command(after_help = ADD_EXAMPLES)]
    Add(Add),
    /// List what is attached
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Show something no more
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove(Remove),
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// The name that it is to have
    name: String,
    #[command(flatten)]
    what: What,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct What {
    /// A database with durable functions
    #[arg(long, value_name = "URL")]
    functions: Option<String>,
    /// A store
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// A pack, or a .c1z file
    #[arg(long, value_name = "FILE")]
    pack: Option<PathBuf>,
    /// A directory with evidence documents and logs of experiments
    #[arg(long, value_name = "DIR")]
    lab: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Its name
    name: String,
}

impl What {
    fn place(self) -> Result<(AttachmentKind, String), Failure> {
        if let Some(url) = self.functions {
            return Ok((AttachmentKind::Functions, url));
        }
        let paths = [
            (AttachmentKind::Store, self.store),
            (AttachmentKind::Pack, self.pack),
            (AttachmentKind::Lab, self.lab),
        ];
        let found = paths.into_iter().find_map(|(kind, path)| Some((kind, path?)));
        let (kind, path) = found.expect("clap wants one of them");
        // The daemon is in another directory.
        let path = path::absolute(&path).map_err(Failure::io("find", &path))?;
        let text = path.into_os_string().into_string();
        let text =
            text.map_err(|path| Failure::Other(format!("{path:?} is not UTF-8; give it another name")))?;
        Ok((kind, text))
    }
}

pub(crate) async fn run(context: &Context, command: AttachmentCommand) -> Outcome {
    match command {
        AttachmentCommand::Add(Add { name, what }) => {
            let (kind, at) = what.place()?;
            let added = context.connect().await?.add_attachment(&AddAttachment { name, kind, at }).await?;
            match context.json {
                true => output::json(&added)?,
                false => output::line(format_args!(
                    "attached the {} {} as {}",
                    added.kind,
                    output::printable(&added.at),
                    added.name
                )),
            }
        }
        AttachmentCommand::List => list(context, &context.connect().await?.attachments().await?)?,
        AttachmentCommand::Remove(Remove { name }) => {
            let removed = context.connect().await?.remove_attachment(&name).await?;
            match context.json {
                true => output::json(&removed)?,
                false => output::line(format_args!("{name} is attached no more; it stays as it is")),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(context: &Context, attachments: &[Attachment]) -> Result<(), Failure> {
    if context.json {
        output::json(attachments)?;
        return Ok(());
    }
    if attachments.is_empty() {
        output::line("nothing is attached; attach something with `duramen attachment add NAME`");
        return Ok(());
    }
    let rows = attachments.iter().map(|attachment| {
        [
            attachment.name.clone(),
            attachment.kind.to_string(),
            output::printable(&attachment.at),
            output::time(attachment.attached_at),
        ]
    });
    output::print(output::table(["NAME", "KIND", "AT", "SINCE"], rows));
    Ok(())
}

//! `duramen branch export`.

use super::Name;
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
    progress::Progress,
};
use clap::Args;
use duramen_api::model::{ExportFormat, EXPORT_JOBS_MAX};
use duramen_client::export::{self, Export as Wanted};
use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::Duration,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen branch export try --out try.sql --format plain        statements for psql
  duramen branch export try --out try.dump                      an archive for pg_restore
  duramen branch export try --out try.d --format directory --jobs 4
  duramen branch export try --out data --format basebackup      a data directory; for the machine alone";

/// How long the next bytes may take: a directory is dumped as a whole first.
const PART_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    branch: Name,
    /// The file or directory to make
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// plain, custom, directory or basebackup
    #[arg(long, value_name = "FORMAT", default_value = "custom")]
    format: ExportFormat,
    /// How many processes write a directory
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=i64::from(EXPORT_JOBS_MAX)))]
    jobs: u32,
    /// Stop the branch's server for it: its sessions end, and unlogged tables keep their rows
    #[arg(long)]
    quiesce: bool,
    /// Replace a file that is there; a directory never is
    #[arg(long)]
    force: bool,
}

pub(super) async fn run(context: &Context, wanted: Export) -> Outcome {
    let Export { branch: Name { name: branch }, out, format, jobs, quiesce, force } = wanted;
    let mut connection = context.connect().await?;
    connection.set_deadline(PART_LIMIT);
    let written = Arc::new(AtomicU64::new(0));
    let wanted = Wanted { branch, format, jobs, quiesce, out, force };
    let bar = Progress::new(&format!("exporting {}", wanted.branch));
    let showing = async {
        loop {
            tokio::time::sleep(SHOW_EVERY).await;
            let bytes = output::bytes(written.load(Ordering::Relaxed));
            bar.step(&format!("exporting {}: {bytes}", wanted.branch), None);
        }
    };
    let done = tokio::select! {
        done = export::export(&mut connection, &wanted, &written) => done,
        () = showing => unreachable!("it shows for ever"),
        // What was written is removed.
        _ = ended() => return Err(Failure::Other("given up; nothing was left".to_owned())),
    };
    drop(bar);
    done.map_err(|error| Failure::Other(error.to_string()))?;
    let (path, bytes) = (wanted.out.display().to_string(), written.load(Ordering::Relaxed));
    if context.json {
        output::json(&serde_json::json!({ "out": path, "format": format, "bytes": bytes }))?;
    } else {
        output::line(format_args!("exported {} to {path}: {}", wanted.branch, output::bytes(bytes)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until somebody wants this program to end.
#[cfg(unix)]
async fn ended() {
    use tokio::signal::unix::{signal, SignalKind};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        },
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

#[cfg(not(unix))]
async fn ended() {
    let _ = tokio::signal::ctrl_c().await;
}

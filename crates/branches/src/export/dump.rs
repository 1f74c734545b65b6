//! Dumps, by the program of the server's own version. It runs as the system user of the copy's server and logs in as the
//! holder of the branch, so that it reads what the holder may, and nothing that the holder wrote runs with more (X2).

use crate::{
    branch::Branch,
    error::{EngineError, ExportError},
    model::ExportFormat,
};
use bytes::Bytes;
use std::{
    io::{self, Read},
    path::PathBuf,
    process::{Child, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::mpsc;

const PROGRAM: &str = "pg_dump";
/// Where a dump in a directory is written: in the copy's own volume, with which it goes, and within its quota.
const DIRECTORY: &str = "duramen_export";
/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;
/// How much of a program's complaints is kept.
const COMPLAINTS_MAX: u64 = 8 << 10;
/// How often it is looked whether a program that sends nothing has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A program that is ended with this.
struct Running(Arc<Mutex<Child>>);

impl Running {
    fn begin(branch: &Branch, arguments: &[String], output: Stdio) -> Result<Running, EngineError> {
        let mut command = branch.client(PROGRAM, arguments);
        let spawned = command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped()).spawn();
        let child = spawned.map_err(|error| ExportError::NoProgram {
            program: command.get_program().to_string_lossy().into_owned(),
            major: branch.generation.installation.version.major,
            error,
        })?;
        Ok(Running(Arc::new(Mutex::new(child))))
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it complains of, once it has ended.
    fn complaints(&self) -> tokio::task::JoinHandle<String> {
        let stderr = self.child().stderr.take();
        tokio::task::spawn_blocking(move || {
            let mut text = Vec::new();
            if let Some(mut stderr) = stderr {
                // What is said beyond that is read, and not kept.
                let _ = stderr.by_ref().take(COMPLAINTS_MAX).read_to_end(&mut text);
                let _ = io::copy(&mut stderr, &mut io::sink());
            }
            String::from_utf8_lossy(&text).trim().to_owned()
        })
    }

    async fn ended(&self) -> Result<ExitStatus, EngineError> {
        loop {
            let status = self.child().try_wait().map_err(ExportError::Unreadable)?;
            if let Some(status) = status {
                return Ok(status);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut child = self.child();
        // It may have ended by itself; what counts is that it is gone.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// What all dumps are made with. Who owns what, and who may do what, is decided where it is restored.
fn arguments(format: ExportFormat) -> Vec<String> {
    let format = format!("--format={format}");
    [&format, "--no-owner", "--no-privileges", "--no-password"].map(str::to_owned).to_vec()
}

/// Sends a dump that is one file.
pub(super) async fn stream(
    branch: &Branch,
    format: ExportFormat,
    told: &mpsc::Sender<Bytes>,
) -> Result<(), EngineError> {
    let running = Running::begin(branch, &arguments(format), Stdio::piped())?;
    let complaints = running.complaints();
    let stdout = running.child().stdout.take();
    let pump = tokio::task::spawn_blocking({
        let told = told.clone();
        move || {
            let Some(mut stdout) = stdout else { return Ok(()) };
            let mut chunk = vec![0; CHUNK];
            loop {
                match stdout.read(&mut chunk) {
                    Ok(0) => return Ok(()),
                    Ok(length) => {
                        let part = Bytes::copy_from_slice(&chunk[..length]);
                        told.blocking_send(part).map_err(|_| ExportError::CallerLeft)?;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(ExportError::Unreadable(error)),
                }
            }
        }
    });
    pump.await.map_err(ExportError::Crashed)??;
    finished(&running, complaints).await
}

/// Writes a dump into a directory of the copy's volume. Gives its path.
pub(super) async fn directory(
    branch: &Branch,
    jobs: u32,
    told: &mpsc::Sender<Bytes>,
) -> Result<PathBuf, EngineError> {
    let dir = branch.data_dir().join(DIRECTORY);
    let mut arguments = arguments(ExportFormat::Directory);
    arguments.push(format!("--jobs={jobs}"));
    arguments.push(format!("--file={}", dir.display()));
    let running = Running::begin(branch, &arguments, Stdio::null())?;
    let complaints = running.complaints();
    tokio::select! {
        done = finished(&running, complaints) => done?,
        () = told.closed() => return Err(ExportError::CallerLeft.into()),
    }
    Ok(dir)
}

async fn finished(running: &Running, complaints: tokio::task::JoinHandle<String>) -> Result<(), EngineError> {
    let status = running.ended().await?;
    let output = complaints.await.map_err(ExportError::Crashed)?;
    if status.success() {
        return Ok(());
    }
    let output = if output.is_empty() { status.to_string() } else { output };
    Err(ExportError::Failed { program: PROGRAM, output }.into())
}

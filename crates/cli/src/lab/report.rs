//! `duramen lab report`: one page over everything, and the same as Markdown.

use super::history;
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::Args;
use duramen_reports::{
    collect::{collect, Collected},
    compare::better,
    markdown, site, trends, Document,
};
use serde::Serialize;
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab report --out out/site.html
  duramen lab report out --out out/site.html
  duramen lab report out/store.json out/packs.json --out out/site.html --markdown out/summary.md
  duramen lab report out/store.json --markdown -
  duramen lab report out --benchmarks docs/benchmarks.md

Without files it covers the newest run of each suite in the history of this machine. A folder stands for the evidence
documents in it and below it. The page is one file: it fetches nothing and runs nothing.";

#[derive(Debug, Args)]
pub(crate) struct Pages {
    /// Evidence documents, or folders that hold some [default: the newest of each suite in the history]
    #[arg(value_name = "FILE or FOLDER")]
    documents: Vec<PathBuf>,
    /// Write the page
    #[arg(long, value_name = "FILE", required_unless_present_any = ["markdown", "benchmarks"])]
    out: Option<PathBuf>,
    /// Write a summary for a pull request; `-` prints it
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write all figures with their targets as Markdown; `-` prints them. Of a page that is there, other sections are kept
    #[arg(long, value_name = "FILE")]
    benchmarks: Option<PathBuf>,
}

/// What was done.
#[derive(Serialize)]
struct Done<'a> {
    documents: Vec<&'a Path>,
    written: &'a [PathBuf],
    notes: &'a [String],
}

pub(super) fn run(context: &Context, pages: Pages) -> Outcome {
    let Pages { documents, out, markdown, benchmarks } = pages;
    let (found, earlier) = if documents.is_empty() {
        from_history(context)?
    } else {
        (collect(&documents).map_err(|error| Failure::Other(error.to_string()))?, Vec::new())
    };
    let mut written = Vec::new();
    if let Some(file) = out {
        write_page(&found, &earlier, &file)?;
        written.push(file);
    }
    let mut is_printed = false;
    if let Some(file) = markdown {
        let all: Vec<Document> = found.documents.iter().chain(&earlier).cloned().collect();
        let series = trends::series(&all, site::MOST_RUNS, &better);
        let text = markdown::summary(&found.documents, &series);
        is_printed = write_markdown(&file, &text)?;
        if !is_printed {
            written.push(file);
        }
    }
    if let Some(file) = benchmarks {
        // Sections that the documents do not make are kept, so the page has to be read first.
        let earlier = match fs::read_to_string(&file) {
            Ok(page) => page,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Failure::io("read", &file)(error)),
        };
        let page = markdown::benchmarks(&found.documents, &super::SUITES, &earlier);
        let is_shown = write_markdown(&file, &page)?;
        is_printed |= is_shown;
        if !is_shown {
            written.push(file);
        }
    }
    if context.json && !is_printed {
        let documents = found.documents.iter().map(|document| document.file.as_path()).collect();
        output::json(&Done { documents, written: &written, notes: &found.notes })?;
    } else if !is_printed {
        for file in &written {
            output::line(format_args!("written: {}", file.display()));
        }
    }
    if !context.json {
        for note in &found.notes {
            output::warning(note);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes one page over documents.
pub(super) fn write_site(documents: &[PathBuf], file: &Path) -> Result<(), Failure> {
    let found = collect(documents).map_err(|error| Failure::Other(error.to_string()))?;
    write_page(&found, &[], file)
}

fn write_page(found: &Collected, earlier: &[Document], file: &Path) -> Result<(), Failure> {
    super::make_room_for(file)?;
    let page = site::page(&found.documents, earlier, &found.notes, &better, &super::SUITES);
    page.write(file).map_err(|error| Failure::Other(error.to_string()))
}

/// The newest run of each suite, and the ones before.
fn from_history(context: &Context) -> Result<(Collected, Vec<Document>), Failure> {
    let history = history::open(context);
    let machine = history::this_machine()?;
    let all = history::runs(&history, &machine, None, site::MOST_RUNS)?;
    if all.is_empty() {
        return Err(Failure::Other(format!(
            "there are no results of this machine in {}; name evidence documents, or make some with duramen lab run",
            history.folder().display()
        )));
    }
    let mut newest: Vec<Document> = Vec::new();
    let mut earlier = Vec::new();
    for document in all.into_iter().rev() {
        let is_known = newest.iter().any(|known| known.evidence.suite == document.evidence.suite);
        if is_known {
            earlier.push(document);
        } else {
            newest.push(document);
        }
    }
    newest.sort_by_key(|document| document.evidence.started_at);
    Ok((Collected { documents: newest, notes: Vec::new() }, earlier))
}

/// Writes Markdown, or prints it for `-`, which it says.
pub(super) fn write_markdown(file: &Path, text: &str) -> Result<bool, Failure> {
    if file.as_os_str() == "-" {
        output::print(text);
        return Ok(true);
    }
    super::make_room_for(file)?;
    fs::write(file, text).map_err(Failure::io("write", file))?;
    Ok(false)
}

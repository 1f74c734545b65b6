//! `duramen demo`: every part of Duramen on real data, in a home of its own that is gone afterwards.

mod branches;
mod console;
mod home;
mod suite;

use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED, INVALID},
    lab, output,
    volumes::VolumesName,
};
use clap::ValueEnum;
use duramen_base::words::parse_count;
use duramen_measure::evidence::{Evidence, Verdict};
use duramen_reports::suite::find;
use home::DemoHome;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};
use tokio::signal::unix::{signal, SignalKind};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen demo
  duramen demo --part branches --rounds 1 --concurrency 20 --rows 10k
  duramen demo --out /tmp/demo --part store,packs

It writes the evidence (NAME.json) and the report (NAME.html) of each part to --out, and site.html for all of them. With branches it
ends at the console: at a terminal it waits until you have looked around, and if there is a Chromium a picture is left in console.png.
Exit status: 1 when a check failed, 3 when a measurement was invalid";

#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// Where evidence and reports are left
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Which parts are shown [default: all]
    #[arg(long = "part", value_name = "PART,...", value_enum, value_delimiter = ',')]
    parts: Vec<Part>,
    /// How many rounds of branches
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u32,
    /// How many branches at once
    #[arg(long, value_name = "N", default_value_t = 100)]
    concurrency: u32,
    /// How many flights [default: the real 336,776]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    rows: Option<u64>,
    /// How branches' volumes are cloned
    #[arg(long, value_enum, default_value = "auto")]
    volumes: VolumesName,
}

/// A part of Duramen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Branches of PostgreSQL
    Branches,
    /// The embedded store
    Store,
    /// Durable functions
    Functions,
    /// Access graphs in packs
    Packs,
    /// Synchronous replication
    Replication,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Branches => "branches",
            Part::Store => "store",
            Part::Functions => "functions",
            Part::Packs => "packs",
            Part::Replication => "replication",
        }
    }

    /// Where its evidence and its report are left.
    fn documents(self, out: &Path) -> [PathBuf; 2] {
        ["json", "html"].map(|form| out.join(format!("{}.{form}", self.name())))
    }
}

pub(crate) async fn run(context: &Context, demo: Demo) -> Outcome {
    let story = Story { narrate: !context.json };
    std::fs::create_dir_all(&demo.out).map_err(Failure::io("make the directory", &demo.out))?;
    let parts = if demo.parts.is_empty() { Part::value_variants() } else { &demo.parts };
    let home = match parts.contains(&Part::Branches) {
        true => Some(DemoHome::make(&context.home).await?),
        false => None,
    };
    let shown = show(context, &story, &demo, parts, home.as_ref()).await;
    // Whatever ended it, its home is cleared.
    let cleared = match home {
        Some(home) => home.remove().await,
        None => Ok(()),
    };
    let measured = shown?;
    cleared?;
    if parts.contains(&Part::Branches) {
        story.say("\nThe demo's daemon, servers, mounts and files are gone.");
    }
    if context.json {
        let all: Vec<&Evidence> = measured.iter().map(|(_, evidence)| evidence).collect();
        output::json(&all)?;
    }
    let is = |verdict| measured.iter().any(|(_, evidence)| evidence.verdict == verdict);
    Ok(match () {
        () if is(Verdict::Fail) => ExitCode::from(FAILED),
        () if is(Verdict::Invalid) => ExitCode::from(INVALID),
        () => ExitCode::SUCCESS,
    })
}

/// Shows the parts, and then the console, if branches are among them.
async fn show(
    context: &Context,
    story: &Story,
    demo: &Demo,
    parts: &[Part],
    home: Option<&DemoHome>,
) -> Result<Vec<(Part, Evidence)>, Failure> {
    let mut measured = Vec::new();
    for part in parts {
        let documents = part.documents(&demo.out);
        let evidence = match (suite::script(*part), home) {
            (Some(script), _) => suite::show(context, story, *part, script, documents).await?,
            (None, None) => continue,
            (None, Some(home)) => {
                let evidence = tokio::select! {
                    result = branches::show(story, &home.dir, demo, documents) => result?,
                    () = interruption() => return Err(interrupted()),
                };
                lab::file(&context.home, &evidence);
                evidence
            }
        };
        measured.push((*part, evidence));
    }
    let site = demo.out.join("site.html");
    let documents: Vec<PathBuf> =
        measured.iter().map(|(part, _)| part.documents(&demo.out)[0].clone()).collect();
    lab::write_site(&documents, &site)?;
    story.heading("What was shown");
    story.say(&closing(&measured, &demo.out));
    story.say(&format!("one page over all of it: {}", site.display()));
    if let Some(home) = home {
        tokio::select! {
            result = console::show(story, &home.dir, demo) => result?,
            () = interruption() => {}
        }
    }
    Ok(measured)
}

fn interrupted() -> Failure {
    Failure::Other("the demo was interrupted; run `duramen demo` to see it again".to_owned())
}

/// Waits for a signal that ends the demo.
async fn interruption() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// One line a part: the figure that matters, what it stands beside, and where the report is.
fn closing(measured: &[(Part, Evidence)], out: &Path) -> String {
    let rows = measured.iter().map(|(part, evidence)| {
        let (figure, beside) = find(&lab::SUITES, &evidence.suite)
            .and_then(|suite| suite.headline(evidence))
            .map_or_else(|| ("see the report".to_owned(), String::new()), |line| (line.figure, line.beside));
        let verdict = match evidence.verdict {
            Verdict::Pass => "ok",
            Verdict::Fail => "FAILED",
            Verdict::Invalid => "invalid",
        };
        let page = part.documents(out)[1].display().to_string();
        [part.name().to_owned(), verdict.to_owned(), figure, beside, page]
    });
    output::table(["part", "checks", "measured here", "beside", "report"], rows)
}

/// What the demo tells; nothing when only the evidence is wanted.
struct Story {
    narrate: bool,
}

impl Story {
    fn heading(&self, heading: &str) {
        if self.narrate {
            output::line(format_args!("\n== {heading}"));
        }
    }

    fn say(&self, text: &str) {
        if self.narrate {
            output::line(text.trim_end());
        }
    }
}

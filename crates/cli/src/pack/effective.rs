//! `duramen pack who`, `what` and `why`: who effectively has what, and how that comes about.

use super::source::{self, Source};
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::Args;
use duramen_access::{
    expand::{self, Access, Effective, EffectiveGrant, Origin, Path, Start},
    file::GraphFile,
    graph::ResourceId,
};
use duramen_reports::access::{AccessChange, AccessReport};
use serde_json::{json, Value};
use std::{ops::ControlFlow, path::Path as FilePath, process::ExitCode};

#[derive(Debug, Args)]
pub(crate) struct Who {
    #[command(flatten)]
    source: Source,
    /// The id of the entitlement
    entitlement: String,
    /// Only principals of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct What {
    #[command(flatten)]
    source: Source,
    /// The principal, such as user:ada
    principal: String,
}

#[derive(Debug, Args)]
pub(crate) struct Why {
    #[command(flatten)]
    source: Source,
    /// The principal, such as user:ada
    principal: String,
    /// The id of the entitlement
    entitlement: String,
    /// Print at most this many ways
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: usize,
}

/// A grant as it is printed.
struct Held {
    entitlement: String,
    resource: String,
    principal: String,
    grant: String,
    is_direct: bool,
    is_derived: bool,
    /// The entitlements that it follows from, but for itself.
    through: Vec<String>,
}

impl Held {
    fn new(grant: &EffectiveGrant<'_>) -> Held {
        let entitlement = grant.entitlement;
        let others = grant.sources.iter().filter(|source| source.entitlement != entitlement.id);
        Held {
            entitlement: entitlement.id.to_owned(),
            resource: format!("{}:{}", entitlement.resource_type, entitlement.resource),
            principal: format!("{}:{}", grant.principal.resource_type, grant.principal.resource),
            grant: grant.id.to_owned(),
            is_direct: grant.is_direct,
            is_derived: grant.origin == Origin::Derived,
            through: others.map(|source| source.entitlement.to_owned()).collect(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "entitlement": self.entitlement,
            "resource": self.resource,
            "principal": self.principal,
            "grant": self.grant,
            "direct": self.is_direct,
            "derived": self.is_derived,
            "through": self.through,
        })
    }

    fn how(&self) -> String {
        match (self.is_direct, self.through.is_empty()) {
            (true, true) => "directly".to_owned(),
            (true, false) => format!("directly, and through {}", self.through.join(", ")),
            (false, _) => format!("through {}", self.through.join(", ")),
        }
    }
}

fn known_entitlement(effective: &Effective, id: &str, source: &Source) -> Result<(), Failure> {
    match effective.has_entitlement(id) {
        true => Ok(()),
        false => {
            let file = source::name(&source.file);
            Err(Failure::Other(format!(
                "no entitlement has the id {id:?}; `duramen pack entitlements {file}` prints those that there are"
            )))
        }
    }
}

fn known_principal(effective: &Effective, text: &str, source: &Source) -> Result<ResourceId, Failure> {
    source::resource(text, |id| effective.has_principal(id)).ok_or_else(|| {
        let file = source::name(&source.file);
        Failure::Other(format!(
            "{text:?} holds nothing here: name a principal as TYPE:NAME, such as user:ada; `duramen pack principals {file}` \
             prints those that there are"
        ))
    })
}

pub(crate) fn who(context: &Context, who: &Who) -> Outcome {
    let effective = who.source.effective()?;
    known_entitlement(&effective, &who.entitlement, &who.source)?;
    let mut held = Vec::new();
    effective.who(&who.entitlement, &mut |grant| {
        if who.kind.as_deref().is_none_or(|kind| kind == grant.principal.resource_type) {
            held.push(Held::new(grant));
        }
        ControlFlow::Continue(())
    });
    held.sort_by(|a, b| (&a.principal, &a.entitlement).cmp(&(&b.principal, &b.entitlement)));
    print(context, &held, "PRINCIPAL", |each| each.principal.clone(), "hold")
}

pub(crate) fn what(context: &Context, what: &What) -> Outcome {
    let effective = what.source.effective()?;
    let principal = known_principal(&effective, &what.principal, &what.source)?;
    let mut held = Vec::new();
    effective.what(&principal, &mut |grant| {
        held.push(Held::new(grant));
        ControlFlow::Continue(())
    });
    held.sort_by(|a, b| {
        (&a.resource, &a.entitlement, &a.grant).cmp(&(&b.resource, &b.entitlement, &b.grant))
    });
    print(context, &held, "ENTITLEMENT", |each| each.entitlement.clone(), "are held")
}

fn print(
    context: &Context,
    held: &[Held],
    head: &str,
    first: impl Fn(&Held) -> String,
    verb: &str,
) -> Outcome {
    let direct = held.iter().filter(|each| each.is_direct).count();
    if context.json {
        output::json(&json!({
            "all": held.len(),
            "direct": direct,
            "grants": held.iter().map(Held::json).collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(output::table([head, "HOW"], held.iter().map(|each| [first(each), each.how()])));
    output::line(format_args!(
        "{} {verb}: {direct} directly, {} only through others",
        held.len(),
        held.len() - direct
    ));
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn why(context: &Context, why: &Why) -> Outcome {
    let effective = why.source.effective()?;
    known_entitlement(&effective, &why.entitlement, &why.source)?;
    let principal = known_principal(&effective, &why.principal, &why.source)?;
    let found = effective.why(&principal, &why.entitlement, why.limit);
    let (holder, entitlement) = (&why.principal, &why.entitlement);
    if found.all == 0 {
        return Err(Failure::Other(format!("{holder} does not hold {entitlement}")));
    }
    if context.json {
        output::json(&json!({
            "principal": holder,
            "entitlement": entitlement,
            "all": found.all,
            "paths": found.paths.iter().map(path_json).collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let ways = match found.all {
        1 => "in one way".to_owned(),
        u64::MAX => "in more ways than can be counted".to_owned(),
        all => format!("in {all} ways"),
    };
    output::line(format_args!("{holder} holds {entitlement} {ways}"));
    for (number, path) in (1..).zip(&found.paths) {
        output::line(format_args!("{number}. {}", first_line(holder, path)));
        for step in &path.steps {
            let by = format!("{}:{}", step.by.resource_type, step.by.resource);
            let only = if step.shallow { ", for direct holders only" } else { "" };
            output::line(format_args!(
                "   and so {}, which {by} holds (grant {:?}{only})",
                step.entitlement, step.grant
            ));
        }
    }
    if found.all > found.paths.len() as u64 {
        output::line(format_args!("the {} shortest are shown; --limit shows more", found.paths.len()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints who gained and who lost what between two files.
pub(super) fn compare(
    context: &Context,
    (left, right): (&FilePath, &FilePath),
    limit: usize,
    html: Option<&FilePath>,
) -> Outcome {
    let open = |path: &FilePath| -> Result<Effective, Failure> {
        let file = GraphFile::open(path, &source::options_of_environment())?;
        source::effective(&file, &file.sync(None)?)
    };
    let (older, newer) = (open(left)?, open(right)?);
    let (mut changes, mut lost, mut gained) = (Vec::new(), 0, 0);
    let mut report = AccessReport::new(source::name(left), source::name(right));
    let counts = expand::compare(&older, &newer, &mut |access, grant| {
        // Both kinds are shown, however many there are of the first.
        let shown = if access == Access::Lost { &mut lost } else { &mut gained };
        let is_shown = *shown < limit;
        if !is_shown && html.is_none() {
            return ControlFlow::Break(());
        }
        let held = Held::new(grant);
        // A page counts all of them.
        report.count(&AccessChange {
            is_gain: access == Access::Gained,
            principal_type: grant.principal.resource_type,
            principal: &held.principal,
            entitlement: &held.entitlement,
            through: held.through.first().filter(|_| !held.is_direct).map(String::as_str),
        });
        if is_shown {
            *shown += 1;
            let holder = ResourceId::new(grant.principal.resource_type, grant.principal.resource);
            changes.push((access, held, holder));
        }
        ControlFlow::Continue(())
    });
    let mut told = Vec::new();
    for (access, held, holder) in &changes {
        let of = if *access == Access::Lost { &older } else { &newer };
        let path = of.why(holder, &held.entitlement, 1).paths.into_iter().next();
        told.push((*access, held, path));
    }
    if let Some(html) = html {
        for (access, held, path) in &told {
            let how = in_words(path.as_ref());
            report.tell(*access == Access::Gained, &held.principal, &held.entitlement, how);
        }
        report.page().write(html).map_err(|error| Failure::Other(error.to_string()))?;
    }
    if context.json {
        let changes = told.iter().map(|(access, held, path)| {
            json!({
                "change": if *access == Access::Lost { "lost" } else { "gained" },
                "principal": held.principal,
                "entitlement": held.entitlement,
                "path": path.as_ref().map(path_json),
            })
        });
        output::json(&json!({
            "left": left,
            "right": right,
            "gained": counts.gained,
            "lost": counts.lost,
            "changes": changes.collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (access, held, path) in &told {
        let (sign, did) = if *access == Access::Lost { ('-', "lost") } else { ('+', "gained") };
        output::line(format_args!(
            "{sign} {} {did} {}, {}",
            held.principal,
            held.entitlement,
            in_words(path.as_ref())
        ));
    }
    output::line(format_args!("{} gained, {} lost", counts.gained, counts.lost));
    Ok(ExitCode::SUCCESS)
}

/// A way in a few words.
fn in_words(path: Option<&Path>) -> String {
    match path {
        Some(path) if path.steps.is_empty() => format!("directly (grant {:?})", path.grant),
        Some(path) => {
            let between = path.steps.iter().take(path.steps.len() - 1).map(|step| step.entitlement.as_str());
            let all: Vec<&str> = std::iter::once(path.start.as_str()).chain(between).collect();
            format!("through {}", all.join(", then "))
        }
        None => "by a way that cannot be told".to_owned(),
    }
}

fn first_line(holder: &str, path: &Path) -> String {
    let Path { start, grant, sources, .. } = path;
    match path.kind {
        Start::Direct => format!("{holder} holds {start} (grant {grant:?})"),
        Start::Recorded => format!(
            "{holder} holds {start} (grant {grant:?}), through {}, as the grant says; no other grant here says how",
            sources.join(", ")
        ),
    }
}

fn path_json(path: &Path) -> Value {
    let steps = path.steps.iter().map(|step| {
        json!({
            "entitlement": step.entitlement,
            "grant": step.grant,
            "by": format!("{}:{}", step.by.resource_type, step.by.resource),
            "shallow": step.shallow,
        })
    });
    json!({
        "start": path.start,
        "grant": path.grant,
        "direct": path.kind == Start::Direct,
        "sources": path.sources,
        "steps": steps.collect::<Vec<_>>(),
    })
}

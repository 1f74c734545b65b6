//! `duramen pack grants`, `principals`, `resources` and `entitlements`: rows of an access graph for other programs.

use super::{
    graph::Pipe,
    source::{parse_resource, Source},
};
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::Args;
use duramen_access::{
    graph::ResourceId,
    rows::{write_rows, Filter, Form, RowsError, Table},
};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct Grants {
    #[command(flatten)]
    source: Source,
    /// Also those that follow from grants to groups and roles
    #[arg(long)]
    effective: bool,
    #[command(flatten)]
    of: Of,
    /// Only of this entitlement
    #[arg(long, value_name = "ID")]
    entitlement: Option<String>,
    /// Only of this principal
    #[arg(long, value_name = "TYPE:NAME", value_parser = parse_resource)]
    principal: Option<ResourceId>,
    /// Only of principals of this type
    #[arg(long, value_name = "TYPE")]
    principal_type: Option<String>,
    #[command(flatten)]
    most: Most,
}

#[derive(Debug, Args)]
pub(crate) struct Principals {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    of: Of,
    /// Only those that have a grant of this entitlement
    #[arg(long, value_name = "ID")]
    entitlement: Option<String>,
    /// Only principals of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    #[command(flatten)]
    most: Most,
}

#[derive(Debug, Args)]
pub(crate) struct Resources {
    #[command(flatten)]
    source: Source,
    /// Only resources of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only those that lie in this one
    #[arg(long, value_name = "TYPE:NAME", value_parser = parse_resource)]
    parent: Option<ResourceId>,
    #[command(flatten)]
    most: Most,
}

#[derive(Debug, Args)]
pub(crate) struct Entitlements {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    of: Of,
    #[command(flatten)]
    most: Most,
}

/// Which entitlements are meant, by what they are about.
#[derive(Debug, Args)]
struct Of {
    /// Only of entitlements of this resource
    #[arg(long, value_name = "TYPE:NAME", value_parser = parse_resource)]
    resource: Option<ResourceId>,
    /// Only of entitlements of resources of this type
    #[arg(long, value_name = "TYPE")]
    resource_type: Option<String>,
}

#[derive(Debug, Args)]
struct Most {
    /// Print at most this many
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
}

impl From<RowsError> for Failure {
    fn from(error: RowsError) -> Failure {
        Failure::Other(error.to_string())
    }
}

pub(crate) fn grants(context: &Context, grants: Grants) -> Outcome {
    let Grants { source, effective, of, entitlement, principal, principal_type, most } = grants;
    let Of { resource, resource_type } = of;
    let filter = Filter { entitlement, resource, resource_type, principal, principal_type, parent: None };
    let table = if effective { Table::EffectiveGrants } else { Table::Grants };
    print(context, &source, table, &filter, &most)
}

pub(crate) fn principals(context: &Context, principals: Principals) -> Outcome {
    let Principals { source, of, entitlement, kind, most } = principals;
    let Of { resource, resource_type } = of;
    let filter = Filter { entitlement, resource, resource_type, principal_type: kind, ..Filter::default() };
    print(context, &source, Table::Principals, &filter, &most)
}

pub(crate) fn resources(context: &Context, resources: Resources) -> Outcome {
    let Resources { source, kind, parent, most } = resources;
    let filter = Filter { resource_type: kind, parent, ..Filter::default() };
    print(context, &source, Table::Resources, &filter, &most)
}

pub(crate) fn entitlements(context: &Context, entitlements: Entitlements) -> Outcome {
    let Entitlements { source, of, most } = entitlements;
    let Of { resource, resource_type } = of;
    let filter = Filter { resource, resource_type, ..Filter::default() };
    print(context, &source, Table::Entitlements, &filter, &most)
}

fn print(context: &Context, source: &Source, table: Table, filter: &Filter, most: &Most) -> Outcome {
    let (file, sync) = source.open()?;
    let form = if context.json { Form::Json } else { Form::Csv };
    let mut out = Pipe::new();
    match write_rows(&file, &sync, (table, filter), form, most.limit.unwrap_or(u64::MAX), &mut out) {
        Err(RowsError::Write(_)) if out.has_no_reader() => {}
        written => {
            written?;
        }
    }
    for loss in file.left_out() {
        output::warning(&format_args!("not shown: {}, of {} {} rows", loss.what, loss.rows, loss.row));
    }
    Ok(ExitCode::SUCCESS)
}

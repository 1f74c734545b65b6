//! Schema and evidence of branches, as resources.

use super::{interface::Interface, schema, summary, tools};
use duramen_api::names;
use duramen_client::ClientError;
use rmcp::model::{Resource, ResourceTemplate};

/// Branches whose resources are listed.
const LIST_MAX: usize = 100;
const SCHEME: &str = "duramen://branches/";
/// What there is of each branch: the last part of the address, what it is, and its media type.
const KINDS: [(&str, &str, &str); 2] = [
    ("schema", "tables, columns, types and keys", "text/plain"),
    ("evidence", "what was done in it, and that the source did not change", "application/json"),
];

/// The resources of a caller's branches.
pub(super) async fn list(interface: &Interface) -> Result<Vec<Resource>, ClientError> {
    let branches = interface.branches().await?;
    let mut resources = Vec::new();
    for branch in branches.iter().take(LIST_MAX) {
        for (kind, what, media) in KINDS {
            let name = format!("{} {kind}", branch.name);
            let resource = Resource::new(format!("{SCHEME}{}/{kind}", branch.name), name);
            let what = format!("Branch {} of {}: {what}", branch.name, branch.source);
            resources.push(resource.with_description(what).with_mime_type(media));
        }
    }
    Ok(resources)
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |(kind, what, media): (&str, &str, &str)| {
        ResourceTemplate::new(format!("{SCHEME}{{branch}}/{kind}"), format!("branch {kind}"))
            .with_description(format!("A branch: {what}"))
            .with_mime_type(media)
    };
    KINDS.into_iter().map(template).collect()
}

/// The branch and the kind that an address names. Names of branches need no escapes, and an address with any names nothing (M2).
fn parse(uri: &str) -> Option<(&str, &'static str, &'static str)> {
    let (name, kind) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    names::check("branch", name).ok()?;
    KINDS.iter().find(|(known, ..)| *known == kind).map(|(kind, _, media)| (name, *kind, *media))
}

/// What a resource holds, and its media type. `None`: no resource has this address.
pub(super) async fn read(
    interface: &Interface,
    uri: &str,
) -> Option<Result<(String, &'static str), tools::Failure>> {
    let (name, kind, media) = parse(uri)?;
    let text = match kind {
        "schema" => schema::describe(interface, name, None).await,
        _ => interface
            .evidence(name, None)
            .await
            .map(|found| summary::evidence(&found).to_string())
            .map_err(Into::into),
    };
    Some(text.map(|text| (text, media)))
}

#[cfg(test)]
mod tests {
    use super::parse;

    /// M2.
    #[test]
    fn an_address_names_a_branch_and_nothing_else() {
        assert_eq!(parse("duramen://branches/a.b-1/schema"), Some(("a.b-1", "schema", "text/plain")));
        for uri in [
            "duramen://branches/../schema",
            "duramen://branches/a/../b/schema",
            "duramen://branches/a%2F..%2Fb/schema",
            "duramen://branches/..%2f..%2fshutdown/schema",
            "duramen://branches/a/schema/",
            "duramen://branches/a/tokens",
            "duramen://branches//schema",
            "duramen://branches/a/schema?table=x",
            "file:///etc/passwd",
            "",
        ] {
            assert_eq!(parse(uri), None, "{uri}");
        }
    }
}

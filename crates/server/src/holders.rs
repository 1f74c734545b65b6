//! What requests do for those who came with a token: the same as on the daemon's socket, on what is theirs. The invariants H1 to
//! H9 that comments and tests name are in `docs/design/doors.md`.

use crate::{
    api::{Answer, Api, Call},
    attachments,
    caller::Visitor,
    console, data_diff, export,
    import::{self, Form},
    page,
    reply::{self, json, Refusal},
};
use axum::body::Body;
use duramen_api::model::{
    BranchView, CreateBranch, ExportFormat, MergeBranch, PromoteBranch, ProtectBranch, QueryRequest,
    RenewBranch,
};
use duramen_api::{
    route::Op,
    segment,
    token::{Forbidden, Role, Token},
};
use duramen_base::clock;
use duramen_branches::{EngineError, Holder, Kind};
use hyper::StatusCode;
use jiff::Timestamp;
use std::sync::Arc;

/// How long a lease lasts unless its holder says otherwise, in seconds.
const TTL_S: i64 = 3600;

impl From<Forbidden> for Refusal {
    fn from(error: Forbidden) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, "not_allowed", error.to_string())
    }
}

impl Api {
    /// Answers the holder of a token whose role may do this.
    pub(crate) async fn for_holder(&self, call: &Call<'_>, visitor: &Visitor, body: Body) -> Answer {
        let (engine, name, token) = (&self.engine, call.name, &*visitor.token);
        let holder = holder(token);
        let shown = |view: BranchView| json(&visitor.shown(view));
        if call.endpoint.op.reads_attached() && !visitor.sees_unmasked {
            return Err(attachments::unmasked(name));
        }
        match call.endpoint.op {
            Op::Branches => {
                let views = engine.branches_of(&onlooker(token));
                let views = views.into_iter().map(|view| visitor.shown(view)).collect();
                page::reply(call, views, |branch: &BranchView| &branch.name)
            }
            Op::Branch => shown(engine.branch_for(&onlooker(token), name)?),
            Op::DrainNode => self.drain_node(name, Some(&token.name), call.read(body).await?).await,
            Op::CreateBranch => {
                let wanted: CreateBranch = call.read(body).await?;
                let wanted = match wanted.from.as_deref() {
                    Some(from) => {
                        // The holder has to have it, and may by now have another policy or source no more.
                        let parent = from.split_once('@').map_or(from, |(parent, _)| parent);
                        let parent = engine.branch_for(&holder, parent)?;
                        token.may_use(&parent.source, parent.policy)?;
                        let (ttl_s, expires_at) = lease(token, wanted.ttl_s, wanted.expires_at)?;
                        CreateBranch { ttl_s, expires_at, ..wanted }
                    }
                    None => permitted(token, wanted)?,
                };
                shown(engine.create_for(&holder, wanted).await?)
            }
            Op::Query => {
                let request: QueryRequest = call.read(body).await?;
                let door = engine.door(&holder, name)?;
                token.may_use(&door.source, door.policy)?;
                if !door.masked && !visitor.sees_unmasked {
                    return Err(unmasked(&door.source));
                }
                let answer = engine.query_through(&holder, &door, request).await?;
                Ok(reply::text(StatusCode::OK, answer.0))
            }
            Op::SchemaDiff => {
                let against = call.parameter("against")?;
                for name in std::iter::once(name).chain(against.as_deref()) {
                    let door = engine.door(&holder, name)?;
                    token.may_use(&door.source, door.policy)?;
                    // Definitions hold values, as queries do.
                    if !door.masked && !visitor.sees_unmasked {
                        return Err(unmasked(&door.source));
                    }
                }
                json(&engine.schema_diff_for(&holder, name, against.as_deref()).await?)
            }
            Op::BranchSessions => {
                // Statements hold values.
                let door = engine.door(&holder, name)?;
                token.may_use(&door.source, door.policy)?;
                if !door.masked && !visitor.sees_unmasked {
                    return Err(unmasked(&door.source));
                }
                json(&engine.sessions(Some(&holder), name).await?)
            }
            Op::CancelSession => {
                json(&engine.cancel_session(Some(&holder), name, call.read(body).await?).await?)
            }
            Op::Events if token.role != Role::Admin || !token.sources.is_empty() => {
                self.events(call, Some(onlooker(token)))
            }
            Op::ResetBranch => shown(engine.reset_for(&holder, name).await?),
            Op::BranchTree => {
                let nodes = tokio::task::block_in_place(|| engine.tree_for(&onlooker(token)));
                page::reply(call, nodes, |node| &node.name)
            }
            Op::Snapshots => json(&engine.snapshots_for(&onlooker(token), name)?),
            Op::TakeSnapshot => json(&engine.take_snapshot_for(&holder, name, call.read(body).await?).await?),
            Op::RemoveSnapshot => {
                json(&engine.remove_snapshot_for(&holder, name, &call.needed("snapshot")?)?)
            }
            Op::RestoreBranch => shown(engine.restore_for(&holder, name, call.read(body).await?).await?),
            Op::UndoBranch => shown(engine.undo_for(&holder, name).await?),
            Op::PromoteBranch => {
                let wanted: PromoteBranch = call.read(body).await?;
                let (engine, name) = (Arc::clone(engine), name.to_owned());
                let promotion =
                    |report| async move { engine.promote_for(&holder, &name, wanted, report).await };
                import::run(Form::accepted(&call.head.headers), self.orders.ending(), promotion).await
            }
            Op::MergeBranch => {
                let wanted: MergeBranch = call.read(body).await?;
                for name in [name, wanted.into.as_str()] {
                    let door = engine.door(&holder, name)?;
                    token.may_use(&door.source, door.policy)?;
                    // Conflicts are told with what rows hold, and rows of one reach the other.
                    if !door.masked && !visitor.sees_unmasked {
                        return Err(unmasked(&door.source));
                    }
                }
                json(&engine.merge(Some(&holder), name, &wanted).await?)
            }
            Op::RenewBranch => {
                let RenewBranch { ttl_s, expires_at } = call.read(body).await?;
                let (ttl_s, expires_at) = lease(token, ttl_s, expires_at)?;
                shown(engine.renew_for(&holder, name, RenewBranch { ttl_s, expires_at })?)
            }
            Op::ProtectBranch => {
                let wanted: ProtectBranch = call.read(body).await?;
                shown(engine.protect_for(&holder, name, wanted)?)
            }
            Op::DestroyBranch => shown(engine.destroy_for(&holder, name)?),
            Op::Evidence => {
                let table = call.parameter("table")?;
                let mut evidence = match call.flag("diff")? {
                    true => engine.evidence_and_diff(Some(&holder), name, table.as_deref()).await?,
                    false => engine.evidence_for(&holder, name, table.as_deref()).await?,
                };
                evidence.branch = visitor.shown(evidence.branch);
                json(&evidence)
            }
            Op::DataDiff => {
                // It tells what rows hold, as a query does.
                let door = engine.door(&holder, name)?;
                if !door.masked && !visitor.sees_unmasked {
                    return Err(unmasked(&door.source));
                }
                data_diff::run(self, call, Some(holder)).await
            }
            Op::ExportBranch => {
                let wanted = export::wanted(call)?;
                if wanted.format == ExportFormat::Basebackup {
                    // It has all databases, and all that the branch's role may not read.
                    let message = format!("{call}: a base backup is for the machine; choose another format");
                    return Err(Refusal::new(StatusCode::FORBIDDEN, "not_allowed", message));
                }
                let door = engine.door(&holder, name)?;
                token.may_use(&door.source, door.policy)?;
                if !door.masked && !visitor.sees_unmasked {
                    return Err(unmasked(&door.source));
                }
                export::run(self, call, Some(holder), wanted).await
            }
            Op::Sources => {
                let mut sources = self.sources();
                sources.retain(|source| holder.may_use(&source.name));
                page::reply(call, sources, |source| &source.name)
            }
            Op::Source
            | Op::ScanSource
            | Op::Generations
            | Op::LabelGeneration
            | Op::Timeline
            | Op::GenerationDiff
            | Op::GenerationDataDiff
            | Op::VerifySource
            | Op::FingerprintSource
                if !holder.may_use(name) =>
            {
                Err(unknown_source(name).into())
            }
            Op::LabelGeneration => {
                json(&engine.label_generation_for(&holder, name, call.read(body).await?).await?)
            }
            Op::Timeline => json(&engine.timeline_for(&onlooker(token), name)?),
            Op::GenerationDiff => {
                // Definitions hold values, as queries do.
                let is_unmasked = engine.generations(name)?.iter().any(|view| view.data != "masked");
                if is_unmasked && !visitor.sees_unmasked {
                    return Err(unmasked(name));
                }
                let (from, to) = (call.needed("from")?, call.needed("to")?);
                json(&engine.generation_diff_for(&holder, name, &from, &to).await?)
            }
            Op::GenerationDataDiff => {
                let is_unmasked = engine.generations(name)?.iter().any(|view| view.data != "masked");
                if is_unmasked && !visitor.sees_unmasked {
                    return Err(unmasked(name));
                }
                // Asked again of the two that are meant, once they are held.
                data_diff::of_generations(self, call, Some(holder), !visitor.sees_unmasked).await
            }
            Op::Source => json(&self.source(name)?),
            Op::ScanSource => json(&engine.scan_source(name)?),
            Op::ControlFunction => self.control_function(name, Some(token), call.read(body).await?).await,
            Op::SignIn => self.sign_in(call, body).await,
            Op::SignOut => self.sign_out(call, visitor),
            Op::Session => json(&console::session(visitor, self.fleet.is_some())),
            _ => self.for_all(call).await,
        }
    }
}

impl Visitor {
    /// A branch as its holder is told of it: the way in is the router, and without a secret (H5).
    pub(crate) fn shown(&self, view: BranchView) -> BranchView {
        let url = self.router.as_ref().map_or_else(String::new, |router| {
            let mut url = String::from("postgresql://");
            segment::escape(&self.token.name, &mut url);
            url.push('@');
            url.push_str(router);
            url.push('/');
            segment::escape(&view.name, &mut url);
            url
        });
        BranchView { url, ..view }
    }
}

/// Who the holder of a token is to the engine.
pub(crate) fn holder(token: &Token) -> Holder {
    as_holder(token, token.role == Role::Admin)
}

/// Who it is where it only looks: an onlooker sees the branches of everybody.
pub(crate) fn onlooker(token: &Token) -> Holder {
    as_holder(token, token.role != Role::User)
}

fn as_holder(token: &Token, all: bool) -> Holder {
    Holder { id: token.id.clone(), branches_max: token.max_branches, all, sources: token.sources.clone() }
}

/// What a token's holder asks for, if it may have that.
fn permitted(token: &Token, wanted: CreateBranch) -> Result<CreateBranch, Refusal> {
    let source = match (wanted.source, token.sources.as_slice()) {
        (Some(source), _) => Some(source),
        (None, []) => None,
        (None, [only]) => Some(only.clone()),
        (None, sources) => {
            let message = format!("which source? The token {} has {}", token.name, sources.join(", "));
            return Err(Refusal::new(StatusCode::BAD_REQUEST, "which_source", message));
        }
    };
    let policy = wanted.policy.unwrap_or_default();
    // A token for all sources may have any: which one it is does not matter.
    token.may_use(source.as_deref().unwrap_or_default(), policy)?;
    let (ttl_s, expires_at) = lease(token, wanted.ttl_s, wanted.expires_at)?;
    Ok(CreateBranch { source, policy: Some(policy), ttl_s, expires_at, ..wanted })
}

/// The end of a lease that a token's holder asks for, if it may have that.
fn lease(
    token: &Token,
    ttl_s: Option<i64>,
    expires_at: Option<Timestamp>,
) -> Result<(Option<i64>, Option<Timestamp>), Forbidden> {
    match (ttl_s, expires_at) {
        (ttl_s, None) => Ok((Some(token.ttl(ttl_s, TTL_S)?), None)),
        // Both is a mistake, which the engine names.
        (ttl_s, Some(end)) => {
            let asked_s = end.as_second().saturating_sub(clock::utc_now().as_second());
            token.ttl(Some(ttl_s.unwrap_or(asked_s).max(asked_s)), TTL_S)?;
            Ok((ttl_s, Some(end)))
        }
    }
}

/// R5.
fn unmasked(source: &str) -> Refusal {
    let message = format!(
        "the data of source {source} is not masked, and stays on its machine; give the source rules for masking, or start the daemon \
         with --unmasked-ok"
    );
    Refusal::new(StatusCode::FORBIDDEN, "not_masked", message)
}

fn unknown_source(name: &str) -> EngineError {
    let message = format!("there is no source {name:?} for this token; GET /v1/sources lists those that are");
    EngineError::new(Kind::NotFound, "unknown_source", message)
}

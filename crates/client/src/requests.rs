//! One method a request. What is sent and what comes back are the types that the daemon reads and writes.
//!
//! Dropping an unfinished future closes the connection, and so ends what the request was doing; imports alone go on.

mod attachments_functions;
mod attachments_lab;
mod attachments_store;

use crate::{ClientError, Connection, Encoded};
use bytes::Bytes;
use duramen_api::model::{
    AddSource, AdministratorUrl, AuditEntry, AuditVerification, BranchEvidence, BranchSession, BranchView,
    CancelSession, CancelledSession, ChangeSettings, ColdBranch, CreateBranch, ExportFormat, GenerationView,
    LabelGeneration, MakePair, MergeBranch, MergeReport, Moment, PairLine, PromoteBranch, ProtectBranch,
    QueryReply, QueryRequest, RenewBranch, RestoreBranch, Scan, SchemaDiff, SnapshotVerification,
    SnapshotView, SourceFingerprint, SourceView, Status, TakeSnapshot, TreeNode,
};
use duramen_api::{
    attachments::{AddAttachment, Attachment},
    cluster::ClusterView,
    console::{MakeConsoleLink, NewConsoleLink},
    data_diff::DataDiff,
    doors::DoorsView,
    fleet::{DrainNode, FleetView, NodeChanged},
    request::{MeasureCold, Removed, Stopping},
    route::{Op, Route},
    token::{CreateToken, NewToken, Token},
};
use tokio::sync::mpsc;

/// Every method fails with [`ClientError::Refused`] when the daemon refuses, else with what kept the reply from coming.
#[allow(clippy::missing_errors_doc, reason = "the same sentence for all of them stands above")]
impl Connection {
    /// The daemon's state in figures.
    pub async fn status(&mut self) -> Result<Status, ClientError> {
        self.exchange(Route::to(Op::Status), Bytes::new()).await
    }

    /// The text of a [`Status`], for who polls a part of it.
    pub async fn status_text(&mut self) -> Result<Bytes, ClientError> {
        self.send(Route::to(Op::Status), Bytes::new()).await
    }

    /// Checks the whole audit log.
    pub async fn verify_audit(&mut self) -> Result<AuditVerification, ClientError> {
        self.exchange(Route::to(Op::VerifyAudit), Bytes::new()).await
    }

    /// Entries of the audit log before a position, or the newest ones, the newest first.
    pub async fn audit_log(
        &mut self,
        limit: u32,
        before: Option<&str>,
    ) -> Result<Vec<AuditEntry>, ClientError> {
        let limit = limit.to_string();
        let route = Route::to(Op::AuditLog).with(&limit);
        let route = before.map_or(route, |before| route.and(before));
        self.exchange(route, Bytes::new()).await
    }

    /// The sessions in a branch, the earliest first.
    pub async fn branch_sessions(&mut self, name: &str) -> Result<Vec<BranchSession>, ClientError> {
        self.exchange(Route::of(Op::BranchSessions, name), Bytes::new()).await
    }

    /// Cancels the statement of a session in a branch, or ends the session.
    pub async fn cancel_session(
        &mut self,
        name: &str,
        request: &CancelSession,
    ) -> Result<CancelledSession, ClientError> {
        self.post(Route::of(Op::CancelSession, name), request).await
    }

    /// Makes one branch without the pool, and measures it.
    pub async fn measure_cold(&mut self, request: &MeasureCold) -> Result<ColdBranch, ClientError> {
        self.post(Route::to(Op::MeasureCold), request).await
    }

    /// Makes a primary and its standby on clones of a generation, and reads what is said of them until `on_line` has heard enough
    /// (`false`). They are there until this returns, or is dropped; each line has to come within the connection's deadline.
    pub async fn pair(
        &mut self,
        request: &MakePair,
        on_line: impl FnMut(PairLine) -> bool,
    ) -> Result<(), ClientError> {
        let body = Encoded::new(request)?.into_bytes();
        self.pair_lines(Route::to(Op::MakePair), body, on_line).await
    }

    /// Asks the daemon to stop. It answers first, if it is not stopping already.
    pub async fn shutdown(&mut self) -> Result<Stopping, ClientError> {
        self.exchange(Route::to(Op::Shutdown), Bytes::new()).await
    }

    /// Asks the daemon to end and to leave the servers of leased branches to the next daemon. It answers first, if it is
    /// not stopping already.
    pub async fn hand_over(&mut self) -> Result<Stopping, ClientError> {
        self.exchange(Route::to(Op::HandOver), Bytes::new()).await
    }

    /// The nodes of the fleet that the daemon is in.
    pub async fn nodes(&mut self) -> Result<FleetView, ClientError> {
        self.exchange(Route::to(Op::Nodes), Bytes::new()).await
    }

    /// How the fleet is: every node and every member of etcd, each asked by itself.
    pub async fn cluster(&mut self) -> Result<ClusterView, ClientError> {
        self.exchange(Route::to(Op::Cluster), Bytes::new()).await
    }

    /// Has a node of the fleet take no new branches, or ends that.
    pub async fn drain_node(&mut self, name: &str, drains: bool) -> Result<NodeChanged, ClientError> {
        self.post(Route::of(Op::DrainNode, name), &DrainNode { drains }).await
    }

    /// Forgets a node of the fleet that is not there.
    pub async fn forget_node(&mut self, name: &str) -> Result<NodeChanged, ClientError> {
        self.exchange(Route::of(Op::ForgetNode, name), Bytes::new()).await
    }

    /// What is attached, by name.
    pub async fn attachments(&mut self) -> Result<Vec<Attachment>, ClientError> {
        self.exchange(Route::to(Op::Attachments), Bytes::new()).await
    }

    /// Attaches something, to be looked at.
    pub async fn add_attachment(&mut self, request: &AddAttachment) -> Result<Attachment, ClientError> {
        self.post(Route::to(Op::AddAttachment), request).await
    }

    /// Takes an attachment away.
    pub async fn remove_attachment(&mut self, name: &str) -> Result<Attachment, ClientError> {
        self.exchange(Route::of(Op::RemoveAttachment, name), Bytes::new()).await
    }

    /// What listens for holders of tokens.
    pub async fn doors(&mut self) -> Result<DoorsView, ClientError> {
        self.exchange(Route::to(Op::Doors), Bytes::new()).await
    }

    /// All tokens, by name.
    pub async fn tokens(&mut self) -> Result<Vec<Token>, ClientError> {
        self.exchange(Route::to(Op::Tokens), Bytes::new()).await
    }

    /// Makes a token. Its secret is in the reply, and nowhere else.
    pub async fn create_token(&mut self, request: &CreateToken) -> Result<NewToken, ClientError> {
        self.post(Route::to(Op::CreateToken), request).await
    }

    /// Gives a token another secret, and ends what was entered with the old one.
    pub async fn rotate_token(&mut self, name: &str) -> Result<NewToken, ClientError> {
        self.exchange(Route::of(Op::RotateToken, name), Bytes::new()).await
    }

    /// Brings a token back that is suspended because its fleet has it no more.
    pub async fn restore_token(&mut self, name: &str) -> Result<Token, ClientError> {
        self.exchange(Route::of(Op::RestoreToken, name), Bytes::new()).await
    }

    /// Ends a token, and what was entered by it.
    pub async fn revoke_token(&mut self, name: &str) -> Result<Token, ClientError> {
        self.exchange(Route::of(Op::RevokeToken, name), Bytes::new()).await
    }

    /// Makes a link that signs a browser in once.
    pub async fn make_console_link(
        &mut self,
        request: &MakeConsoleLink,
    ) -> Result<NewConsoleLink, ClientError> {
        self.post(Route::to(Op::MakeConsoleLink), request).await
    }

    /// All leased branches, by name.
    pub async fn branches(&mut self) -> Result<Vec<BranchView>, ClientError> {
        self.exchange(Route::to(Op::Branches), Bytes::new()).await
    }

    /// One leased branch.
    pub async fn branch(&mut self, name: &str) -> Result<BranchView, ClientError> {
        self.exchange(Route::of(Op::Branch, name), Bytes::new()).await
    }

    /// Leases a branch.
    pub async fn create_branch(&mut self, request: &CreateBranch) -> Result<BranchView, ClientError> {
        self.post(Route::to(Op::CreateBranch), request).await
    }

    /// Leases a branch; the reply is the text of a [`BranchView`].
    pub async fn create_branch_text(&mut self, request: Encoded<CreateBranch>) -> Result<Bytes, ClientError> {
        self.send(Route::to(Op::CreateBranch), request.into_bytes()).await
    }

    /// Gives a branch back.
    pub async fn destroy_branch(&mut self, name: &str) -> Result<BranchView, ClientError> {
        self.exchange(Route::of(Op::DestroyBranch, name), Bytes::new()).await
    }

    /// Gives a branch back; the reply is the text of a [`BranchView`].
    pub async fn destroy_branch_text(&mut self, name: &str) -> Result<Bytes, ClientError> {
        self.send(Route::of(Op::DestroyBranch, name), Bytes::new()).await
    }

    /// Runs one statement in a branch, or several in one transaction.
    pub async fn query(&mut self, name: &str, request: &QueryRequest) -> Result<QueryReply, ClientError> {
        self.post(Route::of(Op::Query, name), request).await
    }

    /// The same; the reply is the text of a [`QueryReply`].
    pub async fn query_text(
        &mut self,
        name: &str,
        request: Encoded<QueryRequest>,
    ) -> Result<Bytes, ClientError> {
        self.send(Route::of(Op::Query, name), request.into_bytes()).await
    }

    /// Puts a branch back to its snapshot.
    pub async fn reset_branch(&mut self, name: &str) -> Result<BranchView, ClientError> {
        self.exchange(Route::of(Op::ResetBranch, name), Bytes::new()).await
    }

    /// Which branch was made of which, and what each of them holds.
    pub async fn branch_tree(&mut self) -> Result<Vec<TreeNode>, ClientError> {
        self.exchange(Route::to(Op::BranchTree), Bytes::new()).await
    }

    /// The snapshots of a branch, the earliest first.
    pub async fn snapshots(&mut self, name: &str) -> Result<Vec<SnapshotView>, ClientError> {
        self.exchange(Route::of(Op::Snapshots, name), Bytes::new()).await
    }

    /// Takes a snapshot of a branch.
    pub async fn take_snapshot(
        &mut self,
        name: &str,
        request: &TakeSnapshot,
    ) -> Result<SnapshotView, ClientError> {
        self.post(Route::of(Op::TakeSnapshot, name), request).await
    }

    /// Removes a snapshot of a branch, by its name or its id.
    pub async fn remove_snapshot(&mut self, name: &str, snapshot: &str) -> Result<SnapshotView, ClientError> {
        self.exchange(Route::of(Op::RemoveSnapshot, name).with(snapshot), Bytes::new()).await
    }

    /// Puts a branch back to one of its snapshots.
    pub async fn restore_branch(
        &mut self,
        name: &str,
        request: &RestoreBranch,
    ) -> Result<BranchView, ClientError> {
        self.post(Route::of(Op::RestoreBranch, name), request).await
    }

    /// Puts a branch back to what it was before it was last reset or restored.
    pub async fn undo_branch(&mut self, name: &str) -> Result<BranchView, ClientError> {
        self.exchange(Route::of(Op::UndoBranch, name), Bytes::new()).await
    }

    /// Makes a branch the next generation of its source, with progress as in [`Connection::add_source`].
    pub async fn promote_branch(
        &mut self,
        name: &str,
        request: &PromoteBranch,
        on_progress: impl FnMut(&str, Option<f64>),
    ) -> Result<SourceView, ClientError> {
        let body = Encoded::new(request)?.into_bytes();
        self.stream(Route::of(Op::PromoteBranch, name), body, on_progress).await
    }

    /// Merges a branch into the one that it was made of. It may take long: see [`Connection::set_deadline`].
    pub async fn merge_branch(
        &mut self,
        child: &str,
        request: &MergeBranch,
    ) -> Result<MergeReport, ClientError> {
        self.post(Route::of(Op::MergeBranch, child), request).await
    }

    /// Moves the end of a lease.
    pub async fn renew_branch(
        &mut self,
        name: &str,
        request: &RenewBranch,
    ) -> Result<BranchView, ClientError> {
        self.post(Route::of(Op::RenewBranch, name), request).await
    }

    /// Protects a branch from destruction and expiry, or ends that.
    pub async fn protect_branch(
        &mut self,
        name: &str,
        request: &ProtectBranch,
    ) -> Result<BranchView, ClientError> {
        self.post(Route::of(Op::ProtectBranch, name), request).await
    }

    /// The URL by which an administrator of the machine enters a branch.
    pub async fn administrator_url(&mut self, name: &str) -> Result<AdministratorUrl, ClientError> {
        self.exchange(Route::of(Op::AdministratorUrl, name), Bytes::new()).await
    }

    /// What is known of a branch and its source, for keeping; with one table compared in both, if one is named.
    pub async fn evidence(&mut self, name: &str, table: Option<&str>) -> Result<BranchEvidence, ClientError> {
        let route = Route::of(Op::Evidence, name);
        self.exchange(table.map_or(route, |table| route.with(table)), Bytes::new()).await
    }

    /// The same, with the digest of what the branch changed.
    pub async fn evidence_and_diff(
        &mut self,
        name: &str,
        table: Option<&str>,
    ) -> Result<BranchEvidence, ClientError> {
        let route = Route::of(Op::Evidence, name).and("true");
        self.exchange(table.map_or(route, |table| route.with(table)), Bytes::new()).await
    }

    /// What a branch defines, compared with what it was made of or with another branch.
    pub async fn schema_diff(
        &mut self,
        name: &str,
        against: Option<&str>,
    ) -> Result<SchemaDiff, ClientError> {
        let route = Route::of(Op::SchemaDiff, name);
        self.exchange(against.map_or(route, |other| route.with(other)), Bytes::new()).await
    }

    /// Which rows of a branch differ from those of its snapshot: `on_line` is given each line as it comes. `tables` are names
    /// separated by commas, and `rows` how many are told at most. The deadline holds for each line.
    pub async fn data_diff(
        &mut self,
        name: &str,
        tables: Option<&str>,
        rows: u32,
        on_line: impl FnMut(DataDiff),
    ) -> Result<(), ClientError> {
        let rows = rows.to_string();
        let route = Route::of(Op::DataDiff, name).and(&rows);
        self.differences(tables.map_or(route, |tables| route.with(tables)), on_line).await
    }

    /// Which rows of two generations of a source differ, each a number or a label: lines as of [`Connection::data_diff`], in which
    /// the branch is the second and the snapshot the first.
    pub async fn generation_data_diff(
        &mut self,
        name: &str,
        [from, to]: [&str; 2],
        tables: Option<&str>,
        rows: u32,
        on_line: impl FnMut(DataDiff),
    ) -> Result<(), ClientError> {
        let rows = rows.to_string();
        let route = Route::of(Op::GenerationDataDiff, name).with(from).and(to).besides(&rows);
        self.differences(tables.map_or(route, |tables| route.also(tables)), on_line).await
    }

    /// Sends what a branch holds to `parts`, as it comes. It is whole only if this returns without an error. The deadline holds
    /// for each part.
    pub(crate) async fn export(
        &mut self,
        name: &str,
        format: ExportFormat,
        jobs: u32,
        quiesce: bool,
        parts: &mpsc::Sender<Bytes>,
    ) -> Result<(), ClientError> {
        let jobs = jobs.to_string();
        let route = Route::of(Op::ExportBranch, name).with(format.name()).and(&jobs);
        let route = if quiesce { route.also("true") } else { route };
        self.octets(route, parts).await
    }

    /// The same as [`Connection::data_diff`] for all tables, with the values of columns that the branch alone has: all that is needed
    /// to make the change elsewhere.
    pub async fn whole_data_diff(
        &mut self,
        name: &str,
        rows: u32,
        on_line: impl FnMut(DataDiff),
    ) -> Result<(), ClientError> {
        let rows = rows.to_string();
        self.differences(Route::of(Op::DataDiff, name).and(&rows).also("true"), on_line).await
    }

    /// All sources, by name.
    pub async fn sources(&mut self) -> Result<Vec<SourceView>, ClientError> {
        self.exchange(Route::to(Op::Sources), Bytes::new()).await
    }

    /// One source.
    pub async fn source(&mut self, name: &str) -> Result<SourceView, ClientError> {
        self.exchange(Route::of(Op::Source, name), Bytes::new()).await
    }

    /// Imports a source; `on_progress` is called with each step and the fraction that is done, if it is known. The
    /// deadline holds for each step.
    pub async fn add_source(
        &mut self,
        request: &AddSource,
        on_progress: impl FnMut(&str, Option<f64>),
    ) -> Result<SourceView, ClientError> {
        let body = Encoded::new(request)?.into_bytes();
        self.stream(Route::to(Op::AddSource), body, on_progress).await
    }

    /// Imports the next generation of a source, with progress as in [`Connection::add_source`].
    pub async fn refresh_source(
        &mut self,
        name: &str,
        on_progress: impl FnMut(&str, Option<f64>),
    ) -> Result<SourceView, ClientError> {
        self.stream(Route::of(Op::RefreshSource, name), Bytes::new(), on_progress).await
    }

    /// Forgets a source and deletes its snapshots.
    pub async fn remove_source(&mut self, name: &str) -> Result<Removed, ClientError> {
        self.exchange(Route::of(Op::RemoveSource, name), Bytes::new()).await
    }

    /// Changes how a source's branches run.
    pub async fn change_settings(
        &mut self,
        name: &str,
        change: &ChangeSettings,
    ) -> Result<SourceView, ClientError> {
        self.post(Route::of(Op::ChangeSettings, name), change).await
    }

    /// The generations of a source that there are, the earliest first.
    pub async fn generations(&mut self, name: &str) -> Result<Vec<GenerationView>, ClientError> {
        self.exchange(Route::of(Op::Generations, name), Bytes::new()).await
    }

    /// Gives a generation of a source a label, or takes one away.
    pub async fn label_generation(
        &mut self,
        name: &str,
        request: &LabelGeneration,
    ) -> Result<Vec<GenerationView>, ClientError> {
        self.post(Route::of(Op::LabelGeneration, name), request).await
    }

    /// What branches of a source can be made of, the earliest first.
    pub async fn timeline(&mut self, name: &str) -> Result<Vec<Moment>, ClientError> {
        self.exchange(Route::of(Op::Timeline, name), Bytes::new()).await
    }

    /// What two generations of a source define, compared. Each is a number or a label.
    pub async fn generation_diff(
        &mut self,
        name: &str,
        from: &str,
        to: &str,
    ) -> Result<SchemaDiff, ClientError> {
        self.exchange(Route::of(Op::GenerationDiff, name).with(from).and(to), Bytes::new()).await
    }

    /// Compares a snapshot's files with the digest of its import.
    pub async fn verify_source(&mut self, name: &str) -> Result<SnapshotVerification, ClientError> {
        self.exchange(Route::of(Op::VerifySource, name), Bytes::new()).await
    }

    /// The present state of the live source.
    pub async fn fingerprint_source(&mut self, name: &str) -> Result<SourceFingerprint, ClientError> {
        self.exchange(Route::of(Op::FingerprintSource, name), Bytes::new()).await
    }

    /// Columns of a source that look personal and are not masked, with rules for them.
    pub async fn scan_source(&mut self, name: &str) -> Result<Scan, ClientError> {
        self.exchange(Route::of(Op::ScanSource, name), Bytes::new()).await
    }

    /// Proportional memory of idle hot branches of a source, in bytes, at most `sample` of them.
    pub async fn idle_pss(&mut self, source: &str, sample: u32) -> Result<Vec<u64>, ClientError> {
        self.exchange(Route::of(Op::IdlePss, source).with(&sample.to_string()), Bytes::new()).await
    }
}

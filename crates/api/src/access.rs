//! To whom each request is open: what the table in `docs/design/doors.md` says (H3).

use crate::{route::Op, token::Role};

/// To whom something is open over TCP. On the daemon's socket its owner may do everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenTo {
    /// To anybody who can connect.
    Anybody,
    /// To holders of tokens of a role, or a higher one.
    Tokens(Least),
    /// To the same, if their token is for all sources: it tells of the whole daemon.
    AllSources(Least),
    /// To nobody: it is for those who are on the machine.
    Machine,
}

/// The lowest role that may do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Least {
    /// [`Role::Viewer`].
    Viewer,
    /// [`Role::User`].
    User,
    /// [`Role::Admin`].
    Admin,
}

impl std::fmt::Display for OpenTo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OpenTo::Anybody => f.write_str("anybody"),
            OpenTo::Tokens(least) => write!(f, "{least} tokens"),
            OpenTo::AllSources(least) => write!(f, "{least} tokens that are for all sources"),
            OpenTo::Machine => f.write_str("the machine: it is answered on the daemon's socket alone"),
        }
    }
}

impl std::fmt::Display for Least {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Least::Viewer => "viewer, user and admin",
            Least::User => "user and admin",
            Least::Admin => "admin",
        })
    }
}

impl Op {
    /// To whom it is open over TCP (H3).
    pub const fn open_to(self) -> OpenTo {
        match self {
            // Who signs in has shown nothing yet.
            Op::Health | Op::Ready | Op::Version | Op::OpenApi | Op::SignIn => OpenTo::Anybody,
            // Of an event each is told what it may see.
            Op::Session | Op::SignOut | Op::Events => OpenTo::Tokens(Least::Viewer),
            Op::Sources
            | Op::Source
            | Op::ScanSource
            | Op::Generations
            | Op::Timeline
            | Op::Branches
            | Op::Branch
            | Op::BranchTree
            | Op::Snapshots => OpenTo::Tokens(Least::Viewer),
            Op::CreateBranch
            | Op::DestroyBranch
            | Op::Query
            | Op::SchemaDiff
            | Op::BranchSessions
            | Op::CancelSession
            | Op::ExportBranch
            | Op::ResetBranch
            | Op::RenewBranch
            | Op::TakeSnapshot
            | Op::RemoveSnapshot
            | Op::RestoreBranch
            | Op::UndoBranch
            | Op::MergeBranch => OpenTo::Tokens(Least::User),
            // A protected branch outlives the longest lease. Evidence, verification and fingerprint read all of a source
            // with the daemon's rights there, and comparisons all of a branch or of generations, whatever the role of its holder may read.
            Op::ProtectBranch
            | Op::Evidence
            | Op::DataDiff
            | Op::GenerationDataDiff
            | Op::VerifySource
            | Op::FingerprintSource => OpenTo::Tokens(Least::Admin),
            // It decides what everybody's branches of a source begin with; nothing of it reaches a file or a server.
            Op::PromoteBranch => OpenTo::Tokens(Least::Admin),
            // What has a label takes room for good. Definitions are read of all of a source.
            Op::LabelGeneration | Op::GenerationDiff => OpenTo::Tokens(Least::Admin),
            // Figures name sources, and nothing else that is somebody's.
            Op::Metrics => OpenTo::AllSources(Least::Viewer),
            Op::Status | Op::VerifyAudit | Op::AuditLog | Op::Nodes | Op::Cluster | Op::NodeReport => {
                OpenTo::AllSources(Least::Admin)
            }
            // It ends nothing, and is taken back as easily.
            Op::DrainNode => OpenTo::AllSources(Least::Admin),
            // Imports read files, and reach servers, as the daemon; settings name what its servers run.
            Op::AddSource | Op::RemoveSource | Op::ChangeSettings | Op::RefreshSource => OpenTo::Machine,
            // What is attached is no source's.
            Op::Attachments => OpenTo::AllSources(Least::Viewer),
            // It names files that the daemon reads, and servers that it reaches, with its own rights.
            Op::AddAttachment | Op::RemoveAttachment => OpenTo::Machine,
            // Measurements name machines and commands.
            Op::LabRuns | Op::LabRun | Op::LabSeries | Op::LabComparison | Op::LabExperiments => {
                OpenTo::AllSources(Least::User)
            }
            // What stores and packs hold is data, as what branches hold is, and no source's.
            Op::StoreBranches
            | Op::StoreContents
            | Op::StoreEntries
            | Op::StoreEntry
            | Op::StoreHistory
            | Op::StoreDifference
            | Op::Pack
            | Op::AccessSearch
            | Op::Access
            | Op::AccessWhy => OpenTo::AllSources(Least::User),
            // Labels, inputs and results are data, read with the rights of the attachment's URL; what is done is done with these.
            Op::Functions
            | Op::FunctionInstances
            | Op::FunctionInstance
            | Op::FunctionQueues
            | Op::FunctionSchedules
            | Op::FunctionShards => OpenTo::AllSources(Least::User),
            Op::ControlFunction => OpenTo::AllSources(Least::Admin),
            // Who makes tokens, stops the daemon, or enters as an administrator, is on the machine.
            Op::Doors
            | Op::Tokens
            | Op::CreateToken
            | Op::RotateToken
            | Op::RestoreToken
            | Op::RevokeToken
            | Op::MakeConsoleLink => OpenTo::Machine,
            Op::AdministratorUrl
            | Op::MakePair
            | Op::Shutdown
            | Op::ForgetNode
            | Op::HandOver
            | Op::MeasureCold
            | Op::IdlePss => OpenTo::Machine,
        }
    }

    /// Whether it is about what something attached holds, which nobody masked.
    pub fn reads_attached(self) -> bool {
        self.endpoint().path.starts_with("/v1/attachments/{name}/")
    }

    /// Whether members of the group may do it on the daemon's socket.
    pub const fn is_for_members(self) -> bool {
        matches!(
            self,
            Op::Health
                | Op::Ready
                | Op::Version
                | Op::OpenApi
                | Op::SignIn
                | Op::Status
                | Op::Nodes
                | Op::Cluster
                | Op::NodeReport
                | Op::Metrics
                | Op::Sources
                | Op::Source
                | Op::ScanSource
                | Op::Generations
                | Op::Timeline
                | Op::Branches
                | Op::CreateBranch
                | Op::Branch
                | Op::DestroyBranch
                | Op::Query
                | Op::SchemaDiff
                | Op::BranchSessions
                | Op::CancelSession
                | Op::ResetBranch
                | Op::RenewBranch
                | Op::ProtectBranch
                | Op::BranchTree
                | Op::Snapshots
                | Op::TakeSnapshot
                | Op::RemoveSnapshot
                | Op::RestoreBranch
                | Op::UndoBranch
                | Op::MergeBranch
        )
    }
}

impl Role {
    /// What it is among those that a route may demand.
    #[must_use]
    pub const fn least(self) -> Least {
        match self {
            Role::Admin => Least::Admin,
            Role::User => Least::User,
            Role::Viewer => Least::Viewer,
        }
    }
}

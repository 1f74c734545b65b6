/** What the interface says, by short names. */

import type { components } from "./schema";

type Schemas = components["schemas"];
export type Attachment = Schemas["Attachment"];
export type AuditEntry = Schemas["AuditEntry"];
export type AuditVerification = Schemas["AuditVerification"];
export type BranchSession = Schemas["BranchSession"];
export type BranchEvidence = Schemas["BranchEvidence"];
export type BranchView = Schemas["BranchView"];
export type CreateBranch = Schemas["CreateBranch"];
export type DataDiff = Schemas["DataDiff"];
export type DiffCounts = Schemas["DiffCounts"];
export type DiffRow = Schemas["DiffRow"];
export type DiffSequence = Schemas["DiffSequence"];
export type DiffSummary = Schemas["DiffSummary"];
export type DiffTable = Schemas["DiffTable"];
export type GenerationView = Schemas["GenerationView"];
export type MergeBranch = Schemas["MergeBranch"];
export type MergeReport = Schemas["MergeReport"];
export type Progress = Schemas["Progress"];
export type QueryReply = Schemas["QueryReply"];
export type QueryRequest = Schemas["QueryRequest"];
export type SchemaDiff = Schemas["SchemaDiff"];
export type SessionView = Schemas["SessionView"];
export type SnapshotView = Schemas["SnapshotView"];
export type SourceFingerprint = Schemas["SourceFingerprint"];
export type SourceView = Schemas["SourceView"];
export type StatementReply = Schemas["StatementReply"];
export type Status = Schemas["Status"];
export type Token = Schemas["Token"];
export type TreeNode = Schemas["TreeNode"];

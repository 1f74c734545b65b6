// Writes the types of what the console sends and takes, out of the OpenAPI document on the standard input:
//   duramen openapi | node generate.js > src/api/schema.ts
import { text } from "node:stream/consumers";
import openapiTS, { astToString } from "openapi-typescript";

// With what these are made of, these are the types that are written.
const USED = [
  "AccessFound",
  "AccessPage",
  "AccessWhy",
  "Attachment",
  "AuditEntry",
  "AuditVerification",
  "BranchEvidence",
  "BranchSession",
  "BranchView",
  "ClusterView",
  "ControlFunction",
  "ControlledFunction",
  "CreateBranch",
  "DataDiff",
  "FunctionDetail",
  "FunctionInstance",
  "FunctionQueue",
  "FunctionSchedule",
  "FunctionShards",
  "FleetView",
  "FunctionsOverview",
  "GenerationView",
  "MergeBranch",
  "MergeReport",
  "LabComparison",
  "LabExperiments",
  "LabHistory",
  "LabReport",
  "LabRuns",
  "PackView",
  "Problem",
  "Progress",
  "ProtectBranch",
  "QueryReply",
  "QueryRequest",
  "RenewBranch",
  "RestoreBranch",
  "SchemaDiff",
  "SessionView",
  "SnapshotView",
  "SourceView",
  "Status",
  "StoreBranches",
  "StoreContents",
  "StoreDifference",
  "StoreEntries",
  "StoreEntry",
  "StoreHistory",
  "TakeSnapshot",
  "Token",
  "TreeNode",
  "Version",
];

const document = JSON.parse(await text(process.stdin));
const found = {};
for (const wanted = [...USED]; wanted.length > 0; ) {
  const name = wanted.pop();
  if (name in found) continue;
  found[name] = document.components.schemas[name];
  for (const [, below] of JSON.stringify(found[name]).matchAll(/"#\/components\/schemas\/(\w+)"/g)) wanted.push(below);
}
const schemas = Object.fromEntries(Object.entries(found).sort());
// What has a default may be left out of what is sent.
const tree = await openapiTS({ ...document, paths: {}, components: { schemas } }, { defaultNonNullable: false });
process.stdout.write("/** Written by generate.js out of the OpenAPI document: do not edit. */\n\n" + astToString(tree));

//! The tables of a version 1 database, with the names that tools of the ecosystem look for.

/// The tables, and the indexes that make the last of several rows with one id count.
pub(super) const TABLES: &str = "
CREATE TABLE v1_resource_types (
    id integer primary key,
    external_id text not null,
    data blob not null,
    sync_id text not null,
    discovered_at datetime not null
);
CREATE UNIQUE INDEX idx_resource_types_external_sync_v1 ON v1_resource_types (external_id, sync_id);
CREATE TABLE v1_resources (
    id integer primary key,
    resource_type_id text not null,
    external_id text not null,
    parent_resource_type_id text,
    parent_resource_id text,
    data blob not null,
    sync_id text not null,
    discovered_at datetime not null
);
CREATE UNIQUE INDEX idx_resources_external_sync_v1 ON v1_resources (external_id, sync_id);
CREATE TABLE v1_entitlements (
    id integer primary key,
    resource_type_id text not null,
    resource_id text not null,
    external_id text not null,
    data blob not null,
    sync_id text not null,
    discovered_at datetime not null
);
CREATE UNIQUE INDEX idx_entitlements_external_sync_v1 ON v1_entitlements (external_id, sync_id);
CREATE TABLE v1_grants (
    id integer primary key,
    resource_type_id text not null,
    resource_id text not null,
    entitlement_id text not null,
    principal_resource_type_id text not null,
    principal_resource_id text not null,
    external_id text not null,
    expansion blob,
    needs_expansion integer not null default 0,
    data blob not null,
    sync_id text not null,
    discovered_at datetime not null
);
CREATE UNIQUE INDEX idx_grants_external_sync_v1 ON v1_grants (external_id, sync_id);
CREATE TABLE v1_assets (
    id integer primary key,
    external_id text not null,
    content_type text not null,
    data blob not null,
    sync_id text not null,
    discovered_at datetime not null
);
CREATE UNIQUE INDEX idx_assets_external_sync_v1 ON v1_assets (external_id, sync_id);
CREATE TABLE v1_connector_sessions (
    id integer primary key,
    sync_id text not null,
    key text not null,
    value blob not null
);
CREATE TABLE v1_sync_runs (
    id integer primary key,
    sync_id text not null,
    started_at datetime not null,
    ended_at datetime,
    sync_token text not null,
    sync_type text not null default 'full',
    parent_sync_id text not null default '',
    linked_sync_id text not null default '',
    supports_diff integer not null default 0,
    grants_backfilled integer not null default 0,
    stats text,
    ingest_invariant_generation text not null default '',
    ingest_invariant_coverage text not null default '',
    ingest_invariant_mode text not null default ''
);
CREATE UNIQUE INDEX idx_sync_runs_sync_id_v1 ON v1_sync_runs (sync_id);
";

/// The indexes that only readers need: made when all rows are there.
pub(super) const INDEXES: &str = "
CREATE INDEX idx_resources_resource_type_id_v1 ON v1_resources (resource_type_id);
CREATE INDEX idx_resources_parent_resource_id_v1 ON v1_resources (parent_resource_type_id, parent_resource_id);
CREATE INDEX idx_entitlements_resource_id_v1 ON v1_entitlements (resource_type_id, resource_id);
CREATE INDEX idx_grants_resource_type_id_resource_id_v1 ON v1_grants (resource_type_id, resource_id);
CREATE INDEX idx_grants_principal_id_v1 ON v1_grants (principal_resource_type_id, principal_resource_id);
CREATE INDEX idx_grants_entitlement_id_principal_id_v1
    ON v1_grants (entitlement_id, principal_resource_type_id, principal_resource_id);
CREATE INDEX idx_grants_entitlement_sync_grant_v1 ON v1_grants (entitlement_id, sync_id, id);
CREATE INDEX idx_grants_sync_expansion_v1 ON v1_grants (sync_id) WHERE expansion IS NOT NULL;
CREATE INDEX idx_grants_sync_needs_expansion_v1 ON v1_grants (sync_id) WHERE needs_expansion = 1;
CREATE UNIQUE INDEX idx_session_store_sync_key_v1 ON v1_connector_sessions (sync_id, key);
";

pub(super) const PUT_RESOURCE_TYPE: &str = "
INSERT INTO v1_resource_types (external_id, data, sync_id, discovered_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (external_id, sync_id) DO UPDATE SET data = excluded.data, discovered_at = excluded.discovered_at";

/// Puts a resource, and removes one of the same text but of other parts, which is not touched by putting.
pub(super) const RESOURCE: (&str, &str) =
    (PUT_RESOURCE, "DELETE FROM v1_resources WHERE external_id = ?1 AND sync_id = ?2");

const PUT_RESOURCE: &str = "
INSERT INTO v1_resources (resource_type_id, external_id, parent_resource_type_id, parent_resource_id, data, sync_id,
    discovered_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (external_id, sync_id) DO UPDATE SET parent_resource_type_id = excluded.parent_resource_type_id,
    parent_resource_id = excluded.parent_resource_id, data = excluded.data, discovered_at = excluded.discovered_at
WHERE resource_type_id = excluded.resource_type_id";

/// Puts an entitlement, and removes one of the same id but of another resource, which is not touched by putting.
pub(super) const ENTITLEMENT: (&str, &str) =
    (PUT_ENTITLEMENT, "DELETE FROM v1_entitlements WHERE external_id = ?1 AND sync_id = ?2");

const PUT_ENTITLEMENT: &str = "
INSERT INTO v1_entitlements (resource_type_id, resource_id, external_id, data, sync_id, discovered_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (external_id, sync_id) DO UPDATE SET data = excluded.data, discovered_at = excluded.discovered_at
WHERE resource_type_id = excluded.resource_type_id AND resource_id = excluded.resource_id";

pub(super) const PUT_GRANT: &str = "
INSERT INTO v1_grants (resource_type_id, resource_id, entitlement_id, principal_resource_type_id, principal_resource_id,
    external_id, expansion, needs_expansion, data, sync_id, discovered_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (external_id, sync_id) DO UPDATE SET resource_type_id = excluded.resource_type_id,
    resource_id = excluded.resource_id, entitlement_id = excluded.entitlement_id,
    principal_resource_type_id = excluded.principal_resource_type_id,
    principal_resource_id = excluded.principal_resource_id, expansion = excluded.expansion,
    needs_expansion = excluded.needs_expansion, data = excluded.data, discovered_at = excluded.discovered_at";

pub(super) const PUT_ASSET: &str = "
INSERT INTO v1_assets (external_id, content_type, data, sync_id, discovered_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (external_id, sync_id) DO UPDATE SET content_type = excluded.content_type, data = excluded.data,
    discovered_at = excluded.discovered_at";

/** Written by generate.js out of the OpenAPI document: do not edit. */

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A resource, or an entitlement of one. */
        AccessEntity: {
            /** @description The entitlement, if it is one. */
            entitlement?: string | null;
            /**
             * Format: int64
             * @description How many entitlements the resource has.
             */
            entitlements: number;
            /** @description Whether the resource holds anything, as a person or a group does. */
            holds: boolean;
            /** @description What it is called; empty if nothing says it. */
            name: string;
            /** @description The resource. */
            resource: string;
            /** @description The type of the resource. */
            resource_type: string;
        };
        /** @description `GET /v1/attachments/{name}/access-search` */
        AccessFound: {
            /** @description Resources first, then entitlements. */
            entities: components["schemas"]["AccessEntity"][];
            /** @description Whether there are more than are told. */
            truncated: boolean;
        };
        /** @description That somebody holds an entitlement. */
        AccessGrant: {
            /** @description Whether it follows from other grants and is not in the file. */
            derived: boolean;
            /** @description Whether it is held by a grant of its own, and not only by way of others. */
            direct: boolean;
            /** @description The id of the entitlement. */
            entitlement: string;
            /** @description What it is called; empty if nothing says it. */
            entitlement_name: string;
            /** @description The id of the grant: its own, or the one that its edge makes. */
            grant: string;
            /** @description Who holds it. */
            principal: components["schemas"]["AccessResource"];
            /** @description The resource that it is about. */
            resource: components["schemas"]["AccessResource"];
            /** @description Entitlements that it follows from, but for itself; the first of them. */
            through: string[];
            /**
             * Format: int64
             * @description How many more of those there are.
             */
            through_more: number;
        };
        /** @description An access graph: one sync of a file. */
        AccessGraph: {
            /**
             * Format: int64
             * @description How many circles there are of entitlements that follow from each other.
             */
            circles: number;
            /**
             * Format: date-time
             * @description When it ended, if it did.
             */
            ended_at?: string | null;
            /**
             * Format: int64
             * @description Entitlements that have a row.
             */
            entitlements: number;
            /**
             * Format: int64
             * @description Grants in the sync, without those that follow from them.
             */
            grants: number;
            /** @description Its kind. */
            kind: string;
            /** @description What could not be expanded, and why. */
            left_out: string[];
            /**
             * Format: int64
             * @description Resources.
             */
            resources: number;
            /** @description The id of the sync that is shown: the latest full one that has ended. */
            sync: string;
            /**
             * Format: int64
             * @description How many syncs the file has.
             */
            syncs: number;
            /** @description Resources, by their types. */
            types: components["schemas"]["ResourceCount"][];
        };
        /** @description `GET /v1/attachments/{name}/access` */
        AccessPage: {
            /** @description Who holds what. */
            grants: components["schemas"]["AccessGrant"][];
            /** @description The cursor of the next page; none after the last. */
            next?: string | null;
        };
        /** @description How somebody comes to an entitlement. */
        AccessPath: {
            /** @description Whether that is a grant of the principal's own. Else it says that it follows from `sources`, while no other grant says how. */
            direct: boolean;
            /** @description The id of the grant that it begins with. */
            grant: string;
            /**
             * Format: int64
             * @description How many steps are left out before the last one.
             */
            left_out: number;
            /** @description The sources that the grant names, if it is none of its own; the first of them. */
            sources: string[];
            /** @description The entitlement that it begins with. */
            start: components["schemas"]["AccessPlace"];
            /** @description What follows, up to the entitlement that was asked for; none if that is what it begins with. */
            steps: components["schemas"]["AccessStep"][];
        };
        /** @description An entitlement on a path. */
        AccessPlace: {
            /** @description The id of the entitlement. */
            entitlement: string;
            /** @description What it is called; empty if nothing says it. */
            name: string;
            resource?: components["schemas"]["AccessResource"] | null;
        };
        /** @description A resource: a person, a group, an application. */
        AccessResource: {
            /** @description What it is called; empty if nothing says it. */
            name: string;
            /** @description Its id in that type. */
            resource: string;
            /** @description Its type. */
            resource_type: string;
        };
        /** @description One step: whoever holds what came before holds this too, because a grant says so. */
        AccessStep: {
            /** @description The resource that has the grant. */
            by: components["schemas"]["AccessResource"];
            /** @description The id of the grant that says so. */
            grant: string;
            /** @description The entitlement that follows. */
            place: components["schemas"]["AccessPlace"];
            /** @description Whether the grant means only those who hold what came before by a grant of their own. */
            shallow: boolean;
        };
        /** @description `GET /v1/attachments/{name}/access-why` */
        AccessWhy: {
            /**
             * Format: int64
             * @description How many there are; none: more than can be counted.
             */
            all?: number | null;
            /** @description Paths, the shortest first. */
            paths: components["schemas"]["AccessPath"][];
        };
        /** @description Something that is attached. */
        Attachment: {
            /** @description Where it is; a URL without its password. */
            at: string;
            /**
             * Format: date-time
             * @description Since when.
             */
            attached_at: string;
            /** @description What it is. */
            kind: components["schemas"]["AttachmentKind"];
            /** @description Its name. */
            name: string;
        };
        /**
         * @description What is attached.
         * @enum {string}
         */
        AttachmentKind: "functions" | "store" | "pack" | "lab";
        /** @description `GET /v1/audit`: an entry of the audit log. */
        AuditEntry: {
            /** @description All that the log says of it, with `event` and `at`, its time. */
            entry: Record<string, never>;
            /** @description What happened: `leased`, `destroyed` ... */
            event: string;
            /** @description Where it stands in the log. The entries before it are those of `before` this position. */
            position: string;
        };
        /** @description The result of checking the audit log. */
        AuditVerification: {
            /**
             * Format: int64
             * @description How many entries were checked.
             */
            entries: number;
            /** @description The hash of the last good entry. */
            head: string;
            /** @description Whether every entry follows from the one before it. */
            intact: boolean;
            /** @description Where and how the chain breaks. */
            problem?: string | null;
        };
        /**
         * @description What of branches is in the audit log.
         * @enum {string}
         */
        Audited: "sessions" | "statements";
        /** @description `GET /v1/branches/{name}/evidence` */
        BranchEvidence: {
            /** @description The branch. */
            branch: components["schemas"]["BranchView"];
            diff?: components["schemas"]["DiffEvidence"] | null;
            /** @description The branch's events out of the audit log. */
            events: unknown[];
            /** @description The snapshot's digest when it was imported. */
            snapshot_digest: string;
            /** @description The snapshot's digest now. */
            snapshot_digest_now: string;
            /** @description The two compared. */
            source: components["schemas"]["SourceComparison"];
            /** @description The live source when it was imported. */
            source_at_import: components["schemas"]["SourceFingerprint"];
            /** @description The live source now. */
            source_now: components["schemas"]["SourceFingerprint"];
            table?: components["schemas"]["WatchedTable"] | null;
        };
        /** @description `GET /v1/branches/{name}/sessions`: a session in a branch's server. */
        BranchSession: {
            /** @description Where the client is, if it came over a network. Those that come by the router or the daemon have none. */
            address?: string | null;
            /** @description What the client calls itself. */
            application?: string | null;
            /**
             * Format: date-time
             * @description When it began.
             */
            began_at: string;
            /** @description The database that it is in. */
            database: string;
            /**
             * Format: int32
             * @description Its process, by which it is named.
             */
            process: number;
            /** @description The role as which it runs. */
            role: string;
            /**
             * Format: date-time
             * @description Since when it is in its state.
             */
            since?: string | null;
            /** @description `active`, `idle`, `idle in transaction` ... */
            state?: string | null;
            /** @description The statement that runs, or the last one, cut at 1,000 characters. */
            statement?: string | null;
            /** @description What it waits for, if it does: `Lock: relation`, `Timeout: PgSleep` ... */
            waits_for?: string | null;
        };
        /** @description A leased branch. It never holds the source's address. */
        BranchView: {
            /**
             * Format: date-time
             * @description When it was leased.
             */
            created_at: string;
            /** @description What data it holds: `full`, or `masked` if rules of its source were applied to it. */
            data: string;
            disk?: components["schemas"]["DiskUse"] | null;
            /** @description Whether its commits are flushed (`fsync=on`). */
            durable: boolean;
            /** @description Whether this create found the branch there already. */
            existing?: boolean;
            /**
             * Format: date-time
             * @description When the lease ends.
             */
            expires_at: string;
            /**
             * Format: int32
             * @description The generation of the source that it was cloned from.
             */
            generation: number;
            /** @description The id of the token by which it was created; absent if it was created on the daemon's own socket. */
            holder?: string | null;
            /** @description Its unique id, which outlives the name in evidence and audit log. */
            id: string;
            /** @description The branch's name. */
            name: string;
            /** @description The node of the fleet that it is on; only in lists of a daemon that is in one. */
            node?: string | null;
            parent?: components["schemas"]["Parent"] | null;
            /** @description What its holder may do. */
            policy: components["schemas"]["Policy"];
            /** @description Why its server does not run, if that is so. */
            problem?: string | null;
            /** @description Whether it refuses to be destroyed, and does not expire. */
            protected: boolean;
            /** @description Its source. */
            source: string;
            /** @description `ready`; `asleep` when its server is stopped until somebody comes; or `failed` when it could not be brought back. */
            state: string;
            /** @description A connection URL for any PostgreSQL driver on this machine. */
            url: string;
        };
        /** @description The reply to `GET /v1/cluster`. */
        ClusterView: {
            /** @description How etcd is. */
            etcd: components["schemas"]["EtcdView"];
            /** @description What each node that is registered said when it was asked, or that it did not answer; by name. */
            nodes: components["schemas"]["NodeAnswer"][];
            /**
             * Format: int32
             * @description How many there are.
             */
            orphan_count?: number;
            /** @description Names of nodes that the fleet does not have, at most 100. */
            orphans?: string[];
            restore?: components["schemas"]["RestoreView"] | null;
            /** @description The fleet as the node that was asked sees it. */
            view: components["schemas"]["FleetView"];
        };
        /** @description The content of one table or file. */
        ContentHash: {
            /**
             * Format: int64
             * @description Rows of a table, bytes of a file.
             */
            count: number;
            /** @description Its hash, independent of the rows' order. */
            hash: string;
        };
        /** @description `POST /v1/attachments/{name}/instance/control` */
        ControlFunction: {
            /** @description What to do. */
            action: components["schemas"]["FunctionAction"];
            /** @description Of `signal`: what goes with it, JSON or text. `{}` unless it is said. */
            data?: string | null;
            /**
             * @description Of `fork`: the step that is done again, and what follows it: a node's id, or the name of a result. Where the
             *     instance failed, unless it is said.
             */
            from?: string | null;
            /** @description The instance. */
            id: string;
            /** @description Of `fork`: the label of the new instance. That of the first, unless it is said. */
            label?: string | null;
            /** @description Of `cancel`: why. The instance keeps it. */
            reason?: string | null;
            /** @description Of `signal`, which needs it: the name of the signal. */
            signal?: string | null;
        };
        /** @description What was done with an instance. */
        ControlledFunction: {
            /** @description The instance that a fork has made. */
            fork?: string | null;
            /** @description The instance. */
            id: string;
            /** @description What was done, in words. */
            message: string;
            /** @description How the instance stood before a cancellation: one that had ended stays as it is. */
            status_before?: string | null;
        };
        /** @description `POST /v1/branches` */
        CreateBranch: {
            /**
             * Format: date-time
             * @description The moment, by the clock of the source's origin, as of which it is made: it has what the origin had committed by then. Of a
             *     source that keeps history.
             * @default null
             */
            at?: string | null;
            /**
             * Format: date-time
             * @description The moment at which the lease ends, instead of `ttl_s`.
             * @default null
             */
            expires_at?: string | null;
            /**
             * @description Another branch of which this one is made, as it is now, or `BRANCH@SNAPSHOT`: as it was then. Source and policy are then
             *     those of that branch.
             * @default null
             */
            from?: string | null;
            /**
             * @description The generation of the source of which it is made, by its number or a label, instead of the current one. If no branch of it
             *     is ready, one is started for this.
             * @default null
             */
            generation?: string | null;
            /**
             * @description The position in the origin's write-ahead log as of which it is made, as `pg_current_wal_lsn()` writes it, instead of `at`: it has
             *     what was committed before it.
             * @default null
             */
            lsn?: string | null;
            /**
             * @description The branch's name; a second create with the same name returns the same branch. `None`: one is made up.
             * @default null
             */
            name?: string | null;
            /** @default null */
            policy?: components["schemas"]["Policy"] | null;
            /**
             * @description Whether the server of `from` is stopped for it and started again: its sessions end, and unlogged tables keep their rows.
             * @default false
             */
            quiesce?: boolean;
            /**
             * @description Whether it is refused unless the source is as it was imported: its snapshot by its files' digest, and the live source by its
             *     contents. All of both is read for it. Only on the daemon's own socket.
             * @default false
             */
            require_clean_source?: boolean;
            /**
             * @description The source. May be left out when there is only one.
             * @default null
             */
            source?: string | null;
            /**
             * Format: int64
             * @description Seconds until the lease ends. `None`: an hour.
             * @default null
             */
            ttl_s?: number | null;
            /**
             * Format: int64
             * @description How long to wait in the queue for a branch. `None`: 30 seconds. 0: refuse at once when none is ready.
             * @default null
             */
            wait_ms?: number | null;
        };
        /**
         * @description A line of the reply. A table's rows and its ending follow it. The last line is the summary, or says why the comparison
         *     failed.
         */
        DataDiff: {
            /** @description A table that differs. */
            table: components["schemas"]["DiffTable"];
        } | {
            /** @description A row of the last table that differs. */
            row: components["schemas"]["DiffRow"];
        } | {
            /** @description How many rows of the last table differ. */
            ending: components["schemas"]["DiffCounts"];
        } | {
            /** @description A sequence that differs. */
            sequence: components["schemas"]["DiffSequence"];
        } | {
            /** @description The end of all. */
            summary: components["schemas"]["DiffSummary"];
        } | {
            /** @description The comparison failed. What was told until then holds. */
            failed: components["schemas"]["ErrorBody"];
        };
        /** @description A column that is compared. */
        DiffColumn: {
            /** @description Whether it is `GENERATED ALWAYS AS IDENTITY`. */
            is_always_generated: boolean;
            /** @description Its name. */
            name: string;
            /** @description Its type in the branch. */
            type_name: string;
        };
        /** @description What of a table was read on both sides. */
        DiffCompared: {
            /** @description Its blocks that differ. */
            blocks: {
                /**
                 * Format: int64
                 * @description How many.
                 */
                changed: number;
                /**
                 * Format: int64
                 * @description Out of how many.
                 */
                of: number;
            };
        } | {
            /** @description All of it. */
            full: {
                /** @description Why. */
                why: string;
            };
        };
        /** @description How many rows differ. */
        DiffCounts: {
            /**
             * Format: int64
             * @description Rows that the branch alone has.
             */
            added: number;
            /**
             * Format: int64
             * @description Rows with the same key and other values.
             */
            changed: number;
            /**
             * Format: int64
             * @description Those of all these that were told.
             */
            listed: number;
            /**
             * Format: int64
             * @description Rows that the snapshot alone has.
             */
            removed: number;
        };
        /** @description What a branch changed: the statements that make what it was made of define what it defines, and its rows and sequences, in one digest. */
        DiffEvidence: {
            /** @description The digest. A change set of the same changes names the same one. */
            digest: string;
            /** @description Rows; the digest covers those that are listed. */
            rows: components["schemas"]["DiffCounts"];
            /**
             * Format: int64
             * @description Sequences.
             */
            sequences: number;
            /**
             * Format: int64
             * @description Statements.
             */
            statements: number;
        };
        /** @description A column that is not compared. */
        DiffLeftOut: {
            /** @description Its name. */
            name: string;
            only_in?: components["schemas"]["DiffSide"] | null;
            /** @description Why. */
            why: string;
        };
        /** @description A row that differs. Values are as the server writes them as text; `null` is NULL. */
        DiffRow: {
            /** @description In the branch; null for one that was removed. */
            new?: (string | null)[] | null;
            /** @description In the snapshot; null for one that was added. */
            old?: (string | null)[] | null;
        };
        /** @description A sequence that differs. */
        DiffSequence: {
            /** @description Its name. */
            name: string;
            new?: components["schemas"]["DiffSequenceState"] | null;
            old?: components["schemas"]["DiffSequenceState"] | null;
            /** @description Its schema. */
            schema: string;
        };
        /** @description Where a sequence stands. */
        DiffSequenceState: {
            /** @description Whether it was given out. */
            is_called: boolean;
            /**
             * Format: int64
             * @description The last value.
             */
            last_value: number;
        };
        /**
         * @description The side that alone has something.
         * @enum {string}
         */
        DiffSide: "branch" | "snapshot";
        /** @description All that differs, counted. */
        DiffSummary: {
            /**
             * Format: int64
             * @description Tables with rows that differ.
             */
            differing: number;
            /** @description Their rows. */
            rows: components["schemas"]["DiffCounts"];
            /**
             * Format: int64
             * @description Sequences that differ.
             */
            sequences: number;
            /**
             * Format: int64
             * @description Tables that were compared.
             */
            tables: number;
        };
        /** @description A table that differs. */
        DiffTable: {
            /** @description The columns that both have, in the order of the values of rows. */
            columns: components["schemas"]["DiffColumn"][];
            /** @description What was read. */
            compared: components["schemas"]["DiffCompared"];
            /** @description Places in `columns` of those that identify a row; empty if whole rows are compared. */
            key: number[];
            /** @description The columns that are not compared. */
            left_out: components["schemas"]["DiffLeftOut"][];
            /** @description Its name. */
            name: string;
            only_in?: components["schemas"]["DiffSide"] | null;
            /** @description Its schema. */
            schema: string;
        };
        /** @description What a branch has written. */
        DiskUse: {
            /**
             * Format: int64
             * @description Bytes that it may write.
             */
            quota: number;
            /**
             * Format: int64
             * @description Bytes that it wrote and still holds. What it shares with its snapshot is not among them.
             */
            used: number;
        };
        /**
         * @description A kind of data in a store.
         * @enum {string}
         */
        EntryKind: "kv" | "state" | "events" | "json" | "vectors" | "blobs" | "indexes";
        /** @description The body of every refusal. */
        ErrorBody: {
            /** @description A stable word for programs: `not_found`, `name_clash`, `no_branch_ready`, `sql_error`, ... */
            code: string;
            /** @description What happened, where, and what to do next. */
            message: string;
            /**
             * Format: int32
             * @description Where in the statement it is, counted in characters from 1; of several statements, in the one that failed.
             */
            position?: number | null;
            /** @description The SQLSTATE of an `sql_error`. */
            sqlstate?: string | null;
        };
        /** @description A member of etcd. */
        EtcdMember: {
            /** @description Where it is asked; absent if the daemon's `--fleet` does not have it. */
            address?: string | null;
            /** @description What it complains of: alarms. */
            errors?: string[];
            /** @description Whether it knows of a leader. */
            is_led?: boolean;
            /** @description Whether it leads. */
            leads?: boolean;
            /** @description Whether it only learns, and does not vote. */
            learns?: boolean;
            /** @description Its name. */
            name?: string | null;
            /** @description Why it did not answer. */
            problem?: string | null;
            /**
             * Format: int64
             * @description How large it may become, in bytes, if the member says so.
             */
            quota?: number | null;
            /**
             * Format: int64
             * @description The size of its database, in bytes.
             */
            size?: number | null;
            /**
             * Format: int64
             * @description How much of it is in use, in bytes.
             */
            used?: number | null;
            /** @description Its version. This and what follows is absent if it did not answer. */
            version?: string | null;
        };
        /** @description How etcd is. */
        EtcdView: {
            /** @description Its members, each asked by itself. */
            members: components["schemas"]["EtcdMember"][];
            /**
             * Format: int32
             * @description How many are there, and know of a leader.
             */
            present: number;
            /** @description Why it did not come. */
            problem?: string | null;
            /**
             * Format: int32
             * @description How many of these must be there for anything to be agreed on.
             */
            quorum: number;
            /**
             * Format: int64
             * @description How long one read took that a quorum confirmed, in milliseconds; absent if it did not come.
             */
            read_ms?: number | null;
            /**
             * Format: int32
             * @description How many of them vote; 0 if none of them said so.
             */
            voting: number;
        };
        /**
         * @description What is made up.
         * @enum {string}
         */
        Fake: "name" | "first_name" | "last_name" | "company" | "address" | "street" | "city" | "zip" | "country";
        /** @description A source on one node of a fleet. */
        FleetCopy: {
            /**
             * Format: int64
             * @description Bytes of the current one that have come, while it comes.
             */
            done?: number | null;
            /**
             * Format: int32
             * @description The generation that it has.
             */
            generation?: number | null;
            /** @description The node. */
            node: string;
            /** @description Why it does not come, if it does not. */
            problem?: string | null;
            /**
             * @description `held`: it has the current generation; `behind`: an earlier one, which serves until the current one has come; `wanted`: none
             *     yet; `extra`: it has the source and no place for it; `other`: it has another source of that name, which serves nothing;
             *     `unreachable` and `lost`: as the node is.
             */
            state: string;
        };
        /** @description A node of a fleet. */
        FleetNode: {
            /** @description Where other nodes reach it. This and what follows is absent while it is not registered. */
            address?: string | null;
            /**
             * Format: int64
             * @description Room on its disk for branches, in bytes.
             */
            disk_free?: number | null;
            /**
             * Format: date-time
             * @description Since when it takes no new branches, if it takes none.
             */
            drains_since?: string | null;
            /**
             * Format: int64
             * @description For how many seconds it has been seen without a registration, if it has none.
             */
            gone_for_s?: number | null;
            /**
             * Format: int32
             * @description Branches that are ready, of all its sources.
             */
            hot?: number | null;
            /**
             * Format: int64
             * @description For how many seconds they are still kept for it, if it is unreachable.
             */
            kept_for_s?: number | null;
            /**
             * Format: int32
             * @description Leases that it holds.
             */
            leases?: number | null;
            /**
             * Format: int64
             * @description Memory that is free, in bytes.
             */
            memory_free?: number | null;
            /** @description Its name. */
            name: string;
            /**
             * Format: int32
             * @description How many names it has.
             */
            names: number;
            /**
             * Format: date-time
             * @description When it was registered last, by its own clock.
             */
            registered_at?: string | null;
            /** @description Its sources, by name. */
            sources?: string[];
            /** @description `ready`; `draining`: it takes no new branches; `unreachable`: its names are kept for it; `lost`: they are there for others. */
            state: string;
            /** @description Its version. */
            version?: string | null;
        };
        /** @description A source of a fleet, and where it is. */
        FleetSource: {
            /**
             * Format: int64
             * @description Their bytes.
             */
            bytes?: number | null;
            /** @description The nodes that have it, or are to have it. */
            copies: components["schemas"]["FleetCopy"][];
            /** @description The digest of its files. */
            digest?: string | null;
            /**
             * Format: int32
             * @description The current generation; absent while the first is being made.
             */
            generation?: number | null;
            /** @description Which source it is: another one of the same name has another. */
            id: string;
            /** @description The node that makes its generations, on which it is refreshed, changed and removed. */
            keeper: string;
            /** @description Its name. */
            name: string;
            /** @description The kind of its origin. */
            origin: string;
            /** @description Why it is on fewer nodes than it is to be, if it is. */
            problem?: string | null;
            /**
             * Format: int32
             * @description On how many nodes it is to be.
             */
            replicas: number;
        };
        /** @description The reply to `GET /v1/nodes`. */
        FleetView: {
            /**
             * Format: int64
             * @description How old what it says of others may be, in milliseconds; absent before it has heard of etcd.
             */
            age_ms?: number | null;
            /** @description The fleet's name. */
            fleet: string;
            /** @description The node that answers. */
            node: string;
            /** @description All nodes, by name. */
            nodes: components["schemas"]["FleetNode"][];
            /** @description Why it does not, if it does not. */
            problem?: string | null;
            /** @description The sources of the fleet, by name. */
            sources?: components["schemas"]["FleetSource"][];
            /** @description Whether that one gives names: `member`, `joining`, or `refused` when its name is another home's. */
            standing: string;
            /**
             * Format: int32
             * @description Names of branches that have ended which etcd has not heard of yet.
             */
            to_free?: number;
            /**
             * Format: int64
             * @description How often this daemon had etcd write to names: twice a lease.
             */
            writes?: number;
        };
        /** @description Whether and how a source follows its origin. */
        FollowSettings: {
            /**
             * @description A directory of the daemon's machine into which the origin's `archive_command` puts its write-ahead log, by its absolute path: the
             *     standby replays what comes there, and is connected to nothing. `None`: it streams from the origin.
             * @default null
             */
            archive?: string | null;
            /**
             * @description Whether a standby of ours replays what the origin writes, so that the next generation needs no copy of it.
             * @default false
             */
            enabled?: boolean;
            /**
             * Format: int32
             * @description Seconds after which the next generation is made without being asked for. `None`: only by a refresh.
             * @default null
             */
            every_s?: number | null;
            /**
             * Format: int64
             * @description How many bytes of the write-ahead log are kept for that at most; the earliest go first. `None`:
             *     [`FollowSettings::HISTORY_BYTES`].
             * @default null
             */
            history_bytes?: number | null;
            /**
             * Format: int32
             * @description For how many seconds, back from the newest moment that is kept, branches can be made of any moment. `None`: history is
             *     not kept.
             * @default null
             */
            keep_history_s?: number | null;
            /**
             * Format: int64
             * @description How many bytes the standby may lack before it is given up, so that the origin does not keep them for it. `None`:
             *     [`FollowSettings::KEEP_WAL`].
             * @default null
             */
            keep_wal?: number | null;
            /**
             * @description Whether a server of ours subscribes to what the origin publishes, by a publication and a replication slot that are made there:
             *     for sources that are dumped (`--logical`), which nobody can stream from.
             * @default false
             */
            logical?: boolean;
            /**
             * @description A publication of the origin's own that is subscribed to. `None`: one is made there.
             * @default null
             */
            publication?: string | null;
        };
        /** @description How a source follows its origin. */
        FollowView: {
            /** @description What the origin should be set to otherwise. */
            advice?: string | null;
            /** @description The directory that the origin archives its log to, if the standby replays that. */
            archive?: string | null;
            /** @description The segment of the archive that is awaited next. */
            awaits?: string | null;
            /**
             * Format: int32
             * @description Seconds after which the next generation is made without being asked for.
             */
            every_s?: number | null;
            history?: components["schemas"]["HistoryView"] | null;
            /**
             * Format: int64
             * @description Bytes of its log that the origin keeps for the slot.
             */
            kept_bytes?: number | null;
            /**
             * Format: int64
             * @description Bytes that the origin has written and the standby lacks; or, of an archive, that this has and the standby has not replayed.
             */
            lag_bytes?: number | null;
            /**
             * Format: int64
             * @description For how many seconds the standby has lacked something: 0 if it lacks nothing.
             */
            lag_s?: number | null;
            /**
             * Format: date-time
             * @description When that was seen.
             */
            looked_at?: string | null;
            /** @description What is wrong, if something is. */
            problem?: string | null;
            /** @description The publication that is subscribed to. */
            publication?: string | null;
            /**
             * Format: date-time
             * @description When the last commit before that was, by the origin's clock.
             */
            replayed_at?: string | null;
            /** @description The position up to which the standby is known to have replayed, of an archive. */
            replayed_to?: string | null;
            /** @description The replication slot that was made at the origin, by logical replication. */
            slot?: string | null;
            /**
             * @description `streaming`; `replaying` what an archive has; `waiting` when the standby is not connected to the origin, or the archive cannot be used;
             *     `starting` before it was first checked; `stopped` until the next refresh, because it lacked more than `keep_wal`.
             */
            state: string;
        };
        /**
         * @description What can be done with an instance.
         * @enum {string}
         */
        FunctionAction: "cancel" | "signal" | "pause" | "resume" | "fork" | "delete";
        /** @description A step that waits or runs outside of turns. */
        FunctionActivity: {
            /**
             * Format: int32
             * @description How often it was begun.
             */
            attempt: number;
            /**
             * Format: int32
             * @description How often a task is begun at most.
             */
            attempts_max?: number | null;
            /** @description The activation. */
            cell: string;
            /** @description `sql`, `bare` (a statement that refuses transactions), `http` or `task`. */
            kind: string;
            /**
             * Format: date-time
             * @description Until when nobody else may claim a task.
             */
            leased_until?: string | null;
            /** @description The name of a task. */
            name?: string | null;
            /**
             * Format: date-time
             * @description Since when it waits.
             */
            queued_at: string;
            /**
             * Format: date-time
             * @description Since when a worker runs it.
             */
            taken_at?: string | null;
            /** @description Who runs it. */
            worker?: string | null;
        };
        /** @description Where an instance is that goes on. */
        FunctionAt: {
            /**
             * Format: int32
             * @description Which attempt it is, of a retry that waits for its next one.
             */
            attempt?: number | null;
            /**
             * Format: date-time
             * @description When its timer fires.
             */
            due_at?: string | null;
            /** @description The name of its result. */
            name?: string | null;
            /** @description The type of the node: `SQL`, `SLEEP`, `SIGNAL` and so on. */
            node_type: string;
            /** @description Its text, or its settings as JSON: the first 300 bytes. */
            query?: string | null;
            /**
             * Format: date-time
             * @description Since when.
             */
            since?: string | null;
        };
        /** @description An instance that another one has started. */
        FunctionChild: {
            /** @description The activation that has started it. */
            cell?: string | null;
            /**
             * Format: date-time
             * @description When it was started.
             */
            created_at: string;
            /** @description Its id. */
            id: string;
            /** @description Its label. */
            label?: string | null;
            /** @description How it stands. */
            status?: string | null;
        };
        /** @description How many there are, as far as is counted. */
        FunctionCount: {
            /**
             * Format: int64
             * @description So many.
             */
            count: number;
            /** @description There are more, and they were not counted. */
            more: boolean;
        };
        /** @description Instances by status. */
        FunctionCounts: {
            /** @description They were ended from outside. */
            cancelled: components["schemas"]["FunctionCount"];
            /** @description They have a result. */
            completed: components["schemas"]["FunctionCount"];
            /** @description A step failed. */
            failed: components["schemas"]["FunctionCount"];
            /** @description No worker has begun them. */
            pending: components["schemas"]["FunctionCount"];
            /** @description They have begun. */
            running: components["schemas"]["FunctionCount"];
        };
        /** @description `GET /v1/attachments/{name}/instance` */
        FunctionDetail: {
            /** @description Steps that wait or run outside of turns, and tasks. At most 200, as the lists below. */
            activities: components["schemas"]["FunctionActivity"][];
            /**
             * Format: date-time
             * @description When this was so, by the server's clock.
             */
            at: string;
            /**
             * Format: date-time
             * @description When a worker began it.
             */
            begun_at?: string | null;
            /**
             * Format: date-time
             * @description When it last changed.
             */
            changed_at: string;
            /** @description The instances that it has started, the earliest first, as far as they were looked for: at most 200. */
            children: components["schemas"]["FunctionChild"][];
            /**
             * Format: date-time
             * @description When it was started.
             */
            created_at: string;
            /** @description Where its steps run. */
            database: string;
            /**
             * Format: date-time
             * @description Until when its queue does not let it in.
             */
            delayed_until?: string | null;
            /**
             * Format: date-time
             * @description When its next timer fires.
             */
            due_at?: string | null;
            /** @description How they hang together: a tree. */
            edges: components["schemas"]["FunctionEdge"][];
            /**
             * Format: date-time
             * @description When it ended.
             */
            ended_at?: string | null;
            /** @description What it has told whoever asks. */
            events: components["schemas"]["FunctionEvent"][];
            /**
             * Format: int64
             * @description Which round of its root loop it is in, from 1.
             */
            execution: number;
            /** @description Rounds of its root loop, the newest first. */
            executions: components["schemas"]["FunctionExecution"][];
            /** @description Its id. */
            id: string;
            input?: components["schemas"]["FunctionValue"] | null;
            /** @description Its label. */
            label?: string | null;
            /** @description Its nodes, in the order of the graph: the root is the first. At most 10,000. */
            nodes: components["schemas"]["FunctionNode"][];
            /** @description The instance that has started it. */
            parent?: string | null;
            /** @description It begins no further step until it is resumed. */
            paused: boolean;
            /** @description Why its graph cannot be shown. */
            problem?: string | null;
            /** @description The queue that it came through, or waits in. */
            queue?: string | null;
            reason?: components["schemas"]["FunctionValue"] | null;
            result?: components["schemas"]["FunctionValue"] | null;
            /** @description Who started it. */
            role: string;
            /** @description Signals that no wait has taken. */
            signals: components["schemas"]["FunctionSignal"][];
            /** @description `pending`, `running`, `completed`, `failed` or `cancelled`. */
            status: string;
            /** @description Activations of nodes, in the order in which they began. At most 20,000. */
            steps: components["schemas"]["FunctionStep"][];
            variables?: components["schemas"]["FunctionValue"] | null;
        };
        /** @description That one node stands below another. Nodes are told by their places in the list, from 0. */
        FunctionEdge: {
            /** @description The node above. */
            from: number;
            /** @description Which child it is. */
            slot: components["schemas"]["FunctionSlot"];
            /** @description The node below. */
            to: number;
        };
        /** @description What an instance has told. */
        FunctionEvent: {
            /** @description Under which key. */
            key: string;
            /**
             * Format: date-time
             * @description When.
             */
            set_at: string;
            value?: components["schemas"]["FunctionValue"] | null;
        };
        /** @description A round of an instance's root loop; of one without a loop, all of it. */
        FunctionExecution: {
            /**
             * Format: int64
             * @description How long it took, or has taken until now, in milliseconds.
             */
            duration_ms?: number | null;
            /**
             * Format: int64
             * @description How many activations began or ended in it.
             */
            events: number;
            /**
             * Format: int64
             * @description Its number, from 1.
             */
            execution: number;
            output?: components["schemas"]["FunctionValue"] | null;
            /** @description `Completed`, `Failed`, `Cancelled`, `ContinuedAsNew`, `Running` or `Pending`. */
            status: string;
        };
        /** @description An instance as a list shows it. */
        FunctionInstance: {
            at?: components["schemas"]["FunctionAt"] | null;
            /**
             * Format: date-time
             * @description When a worker began it.
             */
            begun_at?: string | null;
            /**
             * Format: date-time
             * @description When it was started.
             */
            created_at: string;
            /**
             * Format: date-time
             * @description Until when its queue does not let it in.
             */
            delayed_until?: string | null;
            /**
             * Format: date-time
             * @description When it ended.
             */
            ended_at?: string | null;
            /**
             * Format: int64
             * @description Which round of its root loop it is in, from 1.
             */
            execution: number;
            /** @description Its id. */
            id: string;
            /** @description Another instance has started it. */
            is_child: boolean;
            /** @description Its label. */
            label?: string | null;
            /** @description It begins no further step until it is resumed. */
            paused: boolean;
            /** @description The queue that it came through, or waits in. */
            queue?: string | null;
            /** @description Why it failed or was cancelled: the first 300 bytes. */
            reason?: string | null;
            /** @description Who started it. */
            role?: string | null;
            /** @description `pending`, `running`, `completed`, `failed` or `cancelled`. */
            status: string;
        };
        /** @description A node of an instance's graph. */
        FunctionNode: {
            /** @description Its id. */
            id: string;
            /** @description The node that decided it. */
            inferred_from?: string | null;
            /** @description What the status is taken for in view of the nodes above it: `skipped` too. */
            inferred_status: string;
            /** @description The name of its result. */
            name?: string | null;
            /** @description Its type: `SQL`, `THEN`, `SIGNAL` and so on. */
            node_type: string;
            query?: components["schemas"]["FunctionValue"] | null;
            result?: components["schemas"]["FunctionValue"] | null;
            /** @description `pending`, `running`, `completed` or `failed`: how it last stood. */
            status: string;
            /**
             * Format: date-time
             * @description When it last changed.
             */
            updated_at: string;
        };
        /** @description A queue of durable functions. */
        FunctionQueue: {
            /**
             * Format: int64
             * @description How many were let in within the time of the rate; absent without a rate.
             */
            admitted?: number | null;
            /**
             * Format: int32
             * @description How many of its instances may go on at once.
             */
            concurrency?: number | null;
            /**
             * Format: int64
             * @description How many wait for their time.
             */
            delayed: number;
            /** @description Its name. */
            name: string;
            /**
             * Format: double
             * @description For how long the oldest has waited to be let in, in seconds.
             */
            oldest_s?: number | null;
            /** @description The key of the input that says to which partition an instance belongs. */
            partition_by?: string | null;
            /**
             * Format: int32
             * @description How many of one partition may go on at once.
             */
            partition_concurrency?: number | null;
            /**
             * Format: double
             * @description The time that the rate is for, in seconds.
             */
            per_s?: number | null;
            /**
             * Format: int32
             * @description How many may begin within `per_s`.
             */
            rate?: number | null;
            /** @description Whose it is. */
            role: string;
            /**
             * Format: int64
             * @description How many were let in and have not ended.
             */
            running: number;
            /** @description `open`, `paused` or `draining`. */
            state: string;
            /**
             * Format: int64
             * @description How many wait to be let in.
             */
            waiting: number;
            /**
             * Format: int32
             * @description How many of their long steps one worker may run at once.
             */
            worker_concurrency?: number | null;
        };
        /** @description What is started at which times. */
        FunctionSchedule: {
            /** @description The times, in five fields. */
            cron?: string | null;
            /**
             * Format: double
             * @description Or an interval, in seconds.
             */
            every_s?: number | null;
            /**
             * Format: date-time
             * @description The last time that it started one.
             */
            last_at?: string | null;
            /** @description The instance that it started last. */
            last_id?: string | null;
            /** @description How that one stands. */
            last_status?: string | null;
            /** @description Its name. */
            name: string;
            /** @description The next times, the first with its jitter and those behind it without. At most five. */
            next: string[];
            /** @description What happens when the instance before still goes on: `skip`, `allow`, `buffer` or `cancel`. */
            overlap: string;
            /** @description It starts nothing. */
            paused: boolean;
            /** @description The queue in which its instances wait. */
            queue?: string | null;
            /** @description Whose it is. */
            role: string;
            /**
             * Format: int64
             * @description How many times it has skipped.
             */
            skipped: number;
            /**
             * Format: int64
             * @description How many it has started.
             */
            started: number;
            /** @description The time zone of `cron`. */
            time_zone: string;
        };
        /** @description One of several databases that run functions together. */
        FunctionShard: {
            has?: components["schemas"]["FunctionShardCounts"] | null;
            /** @description Where it is, without role and password. */
            place: string;
            /** @description Why it does not. */
            problem?: string | null;
            /**
             * Format: int32
             * @description Its number.
             */
            shard: number;
            /** @description `open`: it takes new instances; `draining`: it takes none. */
            state: string;
        };
        /** @description What a shard has. */
        FunctionShardCounts: {
            /**
             * Format: double
             * @description For how long the oldest that is pending has waited, in seconds.
             */
            oldest_s?: number | null;
            /**
             * Format: int64
             * @description Instances that have not begun.
             */
            pending: number;
            /**
             * Format: int64
             * @description Instances that have begun, and not ended.
             */
            running: number;
            /** @description Whether a commit is on a standby before it is acknowledged; absent where the role may not see that. */
            synchronous?: boolean | null;
            /**
             * Format: int64
             * @description The version of the list that it knows.
             */
            version: number;
            /**
             * Format: int64
             * @description Workers that have been heard of within 20 seconds.
             */
            workers: number;
        };
        /** @description `GET /v1/attachments/{name}/shards`: the databases that run functions together with this one, each asked by itself. */
        FunctionShards: {
            /**
             * Format: int32
             * @description Which of the shards it is.
             */
            here?: number | null;
            /** @description The shards that are served, in the order of their numbers. */
            shards: components["schemas"]["FunctionShard"][];
            /**
             * Format: int64
             * @description The version of the list that this database knows; 0: it belongs to no cluster.
             */
            version: number;
        };
        /** @description A signal that no wait has taken. */
        FunctionSignal: {
            data?: components["schemas"]["FunctionValue"] | null;
            /** @description Its name. */
            name: string;
            /**
             * Format: date-time
             * @description When it was sent, if no worker has read it yet.
             */
            sent_at?: string | null;
        };
        /**
         * @description Which child of its parent a node is.
         * @enum {string}
         */
        FunctionSlot: "condition" | "left" | "right" | "extra";
        /** @description One activation of a node. */
        FunctionStep: {
            /**
             * Format: int32
             * @description Of a retry that goes on: which attempt it is at.
             */
            attempt?: number | null;
            /**
             * Format: date-time
             * @description When it began, as what came before it tells; absent where that is not kept.
             */
            begun_at?: string | null;
            /** @description The activation: the node's place, and within bodies of maps the numbers of the items: `7@3`. */
            cell: string;
            /** @description The instance that it has started and waits for. */
            child?: string | null;
            /**
             * Format: date-time
             * @description When its timer fires.
             */
            due_at?: string | null;
            /**
             * Format: date-time
             * @description When it ended.
             */
            ended_at?: string | null;
            /** @description The numbers of the items, if it stands in the body of a map. */
            items?: string | null;
            /**
             * Format: int32
             * @description Of a map that goes on: how many items have begun.
             */
            items_begun?: number | null;
            /**
             * Format: int32
             * @description Of a map that goes on: how many items run.
             */
            items_running?: number | null;
            /**
             * Format: int32
             * @description Of a loop that goes on: in which round it is.
             */
            iteration?: number | null;
            /** @description The place of the node in the list of nodes. */
            node: number;
            /** @description The activation whose failure it has passed on. */
            origin?: string | null;
            /** @description The rounds of the loops around it, the outermost first, behind the instance's own: `1.3`. */
            round?: string | null;
            /** @description The error code of its failure. */
            sqlstate?: string | null;
            /** @description `running`, `completed` or `failed`. */
            status: string;
        };
        /** @description A text that may be cut: at 65,536 bytes, or shorter where there are many. */
        FunctionValue: {
            /**
             * Format: int64
             * @description How many bytes the whole of it has.
             */
            bytes: number;
            /** @description Whether something of it is missing. */
            cut: boolean;
            /** @description The text, or its beginning. */
            text: string;
        };
        /** @description A worker of durable functions. */
        FunctionWorker: {
            /**
             * Format: double
             * @description For how long it has been there, in seconds.
             */
            alive_s: number;
            /** @description Where it runs. */
            host?: string | null;
            /** @description Its id. */
            id: string;
            /**
             * Format: double
             * @description When it was last heard of, in seconds ago.
             */
            last_seen_s: number;
        };
        /** @description `GET /v1/attachments/{name}/functions` */
        FunctionsOverview: {
            /** @description Long steps, HTTP calls and the like, waiting or running. */
            activities: components["schemas"]["FunctionCount"];
            /** @description Those of them that run. */
            activities_running: components["schemas"]["FunctionCount"];
            /**
             * Format: date-time
             * @description When this was so, by the server's clock.
             */
            at: string;
            /** @description Instances by status. */
            counts: components["schemas"]["FunctionCounts"];
            /** @description The database. */
            database: string;
            /**
             * Format: double
             * @description For how long the oldest that is pending has waited, in seconds.
             */
            oldest_pending_s?: number | null;
            /** @description The role that looks. */
            role: string;
            /**
             * Format: int32
             * @description The version of the schema `df`.
             */
            schema_version: number;
            /** @description Whether it sees the instances of all roles, and not only its own. */
            sees_all: boolean;
            /** @description Who runs instances; absent where the role may not see them. */
            workers?: components["schemas"]["FunctionWorker"][] | null;
        };
        /** @description How values get coarser. */
        Generalise: {
            /**
             * Format: int32
             * @description Numbers: down to a multiple of this one.
             */
            bucket: number;
        } | {
            /** @description Dates and times: the beginning of the unit that they lie in. */
            to: components["schemas"]["Unit"];
        } | {
            /**
             * Format: int32
             * @description Texts: their first so many characters.
             */
            prefix: number;
        };
        /** @description A generation of a source that is there. */
        GenerationView: {
            /**
             * Format: int32
             * @description Branches of it, leased or ready: it is kept as long as there are any that are leased.
             */
            branches: number;
            /**
             * Format: int64
             * @description Bytes of its files, which it may share with other generations and with branches.
             */
            bytes: number;
            /** @description Whether new branches are made of it unless another one is asked for. */
            current: boolean;
            /** @description What data it holds: `full` or `masked`. */
            data: string;
            /**
             * @description Digest over all files of its snapshot; empty until it is taken: of a moment with the first evidence, of a source that
             *     follows its origin soon after it was made.
             */
            digest: string;
            /**
             * Format: int32
             * @description Its number.
             */
            generation: number;
            /**
             * Format: date-time
             * @description When it was imported, or promoted.
             */
            imported_at: string;
            /** @description The parts of the source's rule that keep it: `daily`, `weekly` ... */
            kept_by: string[];
            /** @description Its labels: it is kept as long as it has any. */
            labels: string[];
            moment?: components["schemas"]["PastMoment"] | null;
            promoted?: components["schemas"]["PromotedBranch"] | null;
            /** @description The server version of its branches. */
            server_version: string;
        };
        /** @description What is kept of the past of a source that follows its origin. `GET /v1/sources/{name}/timeline` has its stretches. */
        HistoryView: {
            /**
             * Format: int64
             * @description Bytes of the write-ahead log that are kept.
             */
            bytes: number;
            /**
             * Format: date-time
             * @description The earliest moment of which a branch can be made; by the origin's clock, as all of them.
             */
            from?: string | null;
            /** @description Why nothing more is being kept, if that is so. */
            problem?: string | null;
            /**
             * Format: date-time
             * @description The latest.
             */
            until?: string | null;
        };
        /** @description Which generations are kept: numbers and words, separated by commas, as in `7 daily, 4 weekly`. Words are last, hourly, daily, weekly, monthly and yearly; a number is 1 to 1,000. Empty: none. */
        Keep: string;
        /** @description A mean of runs with its interval. */
        LabBand: {
            /**
             * Format: double
             * @description The confidence of the interval.
             */
            confidence: number;
            /**
             * Format: double
             * @description The upper end.
             */
            high: number;
            /**
             * Format: double
             * @description The lower end.
             */
            low: number;
            /**
             * Format: double
             * @description The mean.
             */
            mean: number;
        };
        /**
         * @description Which direction of a figure is better.
         * @enum {string}
         */
        LabBetter: "lower" | "higher" | "neither";
        /** @description How a figure changed, in percent of it, with the interval of 95 %. */
        LabChange: {
            /**
             * Format: double
             * @description The upper end.
             */
            high: number;
            /**
             * Format: double
             * @description The lower end.
             */
            low: number;
            /**
             * Format: double
             * @description The estimate.
             */
            percent: number;
        };
        /** @description A claim, and whether it held. */
        LabCheck: {
            /** @description What was seen. */
            detail: string;
            /** @description The claim. */
            name: string;
            /** @description Whether it held. */
            passed: boolean;
        };
        /** @description A figure on both sides. */
        LabCompared: {
            /**
             * Format: double
             * @description The mean of the values of A.
             */
            a?: number | null;
            /**
             * Format: int32
             * @description How many values A has.
             */
            a_count: number;
            /**
             * Format: double
             * @description The mean of the values of B.
             */
            b?: number | null;
            /**
             * Format: int32
             * @description How many values B has.
             */
            b_count: number;
            /** @description Which direction is better. */
            better: components["schemas"]["LabBetter"];
            /**
             * Format: double
             * @description The confidence of the interval.
             */
            confidence?: number | null;
            /**
             * Format: double
             * @description How many percent more would have been told in 80 of 100 such comparisons.
             */
            detectable_percent?: number | null;
            /** @description What came out. */
            difference: components["schemas"]["LabDifference"];
            /**
             * Format: double
             * @description B minus A.
             */
            effect?: number | null;
            /**
             * Format: double
             * @description The upper end of its interval.
             */
            high?: number | null;
            /**
             * Format: double
             * @description The lower end of its interval.
             */
            low?: number | null;
            /** @description Its name. */
            name: string;
            /**
             * Format: double
             * @description The effect in percent of A, where A is above zero.
             */
            percent?: number | null;
            /**
             * Format: double
             * @description B over A, where both are above zero: what was judged then.
             */
            ratio?: number | null;
            /**
             * Format: double
             * @description The upper end of its interval.
             */
            ratio_high?: number | null;
            /**
             * Format: double
             * @description The lower end of its interval.
             */
            ratio_low?: number | null;
            /** @description Its unit. */
            unit: string;
            /** @description The same in words. */
            words: string;
        };
        /** @description `GET /v1/attachments/{name}/comparison` */
        LabComparison: {
            /** @description The runs of the first variant. */
            a: components["schemas"]["LabRun"][];
            /** @description Those of the second. */
            b: components["schemas"]["LabRun"][];
            /** @description The figures: what is worse, different and better first. */
            figures: components["schemas"]["LabCompared"][];
            /** @description Whether any figure could be compared. */
            is_comparable: boolean;
            /** @description How it was compared, and what came out, in words. */
            method: string;
            /** @description The suite. */
            suite: string;
            /** @description What differs beside the figures, in words. */
            warnings: string[];
        };
        /** @description A figure over the runs of a series. */
        LabCourse: {
            /**
             * Format: double
             * @description The median of the ones before.
             */
            before?: number | null;
            before_band?: components["schemas"]["LabBand"] | null;
            /**
             * Format: int32
             * @description How many of the values, the first, are those before.
             */
            before_count: number;
            /** @description Which direction is better. */
            better: components["schemas"]["LabBetter"];
            /**
             * Format: double
             * @description The median of the last ones.
             */
            last?: number | null;
            last_band?: components["schemas"]["LabBand"] | null;
            /**
             * Format: int32
             * @description How many, the last, are held against them.
             */
            last_count: number;
            /** @description Its name. */
            name: string;
            /**
             * Format: double
             * @description The difference in percent of the mean of the ones before, where that is above zero.
             */
            percent?: number | null;
            target?: components["schemas"]["LabLimit"] | null;
            /** @description What came out. */
            trend: components["schemas"]["LabTrend"];
            /** @description Its unit. */
            unit: string;
            /** @description Its median in each run; none where it was not measured, or says nothing. */
            values: (number | null)[];
            /** @description The same in words. */
            words: string;
        };
        /** @description A file that cannot be used, and why. */
        LabDamaged: {
            /** @description Where it lies in the directory. */
            file: string;
            /** @description What is wrong with it. */
            why: string;
        };
        /**
         * @description What came of a figure of two variants.
         * @enum {string}
         */
        LabDifference: "better" | "worse" | "different" | "no-difference" | "undecidable" | "not-comparable";
        /** @description A series of tries. */
        LabExperiment: {
            /**
             * Format: date-time
             * @description When it began.
             */
            began?: string | null;
            /** @description Which direction of it is better. */
            better: components["schemas"]["LabBetter"];
            /**
             * Format: int32
             * @description How many tries the current segment may have.
             */
            budget: number;
            /**
             * Format: int32
             * @description How many earlier ones are not among them.
             */
            earlier: number;
            /** @description Where its log lies in the directory. */
            file: string;
            /** @description Start and kept tries. */
            head: string;
            /** @description Whether that was measured by a replay of this head, or is the product of what the tries did one by one. */
            is_replayed: boolean;
            /** @description The primary figure. */
            metric: string;
            /** @description Its name. */
            name: string;
            /**
             * Format: double
             * @description What is above the noise, in percent.
             */
            noise_percent?: number | null;
            /** @description What does not fit together in the log, in words. */
            oddities: string[];
            /**
             * Format: int32
             * @description The number of the current segment; 0 before the first baseline.
             */
            segment: number;
            stack?: components["schemas"]["LabChange"] | null;
            /** @description The commit that it began with. */
            start: string;
            /** @description The tries of all segments, in their order. */
            tries: components["schemas"]["LabTry"][];
            /** @description How many tries of the current segment came to which verdict. */
            verdicts: {
                [key: string]: number;
            };
        };
        /** @description `GET /v1/attachments/{name}/experiments` */
        LabExperiments: {
            /** @description Logs that cannot be read. */
            damaged: components["schemas"]["LabDamaged"][];
            /** @description The series of tries, by where their logs lie. */
            experiments: components["schemas"]["LabExperiment"][];
            /** @description Whether there is more in the directory than is looked at, or more deeply. */
            is_partial: boolean;
            /**
             * Format: int32
             * @description Logs that were not read: there are too many. Who asks again is told more of those for which there was no time.
             */
            unread: number;
        };
        /** @description Something that a rule noticed. */
        LabFinding: {
            /** @description The rule. */
            rule: string;
            /** @description How much it matters. */
            severity: components["schemas"]["LabSeverity"];
            /** @description What it means, and what to do. */
            text: string;
        };
        /** @description `GET /v1/attachments/{name}/series` */
        LabHistory: {
            /**
             * Format: int32
             * @description From so many values on a change is told.
             */
            least_runs: number;
            /**
             * Format: int32
             * @description How many runs of the suite are in none of them, because there are too many.
             */
            runs_left_out: number;
            /** @description The series, the one with the newest run first. */
            series: components["schemas"]["LabSeries"][];
            /** @description The suite. */
            suite: string;
            /**
             * Format: int32
             * @description Files of the directory that were not read yet. Who asks again is told more.
             */
            unread: number;
        };
        /** @description A machine as a document describes it. */
        LabHost: {
            /** @description The file system of the measured directory. */
            file_system: string;
            /**
             * Format: double
             * @description What one durable append takes at least, in microseconds.
             */
            fsync_floor_us: number;
            /** @description The kernel. */
            kernel: string;
            /** @description The load average over 1, 5 and 15 minutes when it began. */
            load_average: number[];
            /**
             * Format: int64
             * @description The memory, in bytes.
             */
            memory_bytes: number;
        };
        /** @description A target as a line. */
        LabLimit: {
            /** @description Whether more is better. */
            at_least: boolean;
            /**
             * Format: double
             * @description The limit, in the figure's unit.
             */
            limit: number;
            /** @description What it is about. */
            what: string;
            /** @description The limit in words. */
            words: string;
        };
        /** @description A figure with its distribution. */
        LabMeasurement: {
            /** @description Which direction is better. */
            better: components["schemas"]["LabBetter"];
            /**
             * Format: int64
             * @description How many values there were.
             */
            count: number;
            /** @description Whether it says something: what was to be measured happened. */
            is_sound: boolean;
            /**
             * Format: double
             * @description The greatest.
             */
            max: number;
            /**
             * Format: double
             * @description The mean.
             */
            mean: number;
            /**
             * Format: double
             * @description The least.
             */
            min: number;
            /** @description Its name. */
            name: string;
            /**
             * Format: double
             * @description The median.
             */
            p50: number;
            /**
             * Format: double
             * @description The 90th percentile.
             */
            p90: number;
            /**
             * Format: double
             * @description The 95th percentile.
             */
            p95: number;
            /**
             * Format: double
             * @description The 99th percentile.
             */
            p99: number;
            /** @description The unit of all values. */
            unit: string;
        };
        /**
         * @description How a figure stands to its target.
         * @enum {string}
         */
        LabOutcome: "met" | "missed" | "other-load" | "other-size" | "not-measured";
        /** @description A run in a series. */
        LabPoint: {
            /** @description The run. */
            id: string;
            /** @description Whether it failed, or is invalid as a whole: it has no values then, and is in no median and no band. */
            is_mark?: boolean;
            /**
             * Format: date-time
             * @description When it began.
             */
            started_at: string;
            /** @description What came out. */
            verdict: components["schemas"]["LabVerdict"];
            /** @description Whether the machine had more to do than it has cores when it began. */
            was_busy: boolean;
        };
        /** @description `GET /v1/attachments/{name}/run` */
        LabReport: {
            /** @description What its suite measures, in a line; absent if this program does not know it: then there are no targets, and no tiles. */
            about?: string | null;
            /** @description What was claimed, what did not hold first. */
            checks: components["schemas"]["LabCheck"][];
            /** @description The command with its arguments. */
            command: string[];
            /** @description What was noticed, the worst first. */
            findings: components["schemas"]["LabFinding"][];
            /** @description The machine. */
            host: components["schemas"]["LabHost"];
            /**
             * Format: int32
             * @description How many settings, figures, checks and findings are left out because there are too many, or their names are too long.
             */
            left_out: number;
            /** @description The figures. */
            measurements: components["schemas"]["LabMeasurement"][];
            /** @description The run. */
            run: components["schemas"]["LabRun"];
            /** @description The seed by which it can be run again, if it says one. */
            seed?: string | null;
            /** @description What was set. */
            settings: components["schemas"]["LabSetting"][];
            /** @description The targets that it has figures for. */
            targets: components["schemas"]["LabTarget"][];
            /** @description The figures that matter most. */
            tiles: components["schemas"]["LabTile"][];
        };
        /** @description A run, in short. */
        LabRun: {
            /**
             * Format: int32
             * @description Checks that held.
             */
            checks_met: number;
            /**
             * Format: int32
             * @description Checks that did not.
             */
            checks_missed: number;
            /** @description The configuration: runs with the same one were set alike. */
            config: string;
            /**
             * Format: int64
             * @description How many threads could run at once.
             */
            cores: number;
            /** @description The processor. */
            cpu: string;
            /**
             * Format: int32
             * @description How many figures it has.
             */
            figures: number;
            /** @description Where its document lies in the directory. */
            file: string;
            /** @description What it is asked for by: a digest of where its document lies in the directory. */
            id: string;
            /** @description The machine, by processor, cores and memory: runs with the same one may be compared. */
            machine: string;
            /**
             * Format: int32
             * @description Findings that say that something is wrong.
             */
            problems: number;
            /**
             * Format: date-time
             * @description When it began.
             */
            started_at: string;
            /** @description The suite. */
            suite: string;
            /**
             * Format: double
             * @description How long it took, in seconds.
             */
            took_s: number;
            /** @description What came out. */
            verdict: components["schemas"]["LabVerdict"];
            /** @description The version of Duramen that was measured. */
            version: string;
            /**
             * Format: int32
             * @description Findings that say that something could mislead.
             */
            warnings: number;
            /** @description Whether the machine had more to do than it has cores when it began. */
            was_busy: boolean;
        };
        /** @description `GET /v1/attachments/{name}/runs` */
        LabRuns: {
            /** @description Evidence that cannot be read: the first of them. */
            damaged: components["schemas"]["LabDamaged"][];
            /**
             * Format: int32
             * @description How many there are.
             */
            damaged_count: number;
            /** @description Whether there is more in the directory than is looked at, or more deeply. */
            is_partial: boolean;
            /**
             * Format: int32
             * @description Logs of experiments.
             */
            logs: number;
            /**
             * Format: int32
             * @description How many older ones are not among them.
             */
            older: number;
            /**
             * Format: int32
             * @description Files that are JSON, and no evidence.
             */
            others: number;
            /**
             * Format: int32
             * @description Files that hold a run which another file holds, too.
             */
            repeated: number;
            /** @description The runs, the newest first. */
            runs: components["schemas"]["LabRun"][];
            /** @description The suites of which there are runs, by name, whichever was asked for. */
            suites: components["schemas"]["LabSuite"][];
            /**
             * Format: int32
             * @description Files that were not read yet, because that would have taken too long. Who asks again is told more.
             */
            unread: number;
        };
        /** @description Runs of one suite that are alike: of one machine with one kernel and file system, one version and one configuration. */
        LabSeries: {
            /**
             * Format: int32
             * @description How many of them changed.
             */
            changed: number;
            /**
             * Format: int32
             * @description How many figures were tested for a change; of the changes told at most 5 % are chance.
             */
            comparisons: number;
            /** @description The configuration. */
            config: string;
            /**
             * Format: int64
             * @description How many threads could run at once.
             */
            cores: number;
            /** @description The processor. */
            cpu: string;
            /** @description What sets it apart from the series with the newest run, in words: its kernel, its cluster, its settings. */
            differs?: string[];
            /** @description What makes the series doubtful, in words. */
            doubts: string[];
            /** @description The figures: those that changed first, then in the order of the newest run. */
            figures: components["schemas"]["LabCourse"][];
            /**
             * Format: int32
             * @description How many figures are left out.
             */
            figures_left_out: number;
            /** @description The machine. */
            machine: string;
            /** @description The runs, the oldest first. */
            runs: components["schemas"]["LabPoint"][];
            /** @description The version of Duramen. */
            version: string;
        };
        /** @description A setting of a run. */
        LabSetting: {
            /** @description Its name. */
            name: string;
            /** @description Its value, as JSON or as text. */
            value: string;
        };
        /**
         * @description How much a finding matters.
         * @enum {string}
         */
        LabSeverity: "info" | "warning" | "problem";
        /** @description A suite of which there are runs. */
        LabSuite: {
            /** @description What it measures, in a line; absent if this program does not know it. */
            about?: string | null;
            /** @description Its name. */
            name: string;
            /**
             * Format: int32
             * @description How many runs there are.
             */
            runs: number;
        };
        /** @description A target with the figure of a run. */
        LabTarget: {
            /** @description Whether more is better. */
            at_least: boolean;
            /** @description What the disk alone takes of it, in words; empty where it does not wait for the disk. */
            floor_words: string;
            /**
             * Format: double
             * @description What it must reach.
             */
            limit: number;
            /** @description The limit in words. */
            limit_words: string;
            /**
             * Format: double
             * @description The figure.
             */
            measured?: number | null;
            /** @description The figure in words; empty if there is none. */
            measured_words: string;
            /** @description The measurement that the figure is of; empty if it is of none, or of several. */
            name: string;
            /** @description How the figure stands. */
            outcome: components["schemas"]["LabOutcome"];
            /** @description The best that another project published, in words; may be empty. */
            reference_words: string;
            /** @description The unit of all of them. */
            unit: string;
            /** @description What it is about. */
            what: string;
        };
        /** @description One figure in large. */
        LabTile: {
            /** @description What it is to be held against; may be empty. */
            beside: string;
            /** @description The figure with its unit. */
            figure: string;
            /** @description What it is. */
            what: string;
        };
        /**
         * @description What came of a figure over runs.
         * @enum {string}
         */
        LabTrend: "worse" | "changed" | "better" | "no-change" | "too-few";
        /** @description A try of an experiment. */
        LabTry: {
            /**
             * Format: double
             * @description What it was judged at.
             */
            alpha?: number | null;
            /**
             * Format: date-time
             * @description When it began.
             */
            at: string;
            /** @description The line of thought. */
            axis?: string | null;
            /** @description Why somebody decided otherwise than was computed. */
            by_hand?: string | null;
            /** @description The commit that was tried. */
            candidate: string;
            change?: components["schemas"]["LabChange"] | null;
            /** @description Whether new samples agreed. */
            confirmed?: boolean | null;
            /**
             * Format: date-time
             * @description When it ended.
             */
            ended?: string | null;
            /** @description The files that it changes: the first of them. */
            files: string[];
            /** @description What should become better. */
            hypothesis: string;
            /** @description By which mechanism. */
            mechanism: string;
            /**
             * Format: int32
             * @description Its number.
             */
            number: number;
            /** @description Other figures. */
            others: {
                [key: string]: components["schemas"]["LabChange"];
            };
            /**
             * Format: double
             * @description How probable the samples would be if nothing had changed.
             */
            p_value?: number | null;
            /** @description Why, in words. */
            reason: string;
            /**
             * Format: int32
             * @description How many samples there are.
             */
            samples: number;
            /** @description The primary figure at each scale. */
            scales: {
                [key: string]: components["schemas"]["LabChange"];
            };
            /**
             * Format: int32
             * @description The segment: the tries since one baseline.
             */
            segment: number;
            /** @description What holds: `keep`, `discard`, `crash`, `checks failed`, `invalid`, `suspicious` or `inconclusive`; absent while it is open. */
            verdict?: string | null;
        };
        /**
         * @description What came of a run.
         * @enum {string}
         */
        LabVerdict: "pass" | "fail" | "invalid";
        /** @description What one branch may take of the machine, where that can be limited. What is absent is as usual. */
        Limits: {
            /**
             * Format: int32
             * @description Connections to it through the router. Usual: as many as its server takes.
             * @default null
             */
            connections?: number | null;
            /**
             * Format: int32
             * @description Its share of the processors when they are busy, beside those of other branches: 1 to 10,000.
             * @default null
             */
            cpu_weight?: number | null;
            /**
             * Format: int64
             * @description Bytes that it may write beyond what it shares with its snapshot. Usual: a quarter of the volume store.
             * @default null
             */
            disk?: number | null;
            /**
             * Format: int64
             * @description Bytes of memory of its server, cached files included.
             * @default null
             */
            memory?: number | null;
            /**
             * Format: int32
             * @description Processes of its server.
             * @default null
             */
            processes?: number | null;
        };
        /** @description Which limits hold on this machine. */
        MachineLimits: {
            /** @description Whether each branch has a quota of disk. */
            disk: components["schemas"]["Wall"];
            /** @description Whether memory, processes and processors of each branch are limited. */
            groups: components["schemas"]["Wall"];
            /**
             * Format: int32
             * @description How many leases there may be in all.
             */
            leases: number;
        };
        /** @description What becomes of the values of a column. Null stays null under all of them but `constant` and `sql`. */
        Mask: "null" | "hash" | "keep" | {
            /** @description All of them become this one, written as in SQL without its quotes. */
            constant: string;
        } | "shape" | "email" | "phone" | "card" | "iban" | {
            /** @description Texts: something made up, the same for the same value. Different values may become equal, except in unique columns. */
            fake: components["schemas"]["Fake"];
        } | "shuffle" | {
            /** @description Numbers: a little more or less, the same for the same value. The sign stays. */
            noise: components["schemas"]["Noise"];
        } | {
            /** @description Dates and times: all of one person are moved by the same number of days. */
            shift: components["schemas"]["Shift"];
        } | {
            /** @description Numbers, dates, times and texts: coarser. */
            generalise: components["schemas"]["Generalise"];
        } | {
            /**
             * @description JSON: what becomes of the values at these paths (`$.email`, `$.phones[*].number`, `$."odd key"`). `json`, `jsonb` or
             *     texts that hold JSON. The values themselves take `null`, `hash`, `constant`, `shape`, `email`, `phone`, `card`, `iban` and
             *     `fake`, and become texts.
             */
            json: {
                [key: string]: Record<string, never>;
            };
        } | {
            /** @description An expression in SQL over the columns of the row, evaluated with read access only. */
            sql: string;
        };
        /** @description The masking rules of a source. An empty object (`{}`) leaves only the labels of PostgreSQL Anonymizer as rules. */
        Masking: {
            /**
             * @description What becomes of columns, by `schema.table` (names as in SQL) and column. A rule for a partitioned table or a parent
             *     is one for all that inherit from it.
             * @default {}
             */
            columns?: {
                [key: string]: {
                    [key: string]: components["schemas"]["Mask"];
                };
            };
            /**
             * @description Conditions in SQL, by `schema.table`: rows that do not meet theirs are removed, and with them the rows whose
             *     foreign keys refer to them.
             * @default {}
             */
            rows?: {
                [key: string]: string;
            };
            /** @default null */
            subset?: components["schemas"]["Subset"] | null;
        };
        /** @description `POST /v1/branches/{name}/merge`: the branch in the path is the child. */
        MergeBranch: {
            /** @description Whether all of it is done and taken back. */
            dry_run?: boolean;
            /** @description What equal changes are. */
            equal?: components["schemas"]["MergeEqual"];
            /** @description The branch that gets the changes: the one that the child was made of, or one that was made of the same. */
            into: string;
            /** @description What becomes of conflicts. */
            strategy?: components["schemas"]["MergeStrategy"];
            /** @description What triggers of the parent do. */
            triggers?: components["schemas"]["MergeTriggers"];
        };
        /** @description A conflict. */
        MergeConflict: {
            /** @description The columns that are concerned. */
            columns: components["schemas"]["MergeValues"][];
            /** @description What identifies the row, if it is about one. */
            key: components["schemas"]["MergeKey"][];
            /** @description All of it in words. */
            message: string;
            /** @description Why: `changed`, `same-change`, `deleted-by-parent`, `deleted-by-child`, `inserted`, `too-few`, `constraint` or `structure`. */
            reason: string;
            /** @description The schema of the table; empty if it is not known. */
            schema: string;
            /** @description Its name. */
            table: string;
            /** @description Whose side was taken, `ours` or `theirs`; null if nothing answers it. */
            taken?: string | null;
        };
        /**
         * @description What it is when both sides changed a column to the same value.
         * @enum {string}
         */
        MergeEqual: "agree" | "conflict";
        /** @description A column and its value; null is NULL. */
        MergeKey: {
            /** @description The column. */
            column: string;
            /** @description Its value as text, cut off if it is long. */
            value?: string | null;
        };
        /** @description A merge, told. */
        MergeReport: {
            /** @description What both were compared with, in words. */
            base: string;
            /** @description The child's name. */
            child: string;
            /** @description The first conflicts, also those that a strategy answered. */
            conflicts: components["schemas"]["MergeConflict"][];
            /**
             * Format: date-time
             * @description When it was merged, if it was before.
             */
            merged_at?: string | null;
            /** @description Whether there are more. */
            more_conflicts: boolean;
            /** @description The parent's. */
            parent: string;
            /**
             * Format: int64
             * @description Sequences that the child had moved on, and that were moved on.
             */
            sequences: number;
            /** @description The statements that changed definitions, or would. */
            statements: string[];
            /** @description What came of it. */
            status: components["schemas"]["MergeStatus"];
            /** @description Tables whose rows were written, or would be. */
            tables: components["schemas"]["MergedTable"][];
        };
        /**
         * @description What came of a merge.
         * @enum {string}
         */
        MergeStatus: "merged" | "would-merge" | "already-merged" | "nothing-to-do" | "conflicts";
        /**
         * @description What becomes of conflicts.
         * @enum {string}
         */
        MergeStrategy: "fail" | "ours" | "theirs";
        /**
         * @description What triggers of the parent do.
         * @enum {string}
         */
        MergeTriggers: "refuse" | "fire" | "off";
        /** @description A column's values in the base, the parent and the child, cut off where they are long; null is NULL, or that there is no row. */
        MergeValues: {
            /** @description In what the child was made of. */
            base?: string | null;
            /** @description The column. */
            column: string;
            /** @description In the parent. */
            ours?: string | null;
            /** @description In the child. */
            theirs?: string | null;
        };
        /** @description What was done to a table, or would be. */
        MergedTable: {
            /**
             * Format: int64
             * @description Rows that went.
             */
            deleted: number;
            /**
             * Format: int64
             * @description Rows that came.
             */
            inserted: number;
            /** @description Its name. */
            name: string;
            /** @description Its schema. */
            schema: string;
            /**
             * Format: int64
             * @description Rows that changed.
             */
            updated: number;
        };
        /** @description What a node answered. */
        NodeAnswer: {
            /**
             * Format: int64
             * @description How far its clock is ahead of that of the node that was asked, in milliseconds; off by half of `took_ms` at most.
             */
            clock_ahead_ms?: number | null;
            /** @description Its name. */
            name: string;
            /** @description Why it said nothing. */
            problem?: string | null;
            report?: components["schemas"]["NodeReport"] | null;
            /**
             * Format: int64
             * @description How long it took, in milliseconds.
             */
            took_ms: number;
        };
        /** @description The reply to `GET /v1/node`: what a node of a fleet says of itself. */
        NodeReport: {
            /**
             * Format: int64
             * @description How old what it knows of others may be, in milliseconds.
             */
            age_ms?: number | null;
            /**
             * Format: date-time
             * @description When the fleet's authority ends.
             */
            authority_until?: string | null;
            /**
             * Format: date-time
             * @description When its certificate ends.
             */
            certificate_until?: string | null;
            /** @description Its name. */
            node: string;
            /** @description Why it does not give names, if it does not. */
            problem?: string | null;
            /** @description `member`, `joining` or `refused`. */
            standing: string;
            /** @description Tokens that the fleet had, and has no more: they let nobody in, and are kept. */
            suspended_tokens: components["schemas"]["SuspendedToken"][];
            /**
             * Format: date-time
             * @description The time of its clock.
             */
            time: string;
            /**
             * Format: int32
             * @description Names of branches that have ended which etcd has not heard of yet.
             */
            to_free: number;
            /**
             * Format: int32
             * @description Values in etcd that it cannot read: of a later version, or damaged.
             */
            unread: number;
            /** @description Tokens that were revoked there, of which etcd has not heard yet. */
            untold_revocations: string[];
            /** @description The version of its daemon. */
            version: string;
            /** @description What `duramen status` warns of there. */
            warnings: string[];
        };
        /** @description How far a number is moved. */
        Noise: {
            /**
             * Format: int32
             * @description By at most so many hundredths of it, and by one unit of its last place at least where that is less.
             */
            percent: number;
        } | {
            /**
             * Format: int32
             * @description By at most so much.
             */
            by: number;
        };
        /** @description `GET /v1/attachments/{name}/pack` */
        PackView: {
            branch?: components["schemas"]["PackedBranch"] | null;
            /**
             * Format: date-time
             * @description When the file was changed last.
             */
            changed_at: string;
            /**
             * Format: int64
             * @description Bytes of the file.
             */
            file_bytes: number;
            graph?: components["schemas"]["AccessGraph"] | null;
        };
        /** @description A branch of a store in a pack. */
        PackedBranch: {
            /** @description The file that it is based on, if it does not hold all of the branch. */
            based_on?: string | null;
            /**
             * Format: int64
             * @description Bytes of its keys and values.
             */
            bytes: number;
            /**
             * Format: int64
             * @description Entries in it. Events count twice.
             */
            entries: number;
            /**
             * Format: date-time
             * @description When it was exported.
             */
            exported_at: string;
            /** @description The name that it had. */
            name: string;
            /**
             * Format: int64
             * @description The last version of its store at that time.
             */
            version: number;
        };
        /** @description What a branch was made of. */
        Parent: {
            /** @description Its id. */
            id: string;
            /** @description The name that the other branch had then. */
            name: string;
            /** @description The snapshot of it, to which a reset goes back. */
            snapshot: string;
            /**
             * Format: date-time
             * @description When that was taken.
             */
            taken_at: string;
            /** @description What unlogged tables hold: `kept`, or `empty` if the other branch's server was running, as after a crash. */
            unlogged: string;
        };
        /** @description A moment of an origin that was followed. */
        PastMoment: {
            /**
             * Format: date-time
             * @description The time, by the origin's clock, if that was asked for: what was committed by then is there.
             */
            at?: string | null;
            /** @description The position in the origin's write-ahead log, if that was asked for: what was committed before it is there. */
            lsn?: string | null;
            /** @description Up to which position the log was replayed. */
            replayed_to: string;
        };
        /** @description What a branch's holder may do in it: `read-only`, `read-write`, `ddl`, or `role:NAME`. */
        Policy: string;
        /** @description How many branches of a source are kept ready. */
        PoolSize: {
            /**
             * Format: int32
             * @description Clones that are not started yet, beyond those of the hot level.
             */
            cold: number;
            /** @description Started, connected and warm branches, by policy. */
            hot: {
                [key: string]: number;
            };
        };
        /** @description One pool's state. */
        PoolView: {
            /**
             * Format: int32
             * @description How many of them have a process ready for their first client, which they have if clients come through a door.
             */
            entries?: number;
            /**
             * Format: int32
             * @description Branches ready to be leased.
             */
            hot: number;
            /** @description The policy. */
            policy: components["schemas"]["Policy"];
            /** @description The source. */
            source: string;
            /**
             * Format: int32
             * @description How many there should be.
             */
            target: number;
            /**
             * Format: int32
             * @description Creates that wait in the queue.
             */
            waiting: number;
        };
        /** @description The JSON of a refusal: problem details (RFC 9457), with a word for programs. */
        Problem: {
            /** @description A stable word for programs: `not_found`, `name_clash`, `no_branch_ready`, `sql_error`, ... */
            code?: string;
            /** @description What happened, where, and what to do next. */
            detail?: string;
            /** @description The same as earlier versions said it. */
            error: components["schemas"]["ErrorBody"];
            /**
             * Format: int32
             * @description Where in the statement it is, counted in characters from 1; of several statements, in the one that failed.
             */
            position?: number | null;
            /** @description The SQLSTATE of an `sql_error`. */
            sqlstate?: string | null;
            /**
             * Format: int32
             * @description The status of the reply.
             */
            status?: number;
            /** @description What the status means. */
            title?: string;
            /** @description `about:blank`: what kind of problem it is, is said by `code`. */
            type?: string;
        };
        /** @description A line of a streamed reply of a long operation (import, refresh): progress, then the result or an error. */
        Progress: {
            /** @description What is being done, and how far it is (0 to 1) where that is known. */
            step: {
                /** @description What is being done. */
                doing: string;
                /**
                 * Format: double
                 * @description The fraction that is done.
                 */
                fraction?: number | null;
            };
        } | {
            /** @description The operation ended well. */
            done: components["schemas"]["SourceView"];
        } | {
            /** @description The operation failed. */
            failed: components["schemas"]["ErrorBody"];
        };
        /** @description The branch that a generation was. */
        PromotedBranch: {
            /**
             * Format: int32
             * @description The generation that it was made of.
             */
            generation: number;
            /** @description Its id. */
            id: string;
            /** @description The name that it had then. */
            name: string;
            /**
             * Format: date-time
             * @description The moment at which it held what the generation holds.
             */
            taken_at: string;
        };
        /** @description `POST /v1/branches/{name}/protect` */
        ProtectBranch: {
            /** @description Protect it, or end its protection. */
            protected: boolean;
        };
        /** @description The answer to a query. */
        QueryReply: {
            /** @description The branch. */
            branch: string;
            /** @description What data the branch holds: `full` or `masked`. */
            data: string;
            /** @description Whether the write is flushed to disk. */
            durable: boolean;
            /** @description The policy that applied. */
            policy: components["schemas"]["Policy"];
            /** @description One result a statement. */
            results: components["schemas"]["StatementReply"][];
            /**
             * Format: int64
             * @description Time spent in the branch's server, round trip included, in microseconds.
             */
            server_us: number;
        };
        /** @description `POST /v1/branches/{name}/query`: one statement (`sql`, `params`), or several in one transaction. */
        QueryRequest: {
            /**
             * Format: int32
             * @description At most this many rows; 1,000 unless said otherwise, at most 100,000.
             * @default null
             */
            max_rows?: number | null;
            /**
             * @description Its parameters.
             * @default []
             */
            params?: unknown[];
            /**
             * @description One statement.
             * @default null
             */
            sql?: string | null;
            /**
             * @description Several statements, all or none.
             * @default []
             */
            statements?: components["schemas"]["QueryStatement"][];
            /**
             * Format: int64
             * @description The statement timeout; 30 s unless said otherwise, at most 10 minutes.
             * @default null
             */
            timeout_ms?: number | null;
        };
        /** @description One statement of a query. */
        QueryStatement: {
            /** @description Values for `$1`, `$2`, ...: strings, numbers, booleans, null; arrays and objects are passed as JSON text. */
            params?: unknown[];
            /** @description Exactly one SQL statement. */
            sql: string;
        };
        /**
         * @description Whether branches are made step by step or branch by branch.
         * @enum {string}
         */
        Refill: "phased" | "pipelined";
        /** @description What one refill did. */
        RefillReport: {
            /**
             * Format: int32
             * @description How many branches became hot.
             */
            branches: number;
            /**
             * Format: double
             * @description Wall time of the clones (0 when pipelined).
             */
            clone_ms: number;
            /**
             * Format: double
             * @description Wall time of sessions and warm-up.
             */
            connect_ms: number;
            /**
             * Format: int32
             * @description Branches that could not be made, with the first reason.
             */
            failed: number;
            /** @description The first reason. */
            first_error?: string | null;
            /**
             * Format: double
             * @description Wall time of the starts.
             */
            start_ms: number;
            /**
             * Format: double
             * @description Wall time of all of it.
             */
            total_ms: number;
        };
        /** @description How the pools of a source are refilled. Absent fields have their defaults. */
        RefillSettings: {
            /**
             * Format: int32
             * @description How many clones are made at a time.
             * @default null
             */
            clones?: number | null;
            /**
             * Format: int32
             * @description How many sessions connect and warm up at a time.
             * @default null
             */
            connects?: number | null;
            /**
             * Format: int32
             * @description How many servers start at a time; when pipelined, how many branches are made at a time.
             * @default null
             */
            starts?: number | null;
            /** @default null */
            way?: components["schemas"]["Refill"] | null;
        };
        /** @description `POST /v1/branches/{name}/renew` */
        RenewBranch: {
            /**
             * Format: date-time
             * @description The moment at which the lease ends, instead of `ttl_s`.
             * @default null
             */
            expires_at?: string | null;
            /**
             * Format: int64
             * @description Seconds from now. `None`: an hour.
             * @default null
             */
            ttl_s?: number | null;
        };
        /** @description How many resources of a type there are. */
        ResourceCount: {
            /**
             * Format: int64
             * @description How many.
             */
            count: number;
            /** @description What it is called. */
            name: string;
            /** @description The type. */
            resource_type: string;
        };
        /** @description Where a branch goes back to. */
        RestoreBranch: {
            /** @description The name or the id of one of its snapshots, or a time (RFC 3339): the newest one that was there by then. */
            to: string;
        };
        /** @description A restore that is under way, or was interrupted. */
        RestoreView: {
            /**
             * Format: date-time
             * @description When its restore began.
             */
            began_at: string;
            /**
             * Format: date-time
             * @description When the backup was made.
             */
            made_at: string;
        };
        /** @description A column of a result. */
        ResultColumn: {
            /** @description Its name. */
            name: string;
            /** @description The name of its type. */
            type: string;
        };
        /**
         * @description What the holder of a token may do.
         * @enum {string}
         */
        Role: "admin" | "user" | "viewer";
        /** @description One thing that sanitising did to a snapshot, or left out of it. */
        Sanitised: {
            /** @description What was done: `dropped`, `disabled`, `removed`, ... */
            action: string;
            /** @description What kind of thing: `subscription`, `user mapping`, `setting`, `role`, `job`, `function`, ... */
            kind: string;
            /** @description Which one. */
            object: string;
        };
        /** @description One object that differs. What belongs to one that was added or removed as a whole is not named apart. */
        SchemaChange: {
            /** @description What differs, if it was changed. */
            differences?: components["schemas"]["SchemaDifference"][];
            /** @description `added`, `removed` or `changed`. */
            how: string;
            /** @description What it is: `table`, `column`, `function` ... */
            kind: string;
            /** @description Its name, quoted and qualified: `public.orders.total`, `orders_pkey on public.orders`, `public.f(integer)`. */
            name: string;
        };
        /** @description `GET /v1/branches/{name}/schema-diff` */
        SchemaDiff: {
            /** @description What differs, by object. */
            changes: components["schemas"]["SchemaChange"][];
            /** @description The statements that make the first side the second, in the order in which they run. */
            ddl: components["schemas"]["SchemaStatement"][];
            /** @description What the branch is compared with, in words. */
            from: string;
            /** @description The same as one script for `psql`, with its transactions and the warnings as comments. */
            script: string;
            /** @description Changes and warnings as text. */
            text: string;
            /** @description The branch. */
            to: string;
            /** @description What to know before the DDL runs. */
            warnings: components["schemas"]["SchemaWarning"][];
        };
        /** @description One property that differs. */
        SchemaDifference: {
            /** @description Its value in the first side; absent: it has none. */
            from?: string | null;
            /** @description Its value in the second side. */
            to?: string | null;
            /** @description What it is called. */
            what: string;
        };
        /** @description One statement. */
        SchemaStatement: {
            /** @description Whether it runs in the transaction with the others, rather than ahead of it. */
            in_transaction: boolean;
            /** @description Its text, without a semicolon at the end. */
            sql: string;
        };
        /** @description Something that a statement does to those who use the database. */
        SchemaWarning: {
            /** @description What the object is. */
            kind: string;
            /** @description In words. */
            message: string;
            /** @description Its name. */
            name: string;
            /** @description `data loss`, `may fail`, `rewrite`, `lock`, or `by hand` where no statement is written. */
            risk: string;
        };
        /** @description The reply to `GET /v1/session`. */
        SessionView: {
            /**
             * Format: date-time
             * @description When it ends unless it is used. `None`: when the token is revoked.
             */
            ends_at?: string | null;
            /** @description The requests that it may make, by their names in the OpenAPI document. */
            operations: string[];
            /** @description Whether data that is not masked is shown where the holder is. */
            sees_unmasked: boolean;
            /**
             * Format: date-time
             * @description When the session began. `None`: each request shows the token itself.
             */
            signed_in_at?: string | null;
            /** @description The token: its role, its sources, its limits. */
            token: components["schemas"]["Token"];
            /** @description The daemon's version. */
            version: string;
        };
        /** @description How far the dates of a person are moved. */
        Shift: {
            /**
             * Format: int32
             * @description By one to so many days, to either side.
             */
            days: number;
            /** @description The column of the same table that says whose date it is. Equal persons of all tables are moved equally. */
            person: string;
        };
        /** @description A value, or the beginning of one. */
        ShownValue: {
            /** @description Whether something of it was left out at the end. */
            cut: boolean;
            /** @description What it is: `null`, `bool`, `int`, `float`, `string`, `bytes`, `list` or `object`, `vector` or `blob`. */
            form: string;
            /**
             * @description Its text. Lists and objects are JSON, in which bytes are `{"$bytes": BASE64}`; bytes and blobs are written as keys are, and a vector
             *     is a list of numbers.
             */
            text: string;
        };
        /**
         * @description Why a snapshot of a branch was taken.
         * @enum {string}
         */
        SnapshotKind: "named" | "base" | "before-reset" | "before-restore" | "interval";
        /** @description Which snapshots of branches are taken without being asked for, and how long they are kept. */
        SnapshotSettings: {
            /**
             * Format: int32
             * @description Seconds between two of them. `None`: only before resets and restores.
             * @default null
             */
            every_s?: number | null;
            /**
             * Format: int32
             * @description How many are kept of each branch. `None`: [`SnapshotSettings::KEEP`].
             * @default null
             */
            keep?: number | null;
            /**
             * Format: int32
             * @description For how many seconds. `None`: [`SnapshotSettings::KEEP_S`].
             * @default null
             */
            keep_s?: number | null;
        };
        /** @description A branch as it was at one moment. */
        SnapshotView: {
            /** @description Its unique id. */
            id: string;
            /** @description Why it was taken. */
            kind: components["schemas"]["SnapshotKind"];
            /** @description The name that it was given, if it was. */
            name?: string | null;
            /** @description Why it cannot be used, if that is so. */
            problem?: string | null;
            /** @description Whether the server was running, so that what is made of it begins with crash recovery, and unlogged tables are empty. */
            running: boolean;
            /**
             * Format: date-time
             * @description When.
             */
            taken_at: string;
        };
        /** @description The comparison of two fingerprints of the same source. */
        SourceComparison: {
            /** @description Whether the two can be compared: they were taken in the same way, and the source was read both times. */
            comparable: boolean;
            /** @description What differs. */
            differences: string[];
            /** @description Whether not even the write position moved. */
            nothing_written: boolean;
            /** @description Whether contents and row statistics are the same. */
            unchanged: boolean;
        };
        /** @description The state of a live source at one moment. */
        SourceFingerprint: {
            /** @description One hash over all of `contents`, and the names in `left_out`. */
            content_hash: string;
            /**
             * @description Content by `database.schema.table` (or file), `database (kind)` of definitions, and `all databases (kind)`:
             *     number of rows (or bytes) and a hash.
             */
            contents: {
                [key: string]: components["schemas"]["ContentHash"];
            };
            /**
             * @description What is not in `contents`, because reading it would run code of the source's users or is refused: databases,
             *     `database.schema.table`, or `database.schema.table.column`, and why.
             */
            left_out?: {
                [key: string]: string;
            };
            /**
             * @description How: `server-binary`, or `files` for origins that do not run. `server` in manifests of 0.1, whose hashes are
             *     others.
             */
            method: string;
            /**
             * Format: int64
             * @description Rows inserted, updated and deleted in tables that are not temporary, since the server's statistics began; absent
             *     for files and where the server does not count.
             */
            rows_written?: number | null;
            /**
             * Format: date-time
             * @description When it was taken.
             */
            taken_at: string;
            /** @description The write position (WAL insert location) before the contents were read; empty for files. */
            write_position: string;
        };
        /** @description How branches of a source run. */
        SourceSettings: {
            /**
             * @description Whether branches admit their holders to every database of the copied server, and not only to the one they serve.
             * @default false
             */
            all_databases?: boolean;
            /**
             * @description What of its branches is in the audit log.
             * @default sessions
             */
            audit?: components["schemas"]["Audited"];
            /**
             * @description Whether branches flush what they commit.
             * @default false
             */
            durable?: boolean;
            /**
             * @description Whether and how it follows its origin.
             * @default {
             *       "enabled": false
             *     }
             */
            follow?: components["schemas"]["FollowSettings"];
            /**
             * @description Which of its generations are kept though no branch needs them.
             * @default
             */
            keep?: components["schemas"]["Keep"];
            /**
             * @description What each branch may take of the machine.
             * @default {}
             */
            limits?: components["schemas"]["Limits"];
            /** @default null */
            masking?: components["schemas"]["Masking"] | null;
            /**
             * @description The prepared pool.
             * @default {
             *       "cold": 2,
             *       "hot": {
             *         "read-write": 10
             *       }
             *     }
             */
            pool?: components["schemas"]["PoolSize"];
            /**
             * @description How its pools are refilled.
             * @default {}
             */
            refill?: components["schemas"]["RefillSettings"];
            /**
             * Format: int32
             * @description On how many nodes of its fleet it is. `None`: on the one on which it was added, if its daemon is in a fleet.
             * @default null
             */
            replicas?: number | null;
            /**
             * @description Server settings of its branches, on top of the minimal ones.
             * @default {}
             */
            server?: {
                [key: string]: string;
            };
            /**
             * @description Which snapshots of its branches are taken without being asked for.
             * @default {}
             */
            snapshots?: components["schemas"]["SnapshotSettings"];
            /**
             * @description Statements that every session runs, and rolls back, before its branch is called hot. Empty: each table
             *     is planned for once.
             * @default []
             */
            warm?: string[];
        };
        /** @description A source, as told to callers. It never holds the origin's address. */
        SourceView: {
            /** @description Branches that exist of each generation, leased or ready. */
            branches_by_generation: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description Size of the snapshot's files.
             */
            bytes: number;
            /** @description What data it holds: `full` or `masked`. */
            data?: string;
            /** @description The database that branches serve. */
            database: string;
            /** @description Digest over all files of the snapshot; empty while it is being taken, behind the back of who refreshed a source that follows its origin. */
            digest: string;
            fleet?: components["schemas"]["FleetSource"] | null;
            follow?: components["schemas"]["FollowView"] | null;
            /**
             * Format: int32
             * @description The current generation.
             */
            generation: number;
            /**
             * Format: date-time
             * @description When that generation was imported.
             */
            imported_at: string;
            /**
             * Format: int32
             * @description How many columns were masked.
             */
            masked_columns?: number;
            /** @description Its name. */
            name: string;
            /** @description The kind of its origin. */
            origin: string;
            promoted?: components["schemas"]["PromotedBranch"] | null;
            /** @description The login roles of the source that a branch can be entered as (`policy` `role:NAME`). */
            roles?: string[];
            /** @description What the import took out. */
            sanitised: components["schemas"]["Sanitised"][];
            /** @description The server version of its branches. */
            server_version: string;
            /** @description How its branches run. */
            settings: components["schemas"]["SourceSettings"];
            /** @description Columns that look personal and are not masked, with what they look like. A scan of the source has rules for them. */
            unmasked?: string[];
            upgraded?: components["schemas"]["Upgraded"] | null;
        };
        /** @description What one statement gave. */
        StatementReply: {
            /** @description The result's columns. */
            columns: components["schemas"]["ResultColumn"][];
            /** @description The server's command tag. */
            command: string;
            /**
             * Format: int64
             * @description How many rows there are.
             */
            row_count: number;
            /** @description The rows, each an array of typed values. */
            rows: unknown[][];
            /** @description Whether rows were left out: more than the cap, or more than 16 MiB with those before them. */
            truncated: boolean;
        };
        /** @description `GET /v1/status` */
        Status: {
            /**
             * Format: int32
             * @description Clones not yet started.
             */
            cold: number;
            /** @description Whether clones are plain copies: measurements are then invalid. */
            degraded: boolean;
            /**
             * Format: int32
             * @description Leases that are held.
             */
            leases: number;
            /** @description What of the machine branches are kept from taking. */
            limits?: components["schemas"]["MachineLimits"];
            /**
             * Format: int32
             * @description The daemon's process id.
             */
            pid: number;
            /** @description The last failure of the pool, if it could not be filled. */
            pool_error?: string | null;
            /** @description The pools. */
            pools: components["schemas"]["PoolView"][];
            /** @description The last refills, newest last, at most 64. */
            refills: components["schemas"]["RefillReport"][];
            /** @description Whether every pool is full and nothing waits to be deleted. */
            settled: boolean;
            /**
             * Format: int32
             * @description Branches that wait to be deleted.
             */
            to_delete: number;
            /** @description The daemon's version. */
            version: string;
            /** @description How volumes are cloned. */
            volumes: components["schemas"]["VolumeKind"];
            /** @description Why so. */
            volumes_reason: string;
            /** @description What the operator has to look at, each with the next step: a damaged journal, a volume store that lost writes. */
            warnings?: string[];
        };
        /** @description A branch of a store. */
        StoreBranch: {
            /**
             * Format: int64
             * @description Bytes of all its keys and values, whoever shares them.
             */
            bytes: number;
            /**
             * Format: date-time
             * @description When it was made.
             */
            created_at: string;
            /**
             * Format: int64
             * @description Its entries. Events count twice, collections and indexes have one of their own, and an index has one of each row.
             */
            entries: number;
            /**
             * Format: date-time
             * @description When it will be deleted by itself.
             */
            expires_at?: string | null;
            /** @description Its name. */
            name: string;
            /** @description The branch that it was forked from, if that is still there. */
            parent?: string | null;
            /** @description Whether it is kept from being deleted, reset or expiring. */
            protected: boolean;
        };
        /** @description `GET /v1/attachments/{name}/store-branches` */
        StoreBranches: {
            /** @description Its branches, by name. */
            branches: components["schemas"]["StoreBranch"][];
            /**
             * Format: date-time
             * @description When the store was made, or the pack.
             */
            created_at: string;
            /**
             * Format: int64
             * @description Bytes on disk, without the log.
             */
            disk_bytes: number;
            /** @description Whether there are more than are told. */
            truncated: boolean;
            /**
             * Format: int64
             * @description The version of the last write.
             */
            version: number;
        };
        /** @description How a key differs between two branches. */
        StoreChange: {
            from?: components["schemas"]["ShownValue"] | null;
            /** @description The key; of an event its number, of a vector `collection/key`. */
            key: string;
            /** @description The kind of data. */
            kind: components["schemas"]["EntryKind"];
            /** @description The space. */
            space: string;
            to?: components["schemas"]["ShownValue"] | null;
        };
        /** @description `GET /v1/attachments/{name}/store-contents` */
        StoreContents: {
            /** @description The branch, as it was asked for. */
            branch: string;
            /** @description Its spaces that have anything in them, by name. */
            spaces: components["schemas"]["StoreSpace"][];
            /** @description Whether there is more than is told. */
            truncated: boolean;
        };
        /** @description `GET /v1/attachments/{name}/difference` */
        StoreDifference: {
            /** @description What differs, in the order of kind, space and key. */
            changes: components["schemas"]["StoreChange"][];
            /** @description The cursor of the next page; none after the last. */
            next?: string | null;
        };
        /** @description `GET /v1/attachments/{name}/entries` */
        StoreEntries: {
            /** @description Entries in the order of their keys; of events, the newest first. */
            entries: components["schemas"]["StoreEntry"][];
            /** @description The cursor of the next page; none after the last. */
            next?: string | null;
        };
        /** @description An entry of a store. */
        StoreEntry: {
            /**
             * Format: date-time
             * @description When an event was appended.
             */
            at?: string | null;
            /** @description The type of an event. */
            event_type?: string | null;
            /**
             * Format: date-time
             * @description When a pair ends; told of one that is shown in full.
             */
            expires_at?: string | null;
            /** @description The hash of an event, or of a blob, in hexadecimal digits. */
            hash?: string | null;
            /** @description Its key; of an event, its number. */
            key: string;
            metadata?: components["schemas"]["ShownValue"] | null;
            /**
             * Format: int64
             * @description The length of a blob, or how many dimensions a vector has.
             */
            size?: number | null;
            /** @description What it holds. */
            value: components["schemas"]["ShownValue"];
            /**
             * Format: int64
             * @description The version of a cell.
             */
            version?: number | null;
        };
        /** @description `GET /v1/attachments/{name}/store-history` */
        StoreHistory: {
            /**
             * Format: int64
             * @description How many there are.
             */
            all: number;
            keep?: components["schemas"]["StoreKeep"] | null;
            /** @description The states that are retained, the newest first. */
            states: components["schemas"]["StoreState"][];
        };
        /** @description Which states of a branch are retained. */
        StoreKeep: {
            /**
             * Format: int64
             * @description For how long, in milliseconds.
             */
            age_ms?: number | null;
            /**
             * Format: int64
             * @description Up to so many bytes on disk.
             */
            bytes?: number | null;
            /**
             * Format: int64
             * @description How often, in milliseconds; none: at each commit.
             */
            every_ms?: number | null;
            /**
             * Format: int64
             * @description How many at most.
             */
            versions?: number | null;
        };
        /** @description A space of a branch. */
        StoreSpace: {
            /** @description Its collections of vectors, by name. */
            collections: string[];
            /** @description The kinds of data in it. */
            kinds: components["schemas"]["EntryKind"][];
            /** @description Its name. */
            name: string;
        };
        /** @description A state that is retained. */
        StoreState: {
            /**
             * Format: date-time
             * @description When it was retained.
             */
            at: string;
            /**
             * Format: int64
             * @description Bytes on disk that nothing needs but it and those before it.
             */
            bytes: number;
            /**
             * Format: int64
             * @description Its entries.
             */
            entries: number;
            /** @description The tags that name it. */
            tags: string[];
            /**
             * Format: int64
             * @description Its version.
             */
            version: number;
        };
        /**
         * @description A part of the rows: some of one table, what belongs to them, and what all of these refer to. Tables that no chain of foreign
         *     keys connects with that table keep all their rows.
         */
        Subset: {
            /** @description Tables of which all rows are kept, with what these refer to. */
            keep?: string[];
            /**
             * Format: double
             * @description How many of its rows in a hundred, the same ones each time. Either this or `where`.
             */
            percent?: number | null;
            /** @description The table to begin with (`schema.table`, names as in SQL). */
            table: string;
            /** @description A condition in SQL for its rows, evaluated with read access only. */
            where?: string | null;
        };
        /** @description A token that the fleet had, and has no more: it was revoked on another node, or etcd lost it. */
        SuspendedToken: {
            /** @description Its id. */
            id: string;
            /** @description Its name. */
            name: string;
        };
        /** @description What a snapshot of a branch is to be called. */
        TakeSnapshot: {
            /** @description Its name, of which a branch has one. `None`: it is found by its id, or by its time. */
            name?: string | null;
            /** @description Whether the server is stopped for it and started again: its sessions end, and unlogged tables keep their rows. */
            quiesce?: boolean;
        };
        /** @description A token, as it is kept and shown. It holds no secret. */
        Token: {
            /**
             * Format: date-time
             * @description When it was made.
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When it ends by itself.
             */
            expires_at?: string | null;
            /** @description Its id, which outlives the name: branches belong to it. */
            id: string;
            /**
             * Format: int32
             * @description How many branches it may hold at a time.
             */
            max_branches: number;
            /**
             * Format: int32
             * @description How many connections it may have at a time.
             */
            max_connections: number;
            /**
             * Format: int64
             * @description The longest lease that it may ask for, in seconds.
             */
            max_ttl_s?: number | null;
            /** @description Its name. */
            name: string;
            /** @description Under which policies. */
            policies: components["schemas"]["Policy"][];
            /** @description What its holder may do. */
            role: components["schemas"]["Role"];
            /** @description Of which sources; none: of all. */
            sources: string[];
        };
        /** @description One branch among those that it was made of, and that were made of it. */
        TreeNode: {
            /**
             * Format: date-time
             * @description When it was leased.
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the lease ends.
             */
            expires_at: string;
            /**
             * Format: int32
             * @description The generation of the source.
             */
            generation: number;
            /** @description Its id. */
            id: string;
            /** @description The branch's name. */
            name: string;
            /**
             * Format: int64
             * @description Bytes that it wrote and that it or its snapshots and children still hold, where that is counted.
             */
            own_bytes?: number | null;
            parent?: components["schemas"]["Parent"] | null;
            /**
             * Format: int64
             * @description Bytes of its files that it shares with what it was made of.
             */
            shared_bytes?: number | null;
            /** @description Its snapshots, in the order of their times. */
            snapshots: components["schemas"]["SnapshotView"][];
            /** @description Its source. */
            source: string;
            /** @description As in the view of a branch. */
            state: string;
        };
        /**
         * @description A unit of time.
         * @enum {string}
         */
        Unit: "year" | "month" | "day" | "hour";
        /** @description How a generation was taken to a later major version. */
        Upgraded: {
            /** @description The version of that generation's server. */
            from_version: string;
            /**
             * Format: int32
             * @description The generation of that source.
             */
            generation: number;
            /** @description What it leaves to be done: extensions of which a later version is installed. */
            outdated_extensions: string[];
            /** @description What `pg_upgrade` printed, line by line. */
            output: string[];
            /** @description The source that it was made of. */
            source: string;
            /**
             * Format: int64
             * @description How long `pg_upgrade` took, in milliseconds. It linked files, and copied none.
             */
            took_ms: number;
        };
        /** @description The reply to `GET /version`. */
        Version: {
            /** @description The daemon's version. */
            version: string;
        };
        /**
         * @description How volumes are cloned.
         * @enum {string}
         */
        VolumeKind: "btrfs" | "reflink" | "copy";
        /** @description Whether something is limited here. */
        Wall: {
            /** @description How, or why not. */
            detail: string;
            /** @description Whether it is. */
            holds: boolean;
        };
        /**
         * @description One table, in the source and in a branch. What is absent could not be read; `left_out` of the fingerprints, or
         *     `not_read`, say why.
         */
        WatchedTable: {
            /** @description Whether the branch has other rows than the source had. */
            branch_differs?: boolean | null;
            branch_now?: components["schemas"]["ContentHash"] | null;
            /** @description Its name as in the contents of fingerprints, `database.schema.table`. */
            name: string;
            /** @description Why it was not read in the branch. */
            not_read?: string | null;
            source_at_import?: components["schemas"]["ContentHash"] | null;
            source_now?: components["schemas"]["ContentHash"] | null;
            /** @description Whether the source has the rows that it had; absent where one of the two is not known. */
            source_unchanged?: boolean | null;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;

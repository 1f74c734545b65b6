/** Written by generate.js out of the OpenAPI document: do not edit. */

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
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
        /** @description A column of a result. */
        ResultColumn: {
            /** @description Its name. */
            name: string;
            /** @description The name of its type. */
            type: string;
        };
        /** @description One thing that sanitising did to a snapshot, or left out of it. */
        Sanitised: {
            /** @description What was done: `dropped`, `disabled`, `removed`, ... */
            action: string;
            /** @description What kind of thing: `subscription`, `user mapping`, `setting`, `role`, `job`, `function`, ... */
            kind: string;
            /** @description Which one. */
            object: string;
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

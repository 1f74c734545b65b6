-- The two schemas, which the installation has made, or found to be its own. Having USAGE on `df` is what lets a role use
-- durable functions; `df_run` is the worker's alone.
REVOKE ALL ON SCHEMA df FROM PUBLIC;
REVOKE ALL ON SCHEMA df_run FROM PUBLIC;
COMMENT ON SCHEMA df IS 'durable functions';

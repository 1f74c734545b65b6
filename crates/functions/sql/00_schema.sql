-- The two schemas. Having USAGE on `df` is what lets a role use durable functions; `df_run` is the worker's alone.
CREATE SCHEMA IF NOT EXISTS df;
CREATE SCHEMA IF NOT EXISTS df_run;
REVOKE ALL ON SCHEMA df FROM PUBLIC;
REVOKE ALL ON SCHEMA df_run FROM PUBLIC;
COMMENT ON SCHEMA df IS 'durable functions';
COMMENT ON SCHEMA df_run IS 'durable functions: one executor a submitting role; no role but the worker has any right here';

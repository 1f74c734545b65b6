-- Applies what was brought to this schema, in the transaction that it is called in, and says what came of it. It runs as whoever calls
-- it, which is the role that brought it: nobody else has a right here. What it does stands in `plan`, which the program wrote beside it
-- out of the same statements that an application from outside sends; C13 to C19 of docs/design/change-sets.md.
--
-- Stage 0 is looked at first, then the orders 1 and 2 are tried until one works, and stage 9 writes down that it is done.
CREATE FUNCTION {{home}}.run() RETURNS pg_catalog.jsonb LANGUAGE plpgsql VOLATILE AS $run$
DECLARE
    -- What is set while rows are written, since triggers and defaults may rely on it: what the role has otherwise.
    pins CONSTANT pg_catalog.text[] := '{{pins}}'::pg_catalog.text[];
    usual pg_catalog.text[] := '{}'::pg_catalog.text[];
    wanted pg_catalog.int4;
    line pg_catalog.record;
    found pg_catalog.record;
    many pg_catalog.int8;
    text_found pg_catalog.text;
    yes pg_catalog.bool;
    inserted pg_catalog.int8 := 0;
    updated pg_catalog.int8 := 0;
    deleted pg_catalog.int8 := 0;
    sequences pg_catalog.int8 := 0;
    conflicts pg_catalog.jsonb := '[]'::pg_catalog.jsonb;
    bytes pg_catalog.int8 := 0;
    more pg_catalog.bool := false;
    is_done pg_catalog.bool := false;
    first_code pg_catalog.text;
    first_message pg_catalog.text;
    code pg_catalog.text;
    message pg_catalog.text;
    detail pg_catalog.text;
    hint pg_catalog.text;
    doing pg_catalog.text;
BEGIN
    FOR place IN 1 .. pg_catalog.array_length(pins, 1) BY 2 LOOP
        usual := pg_catalog.array_append(usual, pg_catalog.current_setting(pins[place]));
        text_found := pg_catalog.set_config(pins[place], pins[place OPERATOR(pg_catalog.+) 1], true);
    END LOOP;
    -- From here on names mean what the system means.
    text_found := set_config('row_security', 'off', true);
    text_found := set_config('lock_timeout', '{{lock_ms}}', true);
    PERFORM pg_advisory_xact_lock({{lock}});
    FOR found IN EXECUTE {{registry_trusted}} LOOP
        IF NOT found.is_table OR NOT found.is_trusted THEN
            RETURN jsonb_build_object('status', 'refused', 'doing', 'looking for the table of applied change sets', 'message',
                'it is not a table of this role, of a superuser or of the database''s owner: look at who made it, and remove or transfer it');
        END IF;
    END LOOP;
    FOR found IN EXECUTE {{registry_entry}} LOOP
        RETURN jsonb_build_object('status', 'already-applied', 'at', found.applied_at, 'by', found.applied_by);
    END LOOP;
    FOREACH wanted IN ARRAY ARRAY[0, 1, 2, 9] LOOP
        CONTINUE WHEN wanted = 2 AND is_done;
        IF wanted = 9 AND NOT is_done THEN
            RETURN jsonb_build_object('status', 'refused', 'message', first_message, 'code', first_code);
        END IF;
        BEGIN
            inserted := CASE WHEN wanted = 9 THEN inserted ELSE 0 END;
            updated := CASE WHEN wanted = 9 THEN updated ELSE 0 END;
            deleted := CASE WHEN wanted = 9 THEN deleted ELSE 0 END;
            FOR line IN SELECT p.kind, p.doing, p.sql, p.expected, p.about FROM {{home}}.plan p
                        WHERE p.stage = wanted ORDER BY p.n LOOP
                doing := line.doing;
                CASE line.kind
                WHEN 'same' THEN
                    EXECUTE line.sql INTO text_found;
                    IF text_found IS DISTINCT FROM line.about ->> 'is' THEN
                        RAISE EXCEPTION 'definitions' USING ERRCODE = 'DUDEF';
                    END IF;
                WHEN 'run' THEN
                    EXECUTE line.sql;
                WHEN 'pin', 'usual' THEN
                    FOR place IN 1 .. array_length(pins, 1) BY 2 LOOP
                        text_found := set_config(pins[place],
                            CASE line.kind WHEN 'pin' THEN pins[place + 1] ELSE usual[(place + 1) / 2] END, true);
                    END LOOP;
                WHEN 'conflicts' THEN
                    FOR found IN EXECUTE 'SELECT to_jsonb(q) AS row FROM (' || line.sql || ') q' LOOP
                        CONTINUE WHEN found.row ->> 'rows' = '0';
                        bytes := bytes + octet_length(found.row::text);
                        -- What is told has to fit into the result of a step.
                        IF jsonb_array_length(conflicts) >= {{listed_max}} OR bytes > {{told_max}} THEN
                            more := true;
                            EXIT;
                        END IF;
                        conflicts := conflicts || jsonb_build_array(line.about || jsonb_build_object('row', found.row));
                    END LOOP;
                WHEN 'refuse' THEN
                    IF more OR jsonb_array_length(conflicts) > 0 THEN
                        RAISE EXCEPTION 'conflicts' USING ERRCODE = 'DUCON';
                    END IF;
                WHEN 'write' THEN
                    EXECUTE line.sql;
                    GET DIAGNOSTICS many = ROW_COUNT;
                    IF many <> line.expected THEN
                        RAISE EXCEPTION '%', format('%s reached %s rows, and the change set has %s; a trigger, a rule or a cascade did '
                            'something else with them, and `--triggers off` keeps triggers from it', line.doing, many, line.expected)
                            USING ERRCODE = 'DUROW';
                    END IF;
                    inserted := inserted + CASE WHEN line.about ->> 'what' = 'inserted' THEN many ELSE 0 END;
                    updated := updated + CASE WHEN line.about ->> 'what' = 'updated' THEN many ELSE 0 END;
                    deleted := deleted + CASE WHEN line.about ->> 'what' = 'deleted' THEN many ELSE 0 END;
                WHEN 'sequence' THEN
                    -- Moved on, never back: what it gives next here, and there.
                    EXECUTE line.sql INTO yes;
                    IF yes THEN
                        EXECUTE line.about ->> 'move';
                        sequences := sequences + 1;
                    END IF;
                WHEN 'mark' THEN
                    EXECUTE line.sql USING inserted, updated, deleted;
                END CASE;
            END LOOP;
            is_done := is_done OR wanted IN (1, 2);
        EXCEPTION
            WHEN SQLSTATE 'DUCON' THEN
                RETURN jsonb_build_object('status', 'conflicts', 'conflicts', conflicts, 'more', more);
            WHEN SQLSTATE 'DUDEF' THEN
                RETURN jsonb_build_object('status', 'definitions');
            -- Not for what is written: somebody holds a lock, or the server is ending. Whoever runs this tries again.
            WHEN lock_not_available OR transaction_rollback OR operator_intervention OR insufficient_resources THEN
                RAISE;
            WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
                    hint = PG_EXCEPTION_HINT;
                text_found := set_config('search_path', 'pg_catalog, pg_temp', true);
                message := concat_ws('; ', doing || ' failed: ' || message, nullif(detail, ''), nullif(hint, ''));
                IF wanted NOT IN (1, 2) THEN
                    -- The step fails as a whole, so nothing of it stays.
                    RAISE EXCEPTION '%', message USING ERRCODE = code;
                END IF;
                -- The first order is the one that people would expect.
                first_code := coalesce(first_code, code);
                first_message := coalesce(first_message, left(message, {{message_max}}));
        END;
    END LOOP;
    RETURN jsonb_build_object('status', 'applied', 'inserted', inserted, 'updated', updated, 'deleted', deleted, 'sequences', sequences);
END $run$

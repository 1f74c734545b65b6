-- Cron expressions are checked where they are written, so that a mistake shows before anything starts. Five fields:
-- minute, hour, day of the month, month, weekday. A field is a list of `*`, numbers, names, ranges and steps.

-- The numbers that one field stands for, or what is wrong with it. `names` are the names of the numbers from
-- `first_name` on.
CREATE OR REPLACE FUNCTION df._cron_field(field text, what text, low int, high int, names text[], first_name int,
    OUT numbers int[], OUT problem text)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    item text;
    parts text[];
    value int;
    from_to int[];
    step int;
BEGIN
    numbers := '{}';
    FOREACH item IN ARRAY string_to_array(lower(field), ',') LOOP
        parts := regexp_match(item, '^(?:(\*)|(\d{1,2}|[a-z]+)(?:-(\d{1,2}|[a-z]+))?)(?:/(\d{1,3}))?$');
        IF parts IS NULL THEN
            problem := format('%L is not a valid %s: write *, a number, a range a-b, a step */n or a-b/n, or a list '
                'of them', item, what);
            RETURN;
        END IF;
        from_to := ARRAY[low, high];
        IF parts[1] IS NULL THEN
            FOR i IN 1..2 LOOP
                CONTINUE WHEN parts[i + 1] IS NULL;
                value := CASE WHEN parts[i + 1] ~ '^\d' THEN parts[i + 1]::int
                    ELSE array_position(names, parts[i + 1]) - 1 + first_name END;
                IF value IS NULL OR value NOT BETWEEN low AND high THEN
                    problem := format('%L is not a valid %s: it goes from %s to %s%s', parts[i + 1], what, low, high,
                        ', or ' || names[1] || ' to ' || names[cardinality(names)]);
                    RETURN;
                END IF;
                from_to[i] := value;
            END LOOP;
            IF parts[3] IS NULL AND parts[4] IS NULL THEN
                from_to[2] := from_to[1];
            ELSIF parts[3] = 'sun' THEN
                -- A week may also end with Sunday: sat-sun.
                from_to[2] := CASE WHEN from_to[1] > 0 THEN 7 ELSE 0 END;
            END IF;
            IF from_to[1] > from_to[2] THEN
                problem := format('the range %L in the %s ends before it begins', item, what);
                RETURN;
            END IF;
        END IF;
        step := coalesce(parts[4]::int, 1);
        IF step < 1 OR step > high THEN
            problem := format('the step in %L is not between 1 and %s', item, high);
            RETURN;
        END IF;
        numbers := numbers || ARRAY(SELECT generate_series(from_to[1], from_to[2], step));
    END LOOP;
    IF numbers = '{}' THEN
        problem := format('the %s is empty', what);
    END IF;
END $$;

-- What is wrong with a cron expression; NULL when it can be used.
CREATE OR REPLACE FUNCTION df._cron_problem(cron text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    fields CONSTANT text[] := regexp_split_to_array(btrim(cron, E' \t\r\n'), '[ \t\r\n]+');
    whats CONSTANT text[] := ARRAY['minute', 'hour', 'day of the month', 'month', 'weekday'];
    lows CONSTANT int[] := ARRAY[0, 0, 1, 1, 0];
    highs CONSTANT int[] := ARRAY[59, 23, 31, 12, 7];
    parsed record;
    days int[];
    months int[];
BEGIN
    IF cardinality(fields) <> 5 OR fields[1] = '' THEN
        RETURN format('the cron expression %L must have five fields: minute hour day month weekday', cron);
    END IF;
    FOR i IN 1..5 LOOP
        parsed := df._cron_field(fields[i], whats[i], lows[i], highs[i],
            CASE i WHEN 4 THEN '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}'::text[]
                WHEN 5 THEN '{sun,mon,tue,wed,thu,fri,sat}'::text[] END,
            CASE i WHEN 4 THEN 1 ELSE 0 END);
        IF parsed.problem IS NOT NULL THEN
            RETURN format('the cron expression %L cannot be used: %s', cron, parsed.problem);
        END IF;
        IF i = 3 THEN
            days := parsed.numbers;
        ELSIF i = 4 THEN
            months := parsed.numbers;
        END IF;
    END LOOP;
    -- With a weekday the date need not exist: either of the two is enough.
    IF fields[5] ~ '^\*' AND NOT EXISTS (
        SELECT FROM unnest(days) AS day, unnest(months) AS month
        WHERE day <= (ARRAY[31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[month])
    THEN
        RETURN format('the cron expression %L names a day that no such month has: it would never come', cron);
    END IF;
    RETURN NULL;
END $$;

-- The name of a time zone, or NULL when the server knows none of that name. Abbreviations such as CEST are no names:
-- they do not say when the clock changes.
CREATE OR REPLACE FUNCTION df._time_zone(name text) RETURNS text
LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    IF upper(name) = 'UTC' THEN
        RETURN 'UTC';
    END IF;
    IF name !~ '^[A-Za-z][A-Za-z0-9+_/-]*$' OR name ~* '^(posix|right)/' THEN
        RETURN NULL;
    END IF;
    -- pg_timezone_names opens every file of the time zone database. Neither an abbreviation nor a rule such as EST5EDT
    -- has a slash and no digit, so that one look is enough for most names.
    IF name ~ '/' AND name !~ '\d' THEN
        PERFORM now() AT TIME ZONE name;
        RETURN name;
    END IF;
    RETURN (SELECT z.name FROM pg_catalog.pg_timezone_names z WHERE lower(z.name) = lower(_time_zone.name) LIMIT 1);
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN NULL;
END $$;

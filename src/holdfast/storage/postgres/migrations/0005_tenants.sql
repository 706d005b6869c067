-- Tenants are kept apart by the database too, whatever a statement forgets: without a tenant there is nothing to see.
-- Whoever owns the tables, and only they, may look after all of them, and only where they say so.

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['streams', 'events', 'keys', 'snapshots', 'session_rows', 'outbox_rows', 'blob_rows', 'bodies',
                                'pieces', 'blobs'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant_alone ON %I '
                       'USING (tenant = nullif(current_setting(''holdfast.tenant'', true), ''''))', name);
        EXECUTE format('CREATE POLICY maintenance ON %I TO CURRENT_USER '
                       'USING (current_setting(''holdfast.every_tenant'', true) = ''on'')', name);
    END LOOP;
END $$;

-- Restored into another server, whose transactions count from lower down: what is there already lies before all of them. Whoever
-- opens the store asks, before anything is written; so it runs as whoever made the tables, and sees all of them.
CREATE FUNCTION begin_era() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM act_for(NULL);
    IF is_ahead() THEN
        PERFORM FROM store FOR UPDATE;
        IF is_ahead() THEN  -- nobody was first
            UPDATE store SET era = era + 1;
        END IF;
    END IF;
    PERFORM act_for('');
END $$;

CREATE FUNCTION is_ahead() RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce((SELECT e.xid >= pg_snapshot_xmax(pg_current_snapshot()) FROM events e WHERE e.era = (SELECT era FROM store)
                     ORDER BY e.era DESC, e.xid DESC LIMIT 1), false);
$$;

DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION begin_era() SET search_path = %I, pg_temp', current_schema());
END $$;

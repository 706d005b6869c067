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

-- Whether this history's node measured the run itself: only such figures come back into new runs.
ALTER TABLE run ADD COLUMN own INTEGER NOT NULL DEFAULT 1;
UPDATE run SET own = 0 WHERE json_extract(record, '$.machine.source') = 'import';
-- What a list, a label or a new run asks for, whatever the number of runs.
CREATE INDEX run_host ON run (host, started DESC, id DESC);
CREATE INDEX label_value ON label (value, key);
CREATE INDEX measurement_test ON measurement (test, run);

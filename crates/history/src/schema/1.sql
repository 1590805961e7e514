CREATE TABLE run (
    id TEXT PRIMARY KEY,
    started TEXT NOT NULL,
    seconds REAL NOT NULL,
    complete INTEGER NOT NULL,
    host TEXT,
    command TEXT NOT NULL,
    version TEXT NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX run_started ON run (started DESC, id DESC);
CREATE TABLE label (
    run TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run, key)
) STRICT;
CREATE TABLE measurement (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    gauge TEXT NOT NULL,
    test TEXT NOT NULL,
    name TEXT NOT NULL,
    unit TEXT NOT NULL,
    value REAL,
    median REAL,
    n INTEGER NOT NULL,
    status TEXT NOT NULL,
    category TEXT NOT NULL
) STRICT;
CREATE INDEX measurement_run ON measurement (run, position);
CREATE TABLE sample (
    measurement INTEGER NOT NULL REFERENCES measurement (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (measurement, position)
) STRICT, WITHOUT ROWID;

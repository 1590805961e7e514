-- Runs in the tables of version 2 of the database: one of the node, one imported. Never changed once
-- released: databases like this one are out there then.
PRAGMA user_version = 2;
INSERT INTO run VALUES ('01KA0000000000000000000001', '2026-11-21T05:00:00Z', 9.5, 1, 'n01',
    'stream', '0.1.0',
    '{"schema":"nodegauge/1","id":"01KA0000000000000000000001","started":"2026-11-21T05:00:00Z","seconds":9.5,"complete":true,"tool":{"version":"0.1.0","commit":null},"command":["stream"],"labels":{"nps":"4"},"machine":{"host":"n01","processor":{"model":null,"microarchitecture":null,"sockets":1,"cores":2,"threads":2,"flops_per_cycle":null,"hz":null},"caches":[],"numa_nodes":[],"memory":{"bytes":null,"available":null,"channels":null,"transfers_per_s":null,"theoretical":null},"peak_flops":null,"kernel":null,"virtual":null},"findings":[],"measurements":[{"gauge":"memory","test":"stream","name":"triad","unit":"B/s","value":78400000000.0,"summary":null,"samples":[78400000000.0,78100000000.0],"config":{},"quoted":"best","traffic":null,"category":"variant","limit":null,"validity":{"status":"valid","reasons":[]}}]}');
INSERT INTO label VALUES ('01KA0000000000000000000001', 'nps', '4');
INSERT INTO measurement VALUES (1, '01KA0000000000000000000001', 0, 'memory', 'stream', 'triad',
    'B/s', 78400000000.0, NULL, 2, 'valid', 'variant');
INSERT INTO run VALUES ('01KA0000000000000000000002', '2026-11-21T06:00:00Z', 9.5, 1, 'n01',
    'history import a.log', '0.1.0',
    '{"schema":"nodegauge/1","id":"01KA0000000000000000000002","started":"2026-11-21T06:00:00Z","seconds":9.5,"complete":true,"tool":{"version":"0.1.0","commit":null},"command":["history","import","a.log"],"labels":{},"machine":{"source":"import","host":"n01","processor":{"model":null,"microarchitecture":null,"sockets":1,"cores":2,"threads":2,"flops_per_cycle":null,"hz":null},"caches":[],"numa_nodes":[],"memory":{"bytes":null,"available":null,"channels":null,"transfers_per_s":null,"theoretical":null},"peak_flops":null,"kernel":null,"virtual":null},"findings":[],"measurements":[{"gauge":"memory","test":"stream","name":"triad","unit":"B/s","value":78400000000.0,"summary":null,"samples":[78400000000.0,78100000000.0],"config":{},"quoted":"best","traffic":null,"category":"variant","limit":null,"validity":{"status":"valid","reasons":[]}}]}');
INSERT INTO measurement VALUES (2, '01KA0000000000000000000002', 0, 'memory', 'stream', 'triad',
    'B/s', 78400000000.0, NULL, 2, 'valid', 'variant');

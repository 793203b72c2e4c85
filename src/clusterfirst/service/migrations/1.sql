CREATE TABLE instances (hash TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE plans (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    finished REAL,
    name TEXT NOT NULL,
    origin TEXT NOT NULL,
    parent TEXT,
    version INTEGER NOT NULL,
    instance TEXT NOT NULL REFERENCES instances (hash),
    request TEXT NOT NULL,
    status TEXT NOT NULL,
    answer TEXT
);
CREATE INDEX plans_by_age ON plans (created);
CREATE INDEX plans_by_instance ON plans (instance);
CREATE TABLE keys (
    key TEXT PRIMARY KEY,
    body TEXT NOT NULL,
    plan TEXT NOT NULL REFERENCES plans (id) ON DELETE CASCADE
);
CREATE TABLE cities (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    name TEXT NOT NULL,
    depot TEXT NOT NULL,
    defaults TEXT NOT NULL,
    locations TEXT NOT NULL
);
CREATE TABLE days (
    city TEXT NOT NULL REFERENCES cities (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    created REAL NOT NULL,
    orders TEXT NOT NULL,
    PRIMARY KEY (city, name)
);

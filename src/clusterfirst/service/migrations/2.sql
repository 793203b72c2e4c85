CREATE TABLE lessons (
    city TEXT PRIMARY KEY,
    hours REAL NOT NULL,
    status TEXT NOT NULL,
    created REAL NOT NULL,
    stage TEXT NOT NULL,
    line TEXT NOT NULL
);

CREATE TABLE used_keys (
    key TEXT PRIMARY KEY, body TEXT NOT NULL, made TEXT NOT NULL
);
INSERT INTO used_keys SELECT key, body, plan FROM keys;
DROP TABLE keys;

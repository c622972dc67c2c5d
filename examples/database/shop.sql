CREATE TABLE clients (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE invoices (
  id INTEGER PRIMARY KEY,
  client_id INTEGER NOT NULL REFERENCES clients (id),
  state TEXT NOT NULL,
  total REAL NOT NULL
);
CREATE INDEX invoices_by_state ON invoices (state);
INSERT INTO clients VALUES (1, 'Acme'), (2, 'Globex');
INSERT INTO invoices VALUES (1, 1, 'open', 120.5), (2, 1, 'paid', 80), (3, 2, 'open', 990);

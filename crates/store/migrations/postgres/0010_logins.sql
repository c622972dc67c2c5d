-- The twin of migrations/sqlite/0010: the two are the same.

-- Until when one server has the right to replace the value: what a login granted can be renewed only once.
ALTER TABLE secrets ADD COLUMN claimed_until BIGINT;

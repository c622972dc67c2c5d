-- The set of the `apply` command that created the document. Null if no set created it.
ALTER TABLE documents ADD COLUMN apply_set TEXT;
CREATE INDEX documents_by_apply_set ON documents (realm_id, apply_set) WHERE apply_set IS NOT NULL;

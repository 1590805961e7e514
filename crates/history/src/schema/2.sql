-- The samples are in the record, which is kept whole.
DROP TABLE sample;

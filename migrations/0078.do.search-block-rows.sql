-- The terms of a block are read only to write the index, so they stand apart: a search of a frequent word then reads
-- the rows of ten million emails in 50 MB instead of a gigabyte.
alter table search_blocks set (toast_tuple_target = 128);

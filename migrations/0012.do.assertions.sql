-- What a statement checks of itself before it commits.

-- Fails with assert_failure (P0004), which rolls the statement back. In a `where` as
-- `(select assert_equal(...))` it runs once, before the first row comes out.
create function assert_equal(actual bigint, expected bigint, what text) returns boolean
language plpgsql as
$$
begin
  if actual is distinct from expected then
    raise exception using errcode = 'assert_failure',
      message = format('%s: %s instead of %s', what, actual, expected);
  end if;
  return true;
end
$$;

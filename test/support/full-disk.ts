/**
 * A database that finds its disk full whenever an email is stored, while `fill` says so. The trigger is made once and
 * stays: to make or drop one takes locks that meet transactions of a working service in a deadlock.
 */
type Sql = (text: string) => Promise<unknown>;

export type FullDisk = { fill(): Promise<unknown>; empty(): Promise<unknown> };

/** @param sql runs statements in the database, as its owner */
export async function addFullDisk(sql: Sql): Promise<FullDisk> {
  await sql(`
    create table full_disk (is_full boolean not null);
    insert into full_disk values (false);
    create function find_room() returns trigger language plpgsql security definer set search_path = public as $$
    begin
      if (select is_full from full_disk) then
        raise exception 'could not extend file: No space left on device' using errcode = 'disk_full';
      end if;
      return new;
    end $$;
    create trigger find_room before insert on emails for each row execute function find_room();`);
  return {
    fill: () => sql('update full_disk set is_full = true'),
    empty: () => sql('update full_disk set is_full = false'),
  };
}

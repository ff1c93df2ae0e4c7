/** Views: searches in the list of emails that a member keeps under a name, per project. */
import type { Queryable } from '../../database/database.ts';
import { newId } from '../../database/ids.ts';

export const VIEWS_MAX = 50;

export type MemberView = { id: string; name: string; q: string; createdAt: Date };

export type ViewOwner = { memberId: string; projectId: string };

const COLUMNS = `id, name, q, created_at as "createdAt"`;

const LIST = `
select ${COLUMNS} from member_views
 where member_id = $1 and project_id = $2
 order by lower(name), id
 limit ${VIEWS_MAX}`;

export async function listViews(
  db: Queryable,
  { memberId, projectId }: ViewOwner,
): Promise<MemberView[]> {
  return db.query<MemberView>(LIST, [memberId, projectId]);
}

const SAVE = `
insert into member_views (member_id, project_id, id, name, q, created_at)
select $1, $2, $3, $4, $5, app_now()
 where (select count(*) from member_views
         where member_id = $1 and project_id = $2 and name <> $4) < ${VIEWS_MAX}
on conflict (member_id, project_id, name) do update set q = excluded.q
returning ${COLUMNS}`;

/** Saves a view, and replaces the one with this name. Returns null when the member has VIEWS_MAX others. */
export async function saveView(
  db: Queryable,
  { memberId, projectId }: ViewOwner,
  { name, q }: Pick<MemberView, 'name' | 'q'>,
): Promise<MemberView | null> {
  return (await db.query<MemberView>(SAVE, [memberId, projectId, newId(), name, q]))[0] ?? null;
}

const DELETE = `
delete from member_views where member_id = $1 and project_id = $2 and id = $3 returning 1`;

export async function deleteView(
  db: Queryable,
  { memberId, projectId }: ViewOwner,
  id: string,
): Promise<boolean> {
  return (await db.query(DELETE, [memberId, projectId, id])).length > 0;
}

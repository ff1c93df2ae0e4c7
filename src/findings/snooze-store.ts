/**
 * Snoozes: findings of the overview that a member snoozed until a time, for all members of the project. A snooze hides
 * nothing that alarms and conditions report.
 */
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';

/** Limit on the snoozes of a project and environment at a time. */
export const SNOOZES_MAX = 200;

export type Snooze = {
  finding: string;
  until: Date;
  createdAt: Date;
  /** Null when the member was removed. */
  by: { id: string; name: string | null; email: string } | null;
};

const COLUMNS = `
       snooze.finding, snooze.until, snooze.created_at as "createdAt",
       case when members.id is not null then
         json_build_object('id', members.id, 'name', members.name, 'email', members.email) end as by`;

const LIST = `
select ${COLUMNS}
  from finding_snoozes snooze
  left join members on members.id = snooze.member_id
 where snooze.project_id = $1 and snooze.environment = $2 and snooze.until > app_now()
 order by snooze.until, snooze.finding
 limit ${SNOOZES_MAX}`;

/** Returns the snoozes that have not ended. */
export function listSnoozes(db: Queryable, { projectId, environment }: Scope): Promise<Snooze[]> {
  return db.query<Snooze>(LIST, [projectId, environment]);
}

const SAVE = `
with gone as (
  delete from finding_snoozes
   where project_id = $1 and environment = $2 and until <= app_now() and finding <> $3
),
snooze as (
  insert into finding_snoozes (project_id, environment, finding, until, member_id, created_at)
  select $1, $2, $3, $4, $5, app_now()
   where (select count(*) from finding_snoozes
           where project_id = $1 and environment = $2 and until > app_now() and finding <> $3) < ${SNOOZES_MAX}
  on conflict (project_id, environment, finding) do update
     set until = excluded.until, member_id = excluded.member_id, created_at = excluded.created_at
  returning *
)
select ${COLUMNS} from snooze left join members on members.id = snooze.member_id`;

/** Snoozes a finding, or changes until when. Returns null when the project has SNOOZES_MAX others. */
export async function saveSnooze(
  db: Queryable,
  { projectId, environment }: Scope,
  { finding, until, memberId }: { finding: string; until: Date; memberId: string },
): Promise<Snooze | null> {
  const values = [projectId, environment, finding, until, memberId];
  return (await db.query<Snooze>(SAVE, values))[0] ?? null;
}

const END = `
delete from finding_snoozes where project_id = $1 and environment = $2 and finding = $3 and until > app_now()
returning 1`;

/** @returns whether the finding was snoozed */
export async function endSnooze(
  db: Queryable,
  { projectId, environment }: Scope,
  finding: string,
): Promise<boolean> {
  return (await db.query(END, [projectId, environment, finding])).length > 0;
}

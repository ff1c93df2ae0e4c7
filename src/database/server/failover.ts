/**
 * Detects a fail-over of the database to another server, and counts the emails it lost.
 *
 * A promoted standby begins a new timeline. It lacks commits that the old primary acknowledged and an asynchronous
 * standby had not received. They cannot be restored, so they are logged and counted.
 */
import { DatabaseUnavailable, type Queryable } from '../database.ts';

const ACCEPTS_WRITES = {
  name: 'writes',
  text: `select current_setting('transaction_read_only') = 'off' as "acceptsWrites"`,
};

/** Returns whether the server accepts writes, so is no standby and not read-only. @throws when it does not answer */
export async function acceptsWrites(db: Queryable): Promise<boolean> {
  const [row] = await db.query<{ acceptsWrites: boolean }>(ACCEPTS_WRITES);
  return row?.acceptsWrites === true;
}

const TIMELINE = {
  name: 'timeline',
  text: `
select case when pg_is_in_recovery() then null
            else left(pg_walfile_name(pg_current_wal_lsn()), 8) end as timeline`,
};

/**
 * Returns the current timeline of the database; null on a standby, or when a hosted service hides it.
 * @throws DatabaseUnavailable
 */
export async function readTimeline(db: Queryable): Promise<string | null> {
  try {
    const [row] = await db.query<{ timeline: string | null }>(TIMELINE);
    return row?.timeline ?? null;
  } catch (error) {
    if (error instanceof DatabaseUnavailable) throw error;
    return null;
  }
}

const FIND_MISSING = `
select accepted.id from unnest($1::uuid[], $2::uuid[]) as accepted(project_id, id)
 where not exists (select from emails
                    where emails.project_id = accepted.project_id and emails.environment in ('live', 'test')
                      and emails.id = accepted.id and emails.id = any($2::uuid[]))`;

/** Number of emails remembered. It covers the last seconds before a fail-over, which standbys may lack. */
const EMAILS_MAX = 50_000;
const ID_BYTES = 16;
const ENTRY_BYTES = 2 * ID_BYTES;
const EMAILS_PER_STATEMENT = 5_000;

/** Ids of the newest emails that this worker accepted, to find those that a fail-over lost. Takes 1.6 MB. */
export class RecentlyAccepted {
  readonly #entries = Buffer.alloc(EMAILS_MAX * ENTRY_BYTES);
  #count = 0;

  add(projectId: string, emailId: string): void {
    const offset = (this.#count % EMAILS_MAX) * ENTRY_BYTES;
    this.#entries.write((projectId + emailId).replaceAll('-', ''), offset, 'hex');
    this.#count += 1;
  }

  async findLost(db: Queryable): Promise<string[]> {
    const count = Math.min(this.#count, EMAILS_MAX);
    const lost: string[] = [];
    for (let from = 0; from < count; from += EMAILS_PER_STATEMENT) {
      const entries = Array.from(
        { length: Math.min(count - from, EMAILS_PER_STATEMENT) },
        (_, at) => this.#entryAt(from + at),
      );
      const rows = await db.query<{ id: string }>(FIND_MISSING, [
        entries.map((entry) => entry.slice(0, 2 * ID_BYTES)),
        entries.map((entry) => entry.slice(2 * ID_BYTES)),
      ]);
      lost.push(...rows.map(({ id }) => id));
    }
    return lost;
  }

  #entryAt(index: number): string {
    return this.#entries.toString('hex', index * ENTRY_BYTES, (index + 1) * ENTRY_BYTES);
  }
}

/**
 * Maxima of keys, projects, members and suppressions, which members and keys create through the API. Other maxima are
 * checked where the rows are created: domains (domains/domain-store.ts), webhooks (webhooks/endpoint-store.ts),
 * templates (templates/template-store.ts), views (accounts/members/view-store.ts) and sessions, where the oldest one
 * ends (accounts/sessions/session-store.ts). docs/configuration.md lists all.
 *
 * Nothing is locked: requests that arrive at the same moment may exceed a maximum by their number. The command line
 * has no maximum, and mail servers and recipients can always add suppressions.
 */
import { MaximumReached } from '../../core/refusals.ts';
import { type Scope, scopeKey } from '../../core/scope.ts';
import type { World } from '../../lib/world.ts';
import type { Queryable } from '../../database/database.ts';

export const KEYS_MAX = 1_000;
export const PROJECTS_MAX = 100;
/** Includes open invitations. */
export const MEMBERS_MAX = 500;

/** Stops counting at the maximum. */
const countUpToMax = (rows: string): string => `
select count(*)::int as count from (select from ${rows} limit $1) counted`;

const COUNT_KEYS = countUpToMax(`api_keys
 where project_id = $2 and environment = $3 and member_id is null and revoked_at is null
   and (expires_at is null or expires_at > app_now())`);
const COUNT_SUPPRESSIONS = countUpToMax('suppressions where project_id = $2 and environment = $3');
const COUNT_PROJECTS = countUpToMax('projects where organization_id = $2');
const COUNT_MEMBERS = countUpToMax(`(
  select from members where organization_id = $2
   union all
  select from invitations
   where organization_id = $2 and expires_at > app_now() and email_key <> $3) people`);

async function isBelow(
  db: Queryable,
  statement: string,
  { max, of }: { max: number; of: readonly string[] },
): Promise<boolean> {
  const [row] = await db.query<{ count: number }>(statement, [max, ...of]);
  return (row?.count ?? 0) < max;
}

/** @throws MaximumReached when the project may not create another key */
export async function checkKeysMax(db: Queryable, scope: Scope, max = KEYS_MAX): Promise<void> {
  const of = [scope.projectId, scope.environment];
  if (await isBelow(db, COUNT_KEYS, { max, of })) return;
  throw new MaximumReached(
    `A project has at most ${max} valid API keys in each environment; revoke one first.`,
  );
}

/** @throws MaximumReached when the organization may not create another project */
export async function checkProjectsMax(
  db: Queryable,
  organizationId: string,
  max = PROJECTS_MAX,
): Promise<void> {
  if (await isBelow(db, COUNT_PROJECTS, { max, of: [organizationId] })) return;
  throw new MaximumReached(
    `An organization has at most ${max} projects; ask the operator to create more (letterhaus projects create).`,
  );
}

/**
 * @param emailKey the invited address, whose earlier invitation is replaced and so does not count
 * @throws MaximumReached when the organization may not invite another member
 */
export async function checkMembersMax(
  db: Queryable,
  { organizationId, emailKey }: { organizationId: string; emailKey: string },
  max = MEMBERS_MAX,
): Promise<void> {
  if (await isBelow(db, COUNT_MEMBERS, { max, of: [organizationId, emailKey] })) return;
  throw new MaximumReached(
    `An organization has at most ${max} members and invitations; remove a member or revoke an invitation first.`,
  );
}

/** A count is used for this long, or until this worker has added this many rows. */
const COUNT_VALID_MS = 60_000;
const COUNT_VALID_ROWS = 20_000;
/** Milliseconds until a full list is counted again, because rows may have been deleted. */
const FULL_FOR_MS = 1_000;

type Count = { rows: number; atMs: number; addedSince: number };

/**
 * The maximum of suppressions. Counting a long list takes 50 ms, so a worker counts each list once a minute and adds
 * its own insertions. The workers may exceed the maximum by 20,000 each.
 */
export class SuppressionsMaximum {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #max: number;
  readonly #counts = new Map<string, Count>();

  constructor(world: Pick<World, 'monotonicMs'>, max: number) {
    this.#world = world;
    this.#max = max;
  }

  /**
   * Checks the maximum after `added` rows were inserted in this transaction.
   * @throws MaximumReached when there are too many
   */
  async check(tx: Queryable, scope: Scope, added: number): Promise<void> {
    const key = scopeKey(scope);
    const known = this.#counts.get(key);
    const count = known && this.#isValid(known) ? known : await this.#count(tx, scope, added);
    this.#counts.set(key, count);
    if (count.rows + count.addedSince + added > this.#max) {
      throw new MaximumReached(
        `A project has at most ${this.#max} suppressions in each environment: remove some first, or ask the operator to raise LETTERHAUS_SUPPRESSIONS_MAX.`,
      );
    }
    count.addedSince += added;
  }

  #isValid({ rows, atMs, addedSince }: Count): boolean {
    const isFull = rows + addedSince >= this.#max;
    const validMs = isFull ? FULL_FOR_MS : COUNT_VALID_MS;
    return this.#world.monotonicMs() - atMs < validMs && addedSince < COUNT_VALID_ROWS;
  }

  /** Counts the rows without the rows of this transaction. */
  async #count(tx: Queryable, { projectId, environment }: Scope, added: number): Promise<Count> {
    const limit = this.#max + added;
    const values = [limit, projectId, environment];
    const [row] = await tx.query<{ count: number }>(COUNT_SUPPRESSIONS, values);
    const rows = (row?.count ?? 0) - added;
    return { rows, atMs: this.#world.monotonicMs(), addedSince: 0 };
  }
}

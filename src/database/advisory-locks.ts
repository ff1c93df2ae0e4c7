/**
 * The numbers of all advisory locks, so that no two of them are the same. An advisory lock is for work that one process
 * of an installation does at a time. It ends with its session or transaction. Each database has locks of its own.
 *
 * The numbers never change: nodes of two versions use one database during an upgrade. Most are four letters in ASCII.
 * Only locks of single addresses have computed numbers (suppressions/suppression-store.ts).
 */
import type { Queryable } from './database.ts';

export const ADVISORY_LOCKS = {
  /** Migrations and new partitions: one node at a time (migration/migrate.ts). */
  migrations: 0x706f7374, // "post"
  /** The project, domain and key of the first start (accounts/keys/key-store.ts). */
  firstStart: 0x73656564, // "seed"
  /** The members and their roles: an organization keeps an owner (accounts/members/member-store.ts). */
  members: 0x6d656d62, // "memb"
  /** Adding deltas to counts: the limit on values of a dimension is exact (stats/stats-store.ts). */
  statsFold: 7_306_144_021,
  /** Building the indexes of the event stream (events/order-store.ts). */
  streamIndexes: 0x6f726465, // "orde"
  /** Making blocks for searches: no email is in two (emails/list/search-blocks-store.ts). */
  searchBlocks: 0x73726368, // "srch"
  /** Removing weeks past their retention. A move has it, too (retention/week-removal-store.ts). */
  retention: 0x72657465, // "rete"
  /** A restore or a move into this database (backup/store/restore-target.ts). */
  restore: 0x72737472, // "rstr"
  /** A move out of this database. Nodes remove the change log of a mover without it (move/change-log-store.ts). */
  move: 0x6d6f7665, // "move"
  /** While the mover has it, nodes neither claim nor send (move/source-store.ts). */
  movePause: 0x70617573, // "paus"
} as const;

/** Takes a lock for the session if no other session has it. @returns whether this session has it now */
export async function tryAdvisoryLock(
  db: Queryable,
  lock: keyof typeof ADVISORY_LOCKS,
): Promise<boolean> {
  const [row] = await db.query<{ isTaken: boolean }>(
    'select pg_try_advisory_lock($1) as "isTaken"',
    [ADVISORY_LOCKS[lock]],
  );
  return row?.isTaken === true;
}

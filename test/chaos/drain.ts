/**
 * Waits until no email and no webhook is open. To make retries due at once, it moves the clock of the database, as only
 * tests can.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Stage } from './stage.ts';

/** Open rows. `due` excludes webhook deliveries to suspended endpoints. */
type Open = { mail: number; hooks: number; due: number; leased: number };

const OPEN = `
select (select count(*) from queue)::int as mail,
       (select count(*) from webhook_queue)::int as hooks,
       ((select count(*) from queue where holder is null and due_at <= app_now())
        + (select count(*) from webhook_queue
             join webhook_endpoints on webhook_endpoints.id = webhook_queue.endpoint_id
            where holder is null and due_at <= app_now()
              and (blocked_until is null or blocked_until <= app_now())))::int as due,
       ((select count(*) from queue where holder is not null)
        + (select count(*) from webhook_queue where holder is not null))::int as leased`;

const STUCK = `select queue.*, app_now() as now from queue order by due_at limit 8`;

const POLL_EVERY_MS = 500;
/** Milliseconds without progress after which the clock jumps. */
const IDLE_AFTER_MS = 5_000;
const LOG_EVERY_MS = 5_000;
/** Milliseconds without progress after which the queue counts as stuck. */
const STUCK_AFTER_MS = 120_000;
/** Milliseconds of a jump, more than the longest wait between two attempts, which is four hours. */
const JUMP_MS = 5 * 3_600_000;
const JUMPS_MAX = 9;
/** Jumps without effect before a restart. Suspensions follow the clocks of the nodes, and a restart ends them. */
const VAIN_JUMPS = 2;

type DrainContext = {
  log: (line: string) => void;
  /** Restarts all nodes; null: no node may need a restart. */
  restart: (() => Promise<void>) | null;
};

/** @returns whether everything has ended */
export async function drain(stage: Stage, { log, restart }: DrainContext): Promise<boolean> {
  let best = Infinity;
  let progressAtMs = performance.now();
  let jumps = 0;
  let vainJumps = 0;
  let logAtMs = 0;
  while (performance.now() - progressAtMs < STUCK_AFTER_MS) {
    const [open] = (await stage.sql(OPEN)) as [Open];
    const left = open.mail + open.hooks;
    if (left === 0) return true;
    if (left < best) {
      best = left;
      vainJumps = 0;
      progressAtMs = performance.now();
    }
    if (performance.now() > logAtMs) {
      logAtMs = performance.now() + LOG_EVERY_MS;
      log(`open: ${JSON.stringify(open)}`);
    }
    // Due rows may still wait, because a failing destination is suspended.
    const isIdle = open.due === 0 || performance.now() - progressAtMs > IDLE_AFTER_MS;
    if (restart !== null && vainJumps === VAIN_JUMPS) {
      vainJumps = 0;
      log('the jumps have no effect: all nodes are restarted');
      await restart();
      progressAtMs = performance.now();
    } else if (isIdle && open.leased === 0 && jumps < JUMPS_MAX) {
      jumps += 1;
      vainJumps += 1;
      progressAtMs = performance.now();
      log(`${open.mail} emails and ${open.hooks} webhooks wait for later: the clock jumps`);
      await stage.databaseClock.move(JUMP_MS);
    }
    await delay(POLL_EVERY_MS);
  }
  log(JSON.stringify(await stage.sql(STUCK)));
  return false;
}

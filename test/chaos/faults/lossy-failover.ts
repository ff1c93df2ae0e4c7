/**
 * Simulates a fail-over to a standby that lacks the last commits, at the end of every run. It kills the database under
 * load and copies its cluster while it is down. The database comes back and stores more. Then it kills the database
 * again and puts the copy in its place. The commits in between are lost, although clients received their responses and
 * workers have the emails in memory. No service is restarted, and the queue must drain. ledger/excused.ts excuses the
 * emails that may be missing or repeated.
 */
import { cp, rename, rm, stat } from 'node:fs/promises';
import { isAlive, isZombie } from '../../../src/database/embedded/process.ts';
import { changeOwnerOfTree } from '../../../src/database/embedded/folders.ts';
import { childrenOf } from '../../support/processes.ts';
import { waitFor } from '../../support/wait.ts';
import { ENDPOINTS } from '../receivers/webhook-endpoints.ts';
import type { Load } from '../load/load.ts';
import type { Rewind } from '../ledger/excused.ts';
import type { Stage } from '../stage.ts';

/** Minimum of emails accepted before the copy, between copy and swap, and after the swap. */
const EMAILS = { before: 60, between: 100, after: 40 };
/** Copies above the number of emails in memory, so that the database also loses outcomes of the time in between. */
const COPIES_BETWEEN = 40;
const WITHIN_MS = 90_000;
const GONE_WITHIN_MS = 15_000;

type FailoverContext = { load: Load; log: (line: string) => void };

export async function rewindDatabase(
  stage: Stage,
  { load, log }: FailoverContext,
): Promise<Rewind> {
  const { pgDir } = stage;
  const copy = `${pgDir}-before`;
  const begun = load.accepted;
  load.goOn(EMAILS.before + EMAILS.between + EMAILS.after);
  await acceptedSince(load, begun, EMAILS.before);

  log('the database is killed and its cluster copied');
  const receivedBefore = new Map(
    ENDPOINTS.map(({ path }) => [path, new Set(stage.hooks.received(path).keys())]),
  );
  const fromMs = Date.now();
  await whileDown(stage, () => copyOwned(pgDir, copy));
  await stage.sql('select 1');
  const between = load.accepted;
  const copies = stage.receivers.copies().length;
  await acceptedSince(load, between, EMAILS.between);
  await waitFor(() => stage.receivers.copies().length >= copies + COPIES_BETWEEN, {
    what: 'copies that will be forgotten',
    timeoutMs: WITHIN_MS,
  });

  let toMs = Date.now();
  await whileDown(stage, async () => {
    toMs = Date.now();
    await rename(pgDir, `${pgDir}-after`);
    await rename(copy, pgDir);
  });
  log('the database is as it was then');
  await stage.sql('select 1');
  await acceptedSince(load, load.accepted, EMAILS.after);
  let isAnswered = false;
  void load.end().then(() => (isAnswered = true));
  await waitFor(() => isAnswered, { what: 'all clients', timeoutMs: WITHIN_MS });
  await rm(`${pgDir}-after`, { recursive: true });
  return { fromMs, toMs, firstAccepted: load.firstAccepted, receivedBefore };
}

async function acceptedSince(load: Load, since: number, count: number): Promise<void> {
  await waitFor(() => load.accepted >= since + count, {
    what: `${count} more emails to be accepted`,
    timeoutMs: WITHIN_MS,
  });
}

/**
 * Kills the database, acts, and lets it start again. The supervisor is stopped in between, because it would start the
 * database at once. Its workers go on.
 */
async function whileDown(stage: Stage, act: () => Promise<void>): Promise<void> {
  const [a] = stage.nodes;
  const supervisor = a.service.pid;
  a.signal(supervisor, 'SIGSTOP');
  try {
    const postmaster = stage.databasePid();
    if (postmaster === null) throw new Error('there is no database to kill');
    // The postmaster is stopped first. Otherwise it would notice the end of its children and shut down in order.
    a.signal(postmaster, 'SIGSTOP');
    const pids = [...(await childrenOf(postmaster)), postmaster];
    for (const pid of pids) a.signal(pid, 'SIGKILL');
    const isGone = (pid: number): boolean => !isAlive(pid) || isZombie(pid);
    await waitFor(() => pids.every(isGone), { what: 'no database', timeoutMs: GONE_WITHIN_MS });
    await act();
  } finally {
    a.signal(supervisor, 'SIGCONT');
  }
}

async function copyOwned(from: string, to: string): Promise<void> {
  await cp(from, to, { recursive: true });
  const { uid, gid } = await stat(from);
  if (process.geteuid?.() === 0) changeOwnerOfTree(to, { uid, gid });
}

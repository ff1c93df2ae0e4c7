/**
 * Sets the clock of the database back by some minutes after the faults, while mail waits. A fail-over to a standby that
 * is behind has the same effect. Mail that is due by the new time must be sent at once, not when the clock has caught
 * up.
 */
import { waitFor } from '../../support/wait.ts';
import type { Finding } from '../ledger/ledger-types.ts';
import type { Stage } from '../stage.ts';

const BACK_MS = 4 * 60_000;
const DRAINED_WITHIN_MS = 90_000;
/** Share of the recipients that may stay due, because their receiver is suspended for a moment. */
const LEFT_MAX = 0.1;

const DUE = `
select count(*)::int as due from queue where holder is null and due_at <= app_now()`;

/** @returns a finding when the backlog remains */
export async function stepClockBack(
  stage: Stage,
  { log }: { log: (line: string) => void },
): Promise<Finding[]> {
  const due = async (): Promise<number> => (await stage.sql(DUE))[0].due;
  await stage.databaseClock.move(-BACK_MS);
  // These recipients are due at the new time, which is before the due times that the workers claimed last.
  const { changed } = await stage.nodes[1].service.cliJson('queue', 'retry', '--all');
  log(`the clock goes back by ${BACK_MS / 60_000} minutes, and ${changed} recipients are due`);
  const isDrained = async (): Promise<boolean> => (await due()) <= changed * LEFT_MAX;
  const findings: Finding[] = await waitFor(isDrained, {
    what: 'the backlog to drain',
    timeoutMs: DRAINED_WITHIN_MS,
  }).then(
    () => [],
    async () => [
      { kind: 'stuck_after_clock_step', what: `${await due()} of ${changed} recipients stay due` },
    ],
  );
  await stage.databaseClock.move(BACK_MS);
  return findings;
}

/** The statements of claiming, releasing and of an operator, for statements.ts. */
import { newId } from '../../src/store/ids.ts';
import * as claims from '../../src/store/queue.ts';
import { holdClaims, releaseClaims } from '../../src/store/queue.ts';
import { changeQueueStep, QUEUE_START, takeOutStep } from '../../src/store/queue-changes.ts';
import type { Stage } from './statements.ts';

const NOBODY = '00000000-0000-0000-0000-000000000000';

export async function claimAndRelease({ db, holder }: Stage): Promise<void> {
  const from = new Date(0);
  const full = {
    fullProjects: [],
    fullQueues: [claims.tenantQueueKey(newId(), 'customers1.test')],
  };
  await claims.claimOldest(db.settling, { holder, max: 128, window: 128, from, ...full });
  const walk = { project: NOBODY, projects: 32, cursors: new Map(), from, oldest: 128 };
  const found = await claims.findQueues(db.settling, { ...walk, probes: 192 });
  const queues = found.flatMap(({ projectId, provider }) =>
    provider === null ? [] : [{ projectId, provider, max: 4 }],
  );
  const claimed = await claims.claimQueues(db.settling, { holder, queues, from });
  await holdClaims(db.settling, claimed.slice(0, 2), holder);
  const given = claimed.map((one) => ({ ...one, holder, delayMs: 0 }));
  await releaseClaims(db.settling, given);
}

export async function operate({ db, holder, sender }: Stage): Promise<void> {
  const selector = { emailId: null, domain: 'nobody.test', projectId: sender.projectId };
  for (const change of ['retry', 'hold', 'release'] as const) {
    await changeQueueStep(db, change, { selector, from: QUEUE_START });
  }
  await takeOutStep(db, holder, { selector, from: QUEUE_START });
}

/** The statements about conditions of the installation. */
import type { NewCondition } from '../../src/core/operator-events.ts';
import {
  clearCondition,
  countConditions,
  lapsedConditions,
  listConditions,
  raiseCondition,
} from '../../src/store/operator-conditions.ts';
import { enabledWebhooks, unreportedWebhooks } from '../../src/store/disabled-webhooks.ts';
import type { Stage } from './statements.ts';

export async function useConditions({ db }: Stage): Promise<void> {
  const condition: NewCondition = {
    type: 'disk.low',
    subject: 'mail1.example.org',
    message: 'The disk is nearly full.',
    remedy: 'Make room.',
    lapsesAfterMs: 600_000,
  };
  await raiseCondition(db, condition);
  await raiseCondition(db, condition);
  await listConditions(db, 10);
  await countConditions(db);
  await lapsedConditions(db);
  await clearCondition(db, condition);
  await unreportedWebhooks(db, 10);
  await enabledWebhooks(db);
}

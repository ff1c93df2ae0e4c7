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
import * as blocks from '../../src/store/provider-blocks.ts';
import type { Stage } from './statements.ts';

export async function useBlocks({ db }: Stage): Promise<void> {
  const key = { provider: 'google', about: 'domain', subject: 'acme.example' } as const;
  const rules = { afterRefusals: 1, firstMs: 0, longestMs: 1_000 };
  const refusal = { senderDomain: key.subject, subject: key.about, category: 'reputation' };
  await blocks.countRefusal(db, key, { ...refusal, reply: 'blocked', isProbe: false, rules });
  await blocks.takeProbe(db, key, { senderDomain: key.subject, firstMs: 0 });
  await blocks.leaveProbe(db, key, 0);
  await blocks.readBlocks(db, new Date(), 0);
  await blocks.listBlocks(db, 10);
  await blocks.probeNow(db, key.provider);
  await blocks.projectsSending(db, key.subject);
  await blocks.makeSomeDue(db, key.provider, 0);
  await blocks.endBlock(db, key);
  await blocks.forgetBlocks(db);
}

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

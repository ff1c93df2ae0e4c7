/** Statements of settling, for statements.ts. */
import type { NewEmail } from '../../src/accept/store/new-email.ts';
import { newId } from '../../src/database/ids.ts';
import { SettleStore } from '../../src/settle/settle-store.ts';
import { SETTLING, settlement } from './mail-store.ts';
import type { Stage } from './statements.ts';

const settleStore = ({ db, leaseId }: Stage) =>
  new SettleStore(db.settling, { ...SETTLING, leaseId: () => leaseId });

/** Half of the outcomes take the fast path. */
export async function settleSome(stage: Stage, batch: readonly NewEmail[]): Promise<void> {
  const settling = settleStore(stage);
  const suppress = { reason: 'hard_bounce', days: null } as const;
  await Promise.all(
    batch.map((email, index) => {
      if (index % 4 === 0) {
        const retry = { status: 'deferred', eventType: 'email.delivery_delayed' } as const;
        return settling.settle(settlement(email, { ...retry, retryMs: 3_600_000 }));
      }
      if (index % 4 === 1) {
        const { address } = email.to[0]!;
        const bounce = { status: 'bounced', eventType: 'email.bounced' } as const;
        const entry = { ...suppress, address, eventId: newId() };
        return settling.settle(settlement(email, { ...bounce, suppress: entry }));
      }
      return settling.settle(settlement(email));
    }),
  );
}

export async function settleFast(stage: Stage, batch: readonly NewEmail[]): Promise<void> {
  const settling = settleStore(stage);
  await Promise.all(batch.map((email) => settling.settle(settlement(email))));
}

/** Settles mail to a relay on the fast path. */
export async function settleSent(stage: Stage, batch: readonly NewEmail[]): Promise<void> {
  const settling = settleStore(stage);
  const sent = { status: 'sent', eventType: 'email.sent' } as const;
  await Promise.all(batch.map((email) => settling.settle(settlement(email, sent))));
}

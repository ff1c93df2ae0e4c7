/** The inbound half of a worker's SMTP, wired: from the port for reports to the settle statement. */
import { createReceive, KEPT_BYTES_MAX } from '../inbound/receive.ts';
import { UNMATCHED_LIMITS, UnmatchedRate } from '../inbound/unmatched-rate.ts';
import type { SmtpServerOptions } from '../net/smtp/server.ts';
import type { Ground } from './server.ts';
import { createInboundHandlers, INBOUND_LIMITS } from '../smtp/inbound.ts';
import { InboundStore } from '../store/inbound-commit.ts';
import { noteQuotaFailure } from '../store/quota-failures.ts';
import type { DiskFullMemory } from '../store/postgres/room.ts';
import { addSuppressionIn } from '../store/suppressions.ts';
import { UnmatchedStore } from '../store/unmatched-mail.ts';
import { systemWorld } from './system-world.ts';

/**
 * @param listeners.onTold webhook deliveries were queued
 * @param listeners.refusal why nothing is accepted at present; null when it is
 */
export function inboundOptions(
  { config, db, secrets, log, reputation }: Ground,
  {
    onTold,
    refusal,
    diskFull,
  }: { onTold: () => void; refusal: () => string | null; diskFull: DiskFullMemory },
): Pick<SmtpServerOptions<null>, 'handlers' | 'limits' | 'keptBytesMax'> {
  const book = { db: db.receiving, secrets: () => secrets.deriveAll('return path') };
  const store = new InboundStore(db.receiving, {
    onTold,
    onSettled: (settlement) => reputation.count(settlement),
  });
  const receive = createReceive({
    book,
    store,
    unmatched: new UnmatchedStore(db.receiving, { ringBytesMax: config.unmatchedBytesMax }),
    rate: new UnmatchedRate(systemWorld, UNMATCHED_LIMITS),
    refusal,
    world: systemWorld,
    unsubscribe: async ({ projectId, environment, address, email }) => {
      const entry = {
        address,
        reason: 'unsubscribe',
        sourceEmailId: email.id,
        expiresAt: null,
        by: 'recipient',
      } as const;
      const { isNew } = await db.receiving.transaction((tx) =>
        addSuppressionIn(tx, { projectId, environment }, entry),
      );
      if (isNew) onTold();
      return isNew;
    },
    onMailboxFull: (failure) => {
      noteQuotaFailure(db, failure).catch((error: unknown) => {
        log.warn({ emailId: failure.emailId, err: error }, 'a full mailbox was not counted');
      });
    },
  });
  const { smtpClientTimeoutMs } = config;
  return {
    handlers: createInboundHandlers({
      book,
      receive: (arrival) => diskFull.guard(() => receive(arrival)),
    }),
    limits: {
      ...INBOUND_LIMITS,
      ...(smtpClientTimeoutMs && { commandTimeoutMs: smtpClientTimeoutMs }),
    },
    keptBytesMax: KEPT_BYTES_MAX,
  };
}

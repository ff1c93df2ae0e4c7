/** Constructs the accepting half of a worker: from a checked draft to the commit. */
import { type AcceptEmail, type AcceptOptions, createAccept } from '../../accept/accept.ts';
import type { AcceptResult } from '../../accept/accept-results.ts';
import { type AcceptBatch, createAcceptBatch } from '../../accept/email-batch.ts';
import { tracedAccept, tracedAcceptBatch } from './traced-accept.ts';
import { AcceptStore } from '../../accept/store/accept-store.ts';
import { logLostEmails } from '../../accept/store/lost-emails.ts';
import { StorageAccount } from '../../accounts/storage/storage-account.ts';
import { RecentlyAccepted } from '../../database/server/failover.ts';
import type { Dispatcher } from '../../delivery/queue/dispatcher.ts';
import { systemWorld } from '../machine/system-world.ts';
import type { WorkerContext } from './worker-context.ts';

export type Accepting = {
  accept: AcceptEmail;
  acceptBatch: AcceptBatch;
  /** Whether emails are refused because too many wait to be stored. */
  isOverloaded: () => boolean;
  /** Logs the accepted emails that a fail-over of the database lost. */
  logLost(): Promise<void>;
  /** Releases storage that is reserved and not used. */
  stop(): Promise<void>;
};

export function createAccepting(
  { db, config, counters, lease, log }: WorkerContext,
  { dispatcher, onWebhooksQueued }: { dispatcher: Dispatcher; onWebhooksQueued: () => void },
): Accepting {
  const world = systemWorld;
  const recent = new RecentlyAccepted();
  const storage = new StorageAccount(db.checking, { world, log });
  const store = new AcceptStore(db.accepting, {
    limit: config.limits.sending,
    recipientLimit: config.limits.recipients,
    leaseId: lease.leaseId,
    onWebhooksQueued,
    onUnknown: (emails) => dispatcher.releaseWhenStored(emails),
  });
  const options: AcceptOptions = {
    store,
    world,
    handOver: dispatcher,
    storage,
    db: db.checking,
    onAccepted: ({ projectId, environment, id }) => {
      recent.add(projectId, id);
      counters.accepted.inc({ environment });
    },
  };
  const measure = async (work: () => Promise<AcceptResult>): Promise<AcceptResult> => {
    const startedMs = world.monotonicMs();
    const result = await work();
    if (result.kind === 'accepted') {
      counters.acceptSeconds.observe((world.monotonicMs() - startedMs) / 1000);
    }
    return result;
  };
  const accept = tracedAccept(createAccept(options));
  const acceptBatch = tracedAcceptBatch(createAcceptBatch(options));
  return {
    accept: (...request) => measure(() => accept(...request)),
    acceptBatch: (...request) => measure(() => acceptBatch(...request)),
    isOverloaded: () => store.isOverloaded(),
    logLost: () => logLostEmails(recent, { db, log, onLost: (count) => counters.lost.inc(count) }),
    stop: () => storage.stop(),
  };
}

/** Runs every statement of the service; database/plans.test.ts checks their reads. New ones need a line here. */
import assert from 'node:assert/strict';
import type { Database } from '../../src/database/database.ts';
import { AcceptStore } from '../../src/accept/store/accept-store.ts';
import { findEarlierRequest } from '../../src/accept/store/facts.ts';
import { findStoredEmails } from '../../src/accept/store/lost-commits.ts';
import * as addressLog from '../../src/emails/address-log/address-log-store.ts';
import { AHEAD_MAX } from '../../src/emails/diagnosis/diagnosis-store.ts';
import * as diagnosis from '../../src/emails/diagnosis/diagnosis-store.ts';
import { rehearse } from '../../src/accept/store/full-path.ts';
import * as emails from '../../src/emails/email-store.ts';
import { listEmails, NO_FILTER } from '../../src/emails/list/email-list-store.ts';
import {
  acceptsWrites,
  readTimeline,
  RecentlyAccepted,
} from '../../src/database/server/failover.ts';
import * as retentionClock from '../../src/retention/clock-store.ts';
import * as retention from '../../src/retention/retention-store.ts';
import { deleteExpired } from '../../src/retention/retention-store.ts';
import { LIST_EXERCISES } from './statements-lists.ts';
import { newId } from '../../src/database/ids.ts';
import * as keys from '../../src/accounts/keys/key-store.ts';
import { onFirstStart } from '../../src/accounts/keys/key-store.ts';
import * as limits from '../../src/accounts/limits/limit-store.ts';
import * as messages from '../../src/delivery/message/message-store.ts';
import * as nodes from '../../src/delivery/queue/worker-store.ts';
import type { Page } from '../../src/database/page.ts';
import * as projects from '../../src/accounts/projects/project-store.ts';
import * as queue from '../../src/delivery/queue/queue-store.ts';
import { cancelEmail, rescheduleEmail } from '../../src/emails/schedule-store.ts';
import * as suppressions from '../../src/suppressions/suppression-store.ts';
import {
  noteQuotaFailure,
  QUOTA_FAILURES,
  importSuppressions,
  listSuppressions,
} from '../../src/suppressions/suppression-store.ts';
import {
  listHistory,
  deleteOldHistory,
  shortenHistories,
} from '../../src/suppressions/history-store.ts';
import { WEBHOOKS } from '../../src/webhooks/sending/webhook-queue-store.ts';
import { BUSY_ADDRESS } from './fill.ts';
import {
  addUp,
  useMetrics,
  useReputation,
  useApiLog,
  useRequestLog,
  useStats,
  useTls,
  useTracking,
} from './statements-counts.ts';
import { claimAndRelease, operate } from './statements-queue.ts';
import { countWaiting, useDomains } from './statements-domains.ts';
import {
  countEvents,
  useBlocks,
  useConditions,
  useDoctor,
  useNotices,
  useOperatorMail,
  useReconciliation,
  walkMail,
  walkPlaces,
} from './statements-operator.ts';
import { useCertificates } from './statements-certificates.ts';
import { useMailHosts, useNodes } from './statements-machines.ts';
import { useMembers } from './statements-members.ts';
import { useSecretKeys } from './statements-secrets.ts';
import { settleSent, settleSome, settleFast } from './statements-settle.ts';
import { useTemplates } from './statements-templates.ts';
import { filterStreams, readStreams, WEBHOOK_EXERCISES } from './statements-webhooks.ts';
import { acceptAll, emailBatch, newEmail, type Sender } from './mail-store.ts';

export type Stage = {
  db: Database;
  sender: Sender;
  leaseId: string;
  endpointId: string;
  /** An endpoint whose waiting deliveries are due. */
  deadEndpointId: string;
  /** The id of an email in the middle; of no email when there are none. */
  someEmailId: string;
};

export type Exercise = {
  what: string;
  /** Rows that one statement requests or gets. */
  asks: number;
  run(stage: Stage): Promise<unknown>;
};

const BATCH = 64;
const FEW = 8;
const PAGE: Page = { limit: 20, after: null, before: null };
const LIMIT = { max: 1_000_000, windowS: 60 };

export function acceptStore({ db, leaseId }: Stage, limit = LIMIT): AcceptStore {
  return new AcceptStore(db.accepting, {
    limit,
    leaseId: () => leaseId,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
}

type Batch = { count?: number; isFast?: boolean; hasKeys?: boolean };

export async function acceptBatch(stage: Stage, wanted: Batch = {}) {
  const batch = newEmails(stage, wanted);
  await acceptAll(acceptStore(stage), batch);
  return batch;
}

const acceptFew = (stage: Stage, wanted: Batch) => acceptBatch(stage, { ...wanted, count: FEW });

/** Emails with a scheduled time, even in the past, do not take the fast path. */
function newEmails({ sender }: Stage, { count = BATCH, isFast = true, hasKeys = true }: Batch) {
  return Array.from({ length: count }, (_, index) =>
    newEmail(sender, {
      to: [`jo${index}@customers${index % 10}.test`],
      idempotency: hasKeys ? { key: newId(), fingerprint: '00' } : null,
      scheduledAt: isFast ? null : new Date(0),
    }),
  );
}

/** Accepts the emails of one permissive request. */
async function acceptTogether(stage: Stage, isFast = false): Promise<void> {
  const count = isFast ? FEW : BATCH;
  const permissive = emailBatch(newEmails(stage, { isFast, count, hasKeys: false }), {
    idempotency: { key: newId(), fingerprint: '00' },
    permissive: true,
  });
  await acceptStore(stage).acceptBatch(permissive);
}

async function goBeyondTheLimit(stage: Stage): Promise<void> {
  const set = (max: number) =>
    stage.db.query(
      `update limit_windows set max = $2 where project_id = $1 and category = 'sending'`,
      [stage.sender.projectId, max],
    );
  await set(0);
  const idempotency = { key: newId(), fingerprint: '00' };
  await acceptAll(acceptStore(stage), [newEmail(stage.sender, { idempotency })]);
  await set(1_000_000);
}

/** Lists an ASCII address that equals one outside of ASCII. */
async function listBoth(stage: Stage): Promise<void> {
  await acceptAll(acceptStore(stage), [newEmail(stage.sender, { to: ['stra\u00dfe@one.test'] })]);
  const filter = { ...NO_FILTER, to: 'strasse@one.test' };
  await listEmails(stage.db, stage.sender, { page: PAGE, filter });
}

async function useKeys({ db, sender }: Stage): Promise<void> {
  const rights = { name: 'x', permission: 'full_access', domain: null, expiresAt: null } as const;
  const { key } = await keys.createKey(db, sender, rights);
  await keys.findCallers(db, ['00'.repeat(32)]);
  await keys.listKeys(db, sender, PAGE);
  await keys.findKey(db, sender, key.id);
  await db.transaction((tx) => keys.lockKey(tx, sender, key.id));
  await keys.updateKey(db, sender, { ...rights, id: key.id });
  await keys.rotateKey(db, sender, { id: key.id, overlapS: 60 });
  await keys.recordLastUse(db, [{ projectId: sender.projectId, keyId: key.id }]);
  await keys.revokeKey(db, sender, key.id);
  await keys.removeShortLivedKey(db, sender, key);
}

async function useLimits({ db, sender }: Stage): Promise<void> {
  await limits.countRequest(db, { ...sender, category: 'verification' }, LIMIT);
  await limits.countRequest(db, { ...sender, category: 'dry_runs' }, LIMIT);
  await limits.peekLimit(db, { ...sender, category: 'sending' }, LIMIT);
  await limits.countAuthFailure(db, '192.0.2.1', LIMIT);
  await limits.setLimit(db, { ...sender, category: 'verification' }, null);
  await limits.setLimit(db, { ...sender, category: 'recipients' }, null);
}

async function useProjects({ db, sender }: Stage): Promise<void> {
  const organization = await projects.createOrganization(db, 'Another');
  const named = { organizationId: organization.id, name: 'Another', id: null };
  await projects.isNameTaken(db, named);
  await projects.createProject(db, organization.id, 'Another');
  await projects.listProjects(db, organization.id);
  await projects.listAllProjects(db);
  await projects.findOrCreateOperatorProject(db);
  await projects.findProject(db, sender.projectId);
  for (const table of ['api_keys', 'domains', 'emails', 'webhook_endpoints'] as const) {
    await projects.findScopeOfId(db, table, sender.keyId);
  }
  await onFirstStart(db, () => Promise.resolve(null));
}

async function readAddressLog({ db, sender }: Stage): Promise<void> {
  const busy = { projectIds: [sender.projectId], environment: null, addressKey: BUSY_ADDRESS };
  await addressLog.readAddressLog(db, { ...busy, limit: 20 });
  await addressLog.readAddressLog(db, { ...busy, addressKey: 'jö@one.test', limit: 20 });
  await addressLog.findActiveSuppressions(db, busy);
}

async function useSuppressions({ db, sender }: Stage): Promise<void> {
  const entry = { address: 'no@one.test', sourceEmailId: null, expiresAt: null };
  const manual = { ...entry, reason: 'manual', by: 'api' } as const;
  await suppressions.addSuppression(db, sender, manual);
  await suppressions.addSuppression(db, sender, manual);
  await suppressions.findSuppressionById(db, sender, suppressions.suppressionId(manual.address));
  const isExpected = () => true;
  await suppressions.removeExpectedSuppression(db, sender, { ...manual, isExpected });
  await suppressions.removeSuppression(db, sender, manual);
  const { projectId, environment } = sender;
  const failure = { projectId, environment, address: 'full@one.test' };
  for (let n = 0; n < QUOTA_FAILURES; n += 1) {
    await noteQuotaFailure(db, { ...failure, emailId: newId() });
  }
  await listHistory(db, sender, { address: 'full@one.test', limit: 100 });
  await deleteOldHistory(db, 100);
  await shortenHistories(db, { rowsMax: 1, batch: 100 });
  const imported = { reason: 'manual', createdAt: null, expiresAt: null } as const;
  const rows = Array.from({ length: 20 }, (_, n) => ({ ...imported, address: `in${n}@one.test` }));
  await importSuppressions(db, sender, rows);
  for (const cursor of [{ after: 'gone5' }, { before: 'gone5' }, {}]) {
    const page = { limit: 20, after: null, before: null, ...cursor };
    for (const reason of [null, 'hard_bounce', 'complaint'] as const) {
      await listSuppressions(db, sender, { page, filter: { reason, prefix: null } });
      await listSuppressions(db, sender, { page, filter: { reason, prefix: 'gone0' } });
    }
  }
  await queue.readStopReasons(db.settling, { ...sender, address: 'gone10@nowhere.test' });
}

/** fillMail makes nothing as old as a year: everything is read, nothing is removed. */
async function useRetention({ db, sender }: Stage): Promise<void> {
  const { projectId } = sender;
  await retention.setRetention(db, { projectId, contentH: null, metadataH: null });
  await retention.findRetention(db, projectId);
  await retention.listProjectsToTrim(db, { contentH: 1080, metadataH: 2160 });
  for (const [contentH, metadataH] of [
    [9_000, 9_000],
    [24, 24],
    [null, 24],
  ] as const) {
    const steps = retention.trimProject(db, { projectId, contentH, metadataH });
    await steps.next(); // one batch, then the end of rows that are a year old
    await steps.return(undefined);
  }
  await retentionClock.beginRun(db);
  await retentionClock.readAllowance(db);
  await retentionClock.countRemovedWeek(db);
  await retentionClock.saveWaitingWeeks(db, ['2026-01-01']);
  await retentionClock.readRetentionState(db);
  await retentionClock.confirmRemoval(db);
  const logs = retention.trimLogs(db, 100);
  await logs.next();
  await logs.return(undefined);
}

/** Changes scheduled emails without a lease. */
async function changeScheduled(stage: Stage): Promise<void> {
  const { db, leaseId, sender } = stage;
  const [email] = await acceptBatch(stage, { count: 1 });
  await queue.releaseEmails(db.settling, [email!], leaseId);
  const ref = { ...sender, id: email!.id, keyId: sender.keyId, domain: 'acme.com' };
  const at = new Date(Date.now() + 86_400_000);
  assert.equal((await rescheduleEmail(db, ref, at))?.kind, 'moved');
  assert.equal((await cancelEmail(db, ref))?.canceled, 1);
}

export const EXERCISES: readonly Exercise[] = [
  { what: 'accept a batch', asks: BATCH, run: (stage) => acceptBatch(stage) },
  { what: 'accept without keys', asks: FEW, run: (stage) => acceptFew(stage, { hasKeys: false }) },
  { what: 'accept unusual emails', asks: FEW, run: (stage) => acceptFew(stage, { isFast: false }) },
  {
    what: 'accept the emails of one request',
    asks: FEW,
    run: (stage) => acceptTogether(stage, true),
  },
  {
    what: 'accept unusual ones of one request',
    asks: BATCH,
    run: (stage) => acceptTogether(stage),
  },
  { what: 'accept beyond the limit', asks: 1, run: goBeyondTheLimit },
  {
    what: 'the responses to a key',
    asks: 1,
    run: ({ db, sender }) => findEarlierRequest(db, sender, newId()),
  },
  {
    what: 'what became of a batch',
    asks: BATCH,
    run: async (stage) => findStoredEmails(stage.db, await acceptBatch(stage), stage.leaseId),
  },
  {
    what: 'what a fail-over lost',
    asks: BATCH,
    run: async (stage) => {
      await acceptsWrites(stage.db);
      await readTimeline(stage.db);
      const recent = new RecentlyAccepted();
      for (const { projectId, id } of await acceptBatch(stage)) recent.add(projectId, id);
      await recent.findLost(stage.db);
    },
  },
  {
    what: 'settle a batch',
    asks: BATCH,
    run: async (stage) => settleSome(stage, await acceptBatch(stage)),
  },
  {
    what: 'settle frequent outcomes',
    asks: FEW,
    run: async (stage) => settleFast(stage, await acceptFew(stage, {})),
  },
  {
    what: 'settle what a relay took',
    asks: FEW,
    run: async (stage) => settleSent(stage, await acceptFew(stage, {})),
  },
  { what: 'claim and release', asks: 128, run: claimAndRelease },
  {
    what: 'release whole emails',
    asks: 1,
    run: ({ db, leaseId, sender, someEmailId: id }) =>
      queue.releaseEmails(db.settling, [{ ...sender, id }], leaseId),
  },
  { what: 'reschedule and cancel an email', asks: 1, run: changeScheduled },
  { what: 'change what waits, a step', asks: 2_000, run: operate },
  {
    what: 'diagnose an email',
    asks: AHEAD_MAX,
    run: async ({ db, sender, someEmailId: id }) => {
      const ref = { ...sender, id, keyId: null, domain: null };
      await diagnosis.readRecipientStates(db, ref);
      await diagnosis.readSenderState(db, ref);
      const dueAt = new Date(Date.now() + 86_400_000);
      await diagnosis.countAhead(db, { ...sender, provider: 'customers1.test', dueAt });
    },
  },
  {
    what: 'rehearse an email',
    asks: 2,
    run: ({ db, sender }) =>
      rehearse(db, newEmail(sender, { to: ['jo77@customers1.test', BUSY_ADDRESS] }), {
        limit: LIMIT,
      }),
  },
  {
    what: 'load a message',
    asks: 1,
    run: ({ db, sender, someEmailId: id }) =>
      messages.loadMessages(db.settling, [{ ...sender, id }]),
  },
  {
    what: 'hash and trace of a message',
    asks: 2,
    run: async ({ db, sender, someEmailId: id }) => {
      await messages.sentSha256(db, { ...sender, id, position: 0 });
      await messages.findTraceparent(db, { ...sender, emailId: id });
    },
  },
  {
    what: 'load a message without its content',
    asks: 1,
    run: ({ db, sender, someEmailId: id }) => messages.loadHeads(db.settling, [{ ...sender, id }]),
  },
  {
    what: 'show an email',
    asks: 1,
    run: async ({ db, sender, someEmailId: id }) => {
      const ref = { ...sender, id, keyId: null, domain: null };
      await emails.findEmail(db, ref);
      await emails.isConcealed(db, ref);
      await emails.emailExists(db, ref);
      await emails.findLastReason(db, { ...sender, emailId: id, position: 0 });
      await emails.countInDoubt(db, { ...sender, emailId: id, position: 0 });
      await emails.listTimeline(db, ref, { after: 0, limit: 100 });
    },
  },
  ...LIST_EXERCISES,
  { what: 'list emails of a recipient, in and outside of ASCII', asks: 20, run: listBoth },
  { what: 'policies and results of TLS', asks: 10, run: useTls },
  { what: 'the reputation of senders', asks: 10, run: useReputation },
  { what: 'opens and clicks', asks: 10, run: useTracking },
  { what: 'domains', asks: 1, run: useDomains },
  { what: 'mail that waits of a domain', asks: 20_000, run: countWaiting },
  { what: 'hosts', asks: 1, run: useMailHosts },
  { what: 'providers that refuse our mail', asks: 10, run: useBlocks },
  { what: 'conditions of the installation', asks: 10, run: useConditions },
  { what: 'facts for the doctor', asks: 10, run: useDoctor },
  { what: 'mail to the operator', asks: 10, run: useOperatorMail },
  { what: 'notices about delivery', asks: 10, run: useNotices },
  { what: 'the daily proof', asks: 10, run: useReconciliation },
  { what: 'a step over the mail of a day', asks: 250, run: walkMail },
  { what: 'a step over the events', asks: 1_000, run: countEvents },
  { what: 'a step over the queue', asks: 1_000, run: walkPlaces },
  { what: 'keys', asks: 5, run: useKeys },
  { what: 'members and their sessions', asks: 20, run: useMembers },
  { what: 'limits', asks: 1, run: useLimits },
  { what: 'nodes', asks: 5, run: useNodes },
  { what: 'secret keys', asks: 10, run: useSecretKeys },
  { what: 'certificates', asks: 13, run: useCertificates },
  { what: 'projects', asks: 10, run: useProjects },
  { what: 'suppressions', asks: 20, run: useSuppressions },
  // Reads the index entries of all mail to the address, 1,000 here, before it takes the newest.
  { what: 'log of an address', asks: 100, run: readAddressLog },
  { what: 'templates', asks: 20, run: useTemplates },
  { what: 'log of requests', asks: 20, run: useRequestLog },
  { what: 'API log', asks: 20, run: useApiLog },
  { what: 'metrics of emails', asks: 200, run: useMetrics },
  { what: 'add up counts of mail', asks: 500, run: addUp },
  // A row for each hour and some values.
  { what: 'counts of mail', asks: 168, run: useStats },
  ...WEBHOOK_EXERCISES,
  { what: 'event stream', asks: 100, run: readStreams },
  // A page scans as many.
  { what: 'event stream, filtered', asks: 2_000, run: filterStreams },
  // 500 emails, with rows in four tables.
  { what: 'retention', asks: 1_000, run: useRetention },
  { what: 'delete expired rows', asks: 1, run: ({ db }) => deleteExpired(db) },
];

/** Rare statements, after a death or a lost result. They read the whole queue, which has only open work. */
export const AFTER_A_DEATH: readonly Exercise[] = [
  {
    what: 'claims that memory does not know of',
    asks: Infinity,
    run: async ({ db, leaseId }) => {
      await queue.RECIPIENTS.findUnknown(db.settling, leaseId, []);
      await WEBHOOKS.findUnknown(db.webhooks, leaseId, []);
    },
  },
  {
    what: 'a dead node',
    asks: Infinity,
    run: ({ db }) => nodes.expireWorker(db, { id: newId(), beat: 1 }),
  },
  { what: 'orphans', asks: Infinity, run: ({ db }) => nodes.releaseOrphans(db) },
];

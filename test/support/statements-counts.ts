/** Statements of counts, of what follows from them, and of tracking, for statements.ts. */
import * as tls from '../../src/delivery/route/transport-security-store.ts';
import { countMetrics } from '../../src/compat/resend/wire/email-metrics-store.ts';
import * as apiRequests from '../../src/requests/request-store.ts';
import * as requestLog from '../../src/compat/resend/wire/request-log-store.ts';
import * as reputation from '../../src/reputation/reputation-store.ts';
import { STATS_DIMENSIONS } from '../../src/stats/counts.ts';
import { newId } from '../../src/database/ids.ts';
import { foldStats, deleteOldStats, findNames, readStats } from '../../src/stats/stats-store.ts';
import { recordVisits } from '../../src/tracking/tracking-store.ts';
import type { Stage } from './statements.ts';

export async function useTls({ db }: Stage): Promise<void> {
  const policies = new tls.StsPolicies(db.settling);
  await policies.save('a.test', '1', { mode: 'enforce', mx: ['mx.a.test'], maxAgeS: 86_400 });
  await policies.saveFailure('b.test');
  await policies.load('a.test');
  await tls.listPoliciesToRenew(db, 10);
  await tls.deleteExpiredStsPolicies(db, 500);
  const count = { domain: 'a.test', policy: 'sts', result: 'success', sessions: 1 } as const;
  await tls.addTlsResults(db, [count]);
  await tls.readTlsResults(db, { days: 7, domain: null, limit: 100 });
  await tls.deleteOldTlsResults(db, 500);
}

export async function useReputation({ db, sender }: Stage): Promise<void> {
  const { projectId, environment } = sender;
  const standing = { projectId, environment, domain: 'acme.com', ended: 600 };
  await reputation.addReputationCounts(db, [{ ...standing, bounced: 60, complained: 0 }]);
  await reputation.readSenderCounts(db, new Date(0));
  await reputation.countEnded(db, sender);
  const alert = {
    ...standing,
    kind: 'bounce',
    count: 60,
    thresholdPpm: 50_000,
    isPaused: true,
  } as const;
  for (const below of ['clear', 'start', 'keep'] as const) {
    await reputation.saveAlert(db, alert, below);
  }
  await reputation.listAlerts(db, { projectId, limit: 100 });
  await reputation.pauseSender(db, alert);
  await reputation.resumeSenders(db, projectId);
  await reputation.endAlert(db, alert);
  const own = { isOn: true, bouncesPpm: null, complaintsPpm: null, emailsMin: null, pauses: false };
  await reputation.setAlertRule(db, projectId, own);
  await reputation.listAlertRules(db);
  await reputation.findAlertRule(db, projectId);
  await reputation.deleteOldReputation(db, 500);
}

export async function useMetrics({ db, sender, someEmailId }: Stage): Promise<void> {
  const all = { granularity: 'daily', dimensions: ['period', 'domain'], domainIds: null } as const;
  const until = new Date();
  const day = { since: new Date(until.getTime() - 86_400_000), until };
  await countMetrics(db, sender, { ...all, ...day, emailIds: [someEmailId] });
  await countMetrics(db, sender, { ...all, since: until, until, emailIds: null });
}

export async function addUp({ db }: Stage): Promise<void> {
  while ((await foldStats(db, 500)) === 500);
}

/** Reads the counts of a week by hour. */
export async function useStats({ db, sender }: Stage): Promise<void> {
  const to = new Date();
  const week = { from: new Date(to.getTime() - 7 * 86_400_000), to, domain: null };
  for (const by of [null, ...STATS_DIMENSIONS]) {
    await readStats(db, sender, { ...week, granularity: 'hour', by });
  }
  const dayStarts = [week.from, new Date(to.getTime() - 86_400_000)];
  await readStats(db, sender, { ...week, granularity: 'day', dayStarts, by: null });
  for (const dimension of ['key', 'template'] as const) {
    await findNames(db, sender, { dimension, ids: [sender.keyId] });
  }
  await deleteOldStats(db, 500);
}

/** Writes and reads the log of requests to the root mount. */
export async function useRequestLog({ db, sender }: Stage): Promise<void> {
  const { projectId, environment } = sender;
  const id = newId();
  const facts = { method: 'GET', endpoint: '/emails', status: 200, userAgent: null };
  await requestLog.addRequests(db, [{ projectId, environment, id, ...facts }]);
  const page = { limit: 20, after: null, before: null };
  for (const one of [page, { ...page, after: newId() }, { ...page, before: id }]) {
    await requestLog.listRequests(db, sender, one);
  }
  await requestLog.findRequest(db, sender, id);
  await requestLog.deleteOldRequests(db, 500);
}

export async function useApiLog({ db, sender }: Stage): Promise<void> {
  const { projectId, environment, keyId } = sender;
  const id = newId();
  const error = { errorCode: null, errorMessage: null, body: null };
  const from = { network: '192.0.2.0', userAgent: null };
  const facts = { method: 'POST', path: '/v1/domains', status: 201, durationMs: 1 };
  await apiRequests.addApiRequests(db, [
    { projectId, environment, id, keyId, memberId: null, ...facts, ...from, ...error },
  ]);
  const page = { limit: 20, after: null, before: null };
  const to = new Date();
  const statuses = { from: 400, to: 599 };
  const filter = { statuses, method: 'POST', keyId, memberId: null, from: null, to };
  for (const one of [page, { ...page, after: newId() }, { ...page, before: id }]) {
    await apiRequests.listApiRequests(db, sender, one, filter);
  }
  await readOldApiLog({ db, sender });
  await apiRequests.findApiRequest(db, sender, id);
  await apiRequests.deleteOldApiRequests(db, 500);
}

/** Entries that are newer than the period that is read: more than the bound of any reading. */
const NEWER_ENTRIES = { batches: 4, perBatch: 250 };
const OLD_PERIOD_DAYS = { from: 60, to: 59 };

/** Returns a day of two months ago. */
export function oldPeriod(): { from: Date; to: Date } {
  const { from, to } = OLD_PERIOD_DAYS;
  const daysAgo = (days: number): Date => new Date(Date.now() - days * 86_400_000);
  return { from: daysAgo(from), to: daysAgo(to) };
}

/** Reads a period that is older than all entries. */
async function readOldApiLog({ db, sender }: Pick<Stage, 'db' | 'sender'>): Promise<void> {
  const { projectId, environment, keyId } = sender;
  const facts = { method: 'POST', path: '/v1/domains', status: 422, durationMs: 1, body: null };
  const from = { network: '192.0.2.0', userAgent: null, errorCode: null, errorMessage: null };
  const entry = { projectId, environment, keyId, memberId: null, ...facts, ...from };
  for (let batch = 0; batch < NEWER_ENTRIES.batches; batch += 1) {
    const entries = Array.from({ length: NEWER_ENTRIES.perBatch }, () => newId());
    await apiRequests.addApiRequests(
      db,
      entries.map((id) => ({ ...entry, id })),
    );
  }
  const any = { statuses: null, method: null, keyId: null, memberId: null };
  const page = { limit: 20, after: null, before: null };
  for (const one of [page, { ...page, after: newId() }]) {
    await apiRequests.listApiRequests(db, sender, one, { ...any, ...oldPeriod() });
  }
}

export async function useTracking({ db, sender, someEmailId }: Stage): Promise<void> {
  const facts = { link: 'https://a.test/', ip: '203.0.113.0', user_agent: 'x' };
  const { projectId, environment } = sender;
  const who = { projectId, environment, emailId: someEmailId, position: 0 };
  const visit = { ...who, agoMs: 0, botReason: null, facts };
  await recordVisits(db, [
    { ...visit, eventId: newId(), type: 'email.clicked' },
    { ...visit, eventId: newId(), type: 'email.opened' },
  ]);
}

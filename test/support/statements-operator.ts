/** Statements about conditions of the installation. */
import type { NewCondition } from '../../src/core/operator-events.ts';
import {
  clearCondition,
  countConditions,
  listLapsedConditions,
  listConditions,
  raiseCondition,
} from '../../src/operator/condition-store.ts';
import * as notices from '../../src/notices/notice-store.ts';
import * as mail from '../../src/operator/operator-mail-store.ts';
import type { Notice } from '../../src/mail/notice.ts';
import { parseAddress } from '../../src/mail/address.ts';
import {
  findReenabledEndpoints,
  findUnreportedEndpoints,
} from '../../src/webhooks/disabled-store.ts';
import * as doctor from '../../src/doctor/doctor-store.ts';
import { readReplication } from '../../src/doctor/database/replication-store.ts';
import * as reports from '../../src/doctor/report-store.ts';
import * as blocks from '../../src/delivery/blocks/block-store.ts';
import * as days from '../../src/reconciliation/day-store.ts';
import {
  claimQueueWalk,
  saveQueueWalked,
  walkQueueStep,
} from '../../src/reconciliation/queue-walk-store.ts';
import * as outcomes from '../../src/reconciliation/outcome-store.ts';
import { DayFindings } from '../../src/reconciliation/day-findings.ts';
import * as proof from '../../src/reconciliation/reconciliation-store.ts';
import type { Stage } from './statements.ts';

export async function useBlocks({ db }: Stage): Promise<void> {
  const key = { provider: 'google', about: 'domain', subject: 'acme.example' } as const;
  const rules = { afterRefusals: 1, firstMs: 0, longestMs: 1_000 };
  const refusal = { senderDomain: key.subject, refusedKind: key.about, category: 'reputation' };
  await blocks.countRefusal(db, key, { ...refusal, reply: 'blocked', isProbe: false, rules });
  await blocks.takeProbe(db, key, { senderDomain: key.subject, firstMs: 0 });
  await blocks.leaveProbe(db, key, 0);
  await blocks.readBlocks(db, new Date(), 0);
  await blocks.listBlocks(db, 10);
  await blocks.scheduleProbe(db, key.provider);
  await blocks.listSendingProjects(db, key.subject);
  await blocks.makeDueForProbe(db, key.provider, 0);
  await blocks.endBlock(db, key);
  await blocks.deleteOldBlocks(db);
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
  await listLapsedConditions(db);
  await clearCondition(db, condition);
  await findUnreportedEndpoints(db, 10);
  await findReenabledEndpoints(db);
}

/** Reads what `letterhaus doctor` reads. */
export async function useDoctor({ db }: Stage): Promise<void> {
  await doctor.readServerSettings(db);
  await readReplication(db);
  await doctor.readNotedBackup(db);
  await doctor.listLiveDomains(db, null, 10);
  await doctor.readDomainVolume(db, 'acme.com');
  const instance = '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa';
  await reports.registerNode(db, { instance, host: 'mail1' });
  await reports.requestRuns(db);
  await reports.claimRun(db, instance, null);
  const run = await reports.claimRun(db, instance, 0);
  const runId = run?.runId ?? instance;
  await reports.saveProgress(db, runId, 1);
  const checks = { red: 0, yellow: 0, unknown: 0, green: 1 };
  await reports.saveReport(db, runId, { checks, findings: [] });
  await reports.findReport(db, instance);
  await reports.listReports(db, 10);
  await reports.countReported(db);
  await reports.deleteOldReports(db, 10);
}

/** Runs the daily reconciliation. */
export async function useReconciliation({ db, sender }: Stage): Promise<void> {
  const { projectId } = sender;
  const day = new Date().toISOString().slice(0, 10);
  await proof.scheduleNextDay(db);
  await proof.scheduleDay(db, { projectId, day });
  await proof.claimDay(db);
  await proof.claimDay(db, projectId);
  await proof.renewClaim(db, { projectId, day });
  await proof.readAccepted(db, { projectId, day });
  await proof.readRemoved(db, { projectId, day });
  await outcomes.readCountedOutcomes(db, { projectId, day });
  const found = new DayFindings();
  await proof.saveDay(db, { projectId, day }, { counts: found.counts, differences: [] });
  await proof.saveRemoved(db, { projectId, day });
  await days.listReconciledDays(db, { from: day, to: day, projectId: null }, 10);
  await days.listDifferences(db, 10);
  await days.acknowledgeDay(db, { day, projectId });
  await days.readReconciliation(db);
  await days.saveFinished(db, true);
  await days.deleteOldReconciledDays(db, 500);
  await claimQueueWalk(db, true);
  await saveQueueWalked(db);
}

/** Takes one step of each; `asks` counts its rows. */
export async function walkMail({ db, sender, someEmailId }: Stage): Promise<void> {
  const atMs = Number.parseInt(someEmailId.replace('-', '').slice(0, 12), 16);
  const day = new Date(atMs).toISOString().slice(0, 10);
  const of = { projectId: sender.projectId, day };
  await proof.walkDayStep(db, of, proof.firstIdOfDay(of));
}

export async function countEvents({ db, sender, someEmailId }: Stage): Promise<void> {
  const atMs = Number.parseInt(someEmailId.replace('-', '').slice(0, 12), 16);
  const day = new Date(atMs).toISOString().slice(0, 10);
  const place = await outcomes.findDayStart(db, sender, day);
  const first = { epoch: 0, xactId: '0', subjectId: sender.projectId, seq: 0 };
  await outcomes.countOutcomes(db, { ...sender, day }, place ?? first);
}

export async function walkPlaces({ db }: Stage): Promise<void> {
  await walkQueueStep(db);
}

export async function useOperatorMail({ db, sender }: Stage): Promise<void> {
  const to = parseAddress('ops@acme.example')!;
  await mail.setOperatorAddress(db, to);
  const condition = { type: 'disk.low', subject: 'mail2.example.org' } as const;
  await raiseCondition(db, { ...condition, message: 'The disk is full.', remedy: 'Make room.' });
  await clearCondition(db, condition);
  await mail.hasQueuedOperatorMail(db);
  await mail.planOperatorMail(db);
  for (const { id } of await mail.listPlannedMail(db, 10)) await mail.deletePlannedMail(db, id);
  await mail.findOperatorSender(db, { domain: null, to });
  const scope = { projectId: sender.projectId, environment: 'live' } as const;
  const from = { ...scope, organizationId: '', domain: 'acme.example', isSuppressed: false };
  await mail.findOrCreateMailKey(db, from);
  await mail.deleteOldOperatorMail(db, 10);
  await mail.setOperatorAddress(db, null);
}

export async function useNotices({ db, sender, someEmailId: emailId }: Stage): Promise<void> {
  const facts = { action: 'relayed', status: '', diagnostic: null, remoteMta: null, advice: null };
  const notice = { kind: 'success', facts } as Notice;
  await db.transaction((tx) =>
    notices.queueNotices(tx, [{ ...sender, emailId, position: 0, notice }]),
  );
  for (const due of await notices.claimNotices(db, 10)) await notices.endNotice(db, due);
  await notices.deleteOldNotices(db, 10);
}

/** Statements of received mail, for database/plans.test.ts. */
import {
  type InboundItem,
  ReportStore,
  findSentRecipient,
  hasDomain,
} from '../../src/inbound/report-store.ts';
import {
  findInbound,
  deleteOldInbound,
  listInbound,
  InboundMessageStore,
} from '../../src/inbound/inbound-message-store.ts';
import { storeDmarcReport, sumDmarcReports } from '../../src/domains/dmarc/dmarc-store.ts';
import { newId } from '../../src/database/ids.ts';
import { SettleStore } from '../../src/settle/settle-store.ts';
import { readDatabaseBytes, findLocalDataDirectory } from '../../src/database/server/capacity.ts';
import { SETTLING, settlement } from './mail-store.ts';
import { acceptBatch, type Exercise, type Stage } from './statements.ts';

function itemAbout(
  email: Awaited<ReturnType<typeof acceptBatch>>[number],
  status: 'bounced' | 'delivered',
): InboundItem {
  const { projectId, environment, id: emailId } = email;
  const change = { status, eventType: `email.${status}`, attempt: null, late: true } as const;
  const [id, eventId] = [newId(), newId()];
  return {
    message: {
      id,
      reportHash: Buffer.from(id),
      remoteAddress: '192.0.2.1',
      sender: '',
      recipient: 'b-token@send.acme.com',
      kind: 'bounce',
      about: { projectId, environment, emailId, position: 0 },
      sizeBytes: 2_000,
      content: Buffer.from('Subject: Undelivered\r\n\r\n'),
    },
    settlement: settlement(email, { ...change, eventId }),
  };
}

/** Settles reports about open, delivered and sent emails: nothing, a bounce, a delivery. */
async function settleReports(stage: Stage): Promise<void> {
  const { db } = stage;
  const store = new ReportStore(db.inbound, { onWebhooksQueued: () => {} });
  const batch = await acceptBatch(stage);
  const settling = new SettleStore(db.settling, { ...SETTLING, leaseId: () => stage.leaseId });
  const ended = batch.filter((_, index) => index % 3 > 0);
  await Promise.all(
    ended.map((email, index) =>
      settling.settle(settlement(email, index % 2 === 0 ? {} : { status: 'sent' })),
    ),
  );
  await Promise.all(
    batch.map((email, index) =>
      store.add(itemAbout(email, index % 3 === 2 ? 'delivered' : 'bounced')),
    ),
  );
}

/** Keeps unmatched mail in the current segment, and where the next one must be emptied. */
async function keepUnmatched(stage: Stage): Promise<void> {
  const store = new InboundMessageStore(stage.db.inbound, { ringBytesMax: 8 * 2_000 });
  const batch = await acceptBatch(stage);
  await Promise.all(batch.map((email) => store.add(itemAbout(email, 'bounced').message)));
}

async function lookUp({ db, sender, someEmailId }: Stage): Promise<void> {
  const emailId = someEmailId;
  await findSentRecipient(db.inbound, { domain: 'acme.com', emailId, position: 0 });
  await hasDomain(db.inbound, 'acme.com');
  const [newest] = await listInbound(db, { limit: 20, kind: 'bounce', before: null });
  await findInbound(db, newest?.id ?? newId());
  await storeDmarcReport(db.inbound, {
    organization: 'mx.example',
    reportId: newId(),
    domain: 'acme.com',
    policy: 'none',
    beginsAt: new Date(0),
    endsAt: new Date(),
    sources: [{ ip: '192.0.2.1', passed: 1, failed: 0 }],
  });
  await sumDmarcReports(db, { domain: 'acme.com', policy: 'none', days: 14 });
  await deleteOldInbound(db, { contentH: 24, projectId: null });
  await deleteOldInbound(db, { contentH: 24, projectId: sender.projectId });
  await findLocalDataDirectory(db);
  await readDatabaseBytes(db);
}

export const INBOUND_EXERCISES: readonly Exercise[] = [
  // 64 reports. In the first hours of a week PostgreSQL reads the few pages of the new partition for each of them.
  { what: 'settle reports', asks: 96, run: settleReports },
  { what: 'keep unmatched mail', asks: 64, run: keepUnmatched },
  { what: 'inbound: look up', asks: 22, run: lookUp },
];

/** Accepts emails of a project whose limit has blocks, for database/plans.test.ts. */
import { storeEmails, storeBatch } from '../../src/accept/store/full-path.ts';
import { storeEmailsFast, storeBatchFast } from '../../src/accept/store/fast-path.ts';
import { newId } from '../../src/database/ids.ts';
import { makeBlocks } from '../../src/accept/store/limits/limit-blocks.ts';
import { listLimits } from '../../src/accounts/limits/limit-store.ts';
import { emailBatch, newEmail } from './mail-store.ts';
import * as maxima from '../../src/accounts/limits/maximum-store.ts';
import { keyEarlierMail } from '../../src/migration/migrate-addresses.ts';
import { countEarlierMail } from '../../src/accounts/storage/earlier-storage-store.ts';
import * as storage from '../../src/accounts/storage/storage-store.ts';
import type { Exercise, Stage } from './statements.ts';

const FEW = 8;

async function listAll({ db, sender }: Stage): Promise<void> {
  const limit = { max: 100, windowS: 60 };
  await listLimits(db, sender, [
    ['sending', limit],
    ['recipients', limit],
    ['webhooks', limit],
  ]);
}

/** The first statement fills the blocks, and the others use them. */
async function acceptFromBlocks({ db, sender, leaseId }: Stage): Promise<void> {
  const options = {
    limit: { max: 1_000_000, windowS: 60 },
    leaseId,
    onWebhooksQueued: () => {},
    hasBlocks: true,
  };
  const emails = (hasKeys = false) =>
    Array.from({ length: FEW }, () =>
      newEmail(sender, { idempotency: hasKeys ? { key: newId(), fingerprint: '00' } : null }),
    );
  await makeBlocks(db, sender);
  await db.query(`update limit_blocks set made_at = made_at - interval '1 hour'`);
  await storeEmails(db.accepting, emails(), options);
  await storeEmails(db.accepting, emails(), options);
  await storeEmailsFast(db.accepting, emails(), options);
  await storeEmailsFast(db.accepting, emails(true), options);
  await storeBatchFast(db.accepting, emailBatch(emails()), options);
  await storeBatch(db.accepting, emailBatch(emails()), options);
  await db.query('delete from limit_blocks');
  await db.query('update limit_windows set has_blocks = false, used = 0, recipients_used = 0');
}

async function useStorage({ db, sender: { projectId } }: Stage): Promise<void> {
  const room = { projectId, day: '2026-11-25', bytes: 1_000 };
  await storage.setStorageDefault(db, 1_000_000_000);
  await storage.setStorageMax(db, projectId, null);
  await storage.reserveStorage(db, room, 2_000);
  await storage.readStorage(db, projectId);
  await storage.listStorage(db);
  await storage.releaseStorage(db, room);
  await countEarlierMail(db, 20);
  await storage.subtractDeletedMail(db, { contentH: 24, metadataH: 48 });
}

async function keyAddresses({ db }: Stage): Promise<void> {
  await db.query('insert into earlier_addresses (lists_done) values (true) on conflict do nothing');
  await keyEarlierMail(db, KEYED);
}

async function countMaxima({ db, sender }: Stage): Promise<void> {
  await maxima.checkKeysMax(db, sender);
  await maxima.checkProjectsMax(db, newId());
  await maxima.checkMembersMax(db, { organizationId: newId(), emailKey: 'jo@acme.test' });
}

const KEYED = 20;
const SUPPRESSIONS_MAX = 500_000;

async function countSuppressions({ db, sender }: Stage): Promise<void> {
  const maximum = new maxima.SuppressionsMaximum({ monotonicMs: () => 0 }, SUPPRESSIONS_MAX);
  await maximum.check(db, sender, 1);
}

export const LIMIT_EXERCISES: readonly Exercise[] = [
  { what: 'count what has a maximum', asks: 1, run: countMaxima },
  { what: 'count suppressions', asks: SUPPRESSIONS_MAX, run: countSuppressions },
  { what: 'reserve, list and subtract stored bytes', asks: 1, run: useStorage },
  // Emails, their recipients, and the position.
  { what: 'key the addresses of earlier mail', asks: 3 * KEYED, run: keyAddresses },
  { what: 'list the limits', asks: 3, run: listAll },
  { what: 'accept from blocks of a limit', asks: FEW, run: acceptFromBlocks },
];

/**
 * Rotates a domain's DKIM keys without a pause in sending:
 *
 *     rotate ──> next keys, current keys sign ── a check finds the next RSA record (domain-check.ts) ──> next keys sign
 *                    └── cancel ──> as before                                previous record stays for 7 days
 *
 * Mail is signed with the keys that are current when it is sent. A domain has one rotation at a time. None
 * starts while mail of the previous keys may be under way, so a domain has at most three records.
 */
import { type Refusal, noSuch } from '../core/refusals.ts';
import type { DomainScope } from '../core/scope.ts';
import { keyRecordsOf } from './domain-check.ts';
import { generateKeys, sealKeys, TOO_MANY_AT_ONCE } from './dkim-keys.ts';
import { removableAt } from './wire.ts';
import { type CheckedRecord, otherKeyRecords, uncheckedRecords } from './dns/records.ts';
import { beginRotation, cancelRotation } from './dkim-key-store.ts';
import { findDomain, lockDomain, type StoredDomain } from './domain-store.ts';
import { isId } from '../database/ids.ts';
import type { Database } from '../database/database.ts';
import type { SecretBox } from '../secrets/secret-box.ts';

export const NO_DOMAIN = noSuch('domain');

export async function rotateDkim(
  { db, secrets }: { db: Database; secrets: SecretBox },
  scope: DomainScope,
  id: string,
): Promise<StoredDomain | Refusal> {
  const domain = isId(id) ? await findDomain(db, scope, id) : null;
  if (!domain) return NO_DOMAIN;
  const refusal = refuseRotation(domain);
  if (refusal) return refusal;
  const generated = await generateKeys();
  if (generated === null) return TOO_MANY_AT_ONCE;
  const keys = sealKeys(generated, { id, secrets });
  return db.transaction(async (tx) => {
    const locked = await lockDomain(tx, domain, id);
    if (!locked) return NO_DOMAIN;
    const lateRefusal = refuseRotation(locked);
    if (lateRefusal) return lateRefusal;
    const nextRecords = otherKeyRecords(locked.name, keyRecordsOf('next', keys));
    const records = [...(locked.records as CheckedRecord[]), ...uncheckedRecords(nextRecords)];
    return beginRotation(tx, locked, { keys, records });
  });
}

function refuseRotation(domain: StoredDomain): Refusal | null {
  const { name, verifiedAt, nextKeys, previousKeys, isPreviousNeeded, isKeyUnusable } = domain;
  const conflict = (message: string): Refusal => ({ refused: 'conflict', message });
  if (verifiedAt === null) {
    return conflict(`${name} has not been verified yet: publish the records of its current keys.`);
  }
  if (nextKeys !== null) {
    return conflict(
      `A rotation of ${name} is under way since ${nextKeys.since}: publish the record of ${nextKeys.rsaSelector}, or cancel the rotation.`,
    );
  }
  // If the current keys cannot be opened, nothing is sent. The record of the previous keys may stay published.
  if (previousKeys === null || !isPreviousNeeded || isKeyUnusable) return null;
  return conflict(
    `The keys of ${name} were replaced at ${previousKeys.since}, and mail with the previous ones may be under way: rotate again after ${removableAt(previousKeys)}.`,
  );
}

export async function cancelDkimRotation(
  db: Database,
  scope: DomainScope,
  id: string,
): Promise<StoredDomain | Refusal> {
  const domain = isId(id) ? await findDomain(db, scope, id) : null;
  if (!domain) return NO_DOMAIN;
  return db.transaction(async (tx) => {
    const locked = await lockDomain(tx, domain, id);
    if (!locked) return NO_DOMAIN;
    if (locked.nextKeys === null) {
      const message = `No rotation of ${locked.name} is under way; its keys sign since ${locked.dkimSince.toISOString()}.`;
      return { refused: 'conflict', message };
    }
    const records = (locked.records as CheckedRecord[]).filter(({ key }) => key !== 'next');
    return cancelRotation(tx, locked, records);
  });
}

/** Statements of sending domains and their DKIM keys, for statements.ts. */
import * as domains from '../../src/domains/domain-store.ts';
import { loadSigningKeys } from '../../src/domains/domain-store.ts';
import * as history from '../../src/domains/dns/check-history-store.ts';
import * as rotation from '../../src/domains/dkim-key-store.ts';
import { newId } from '../../src/database/ids.ts';
import type { Page } from '../../src/database/page.ts';
import type { Stage } from './statements.ts';

const PAGE: Page = { limit: 20, before: null, after: null };

export async function useDomains({ db, sender }: Stage): Promise<void> {
  const [stored] = (await domains.listDomains(db, sender, PAGE)).rows;
  const sealed = Buffer.from('sealed');
  const secret = { rsaPrivateKey: sealed, ed25519PrivateKey: sealed };
  const added = await domains.insertDomain(db, {
    ...stored!,
    ...secret,
    id: newId(),
    name: 'b.com',
  });
  await domains.domainCapacity(db, { ...sender, name: 'b.com' }, 10);
  await domains.setDomainsMax(db, sender.projectId, null);
  await db.transaction(async (tx) => {
    await domains.lockDomainsOfProject(tx, sender.projectId);
    const locked = await domains.lockDomain(tx, sender, added!.id);
    await domains.saveCheck(tx, locked!, locked!);
    await history.noteCheckResult(tx, locked!, { records: [], dmarc: null });
    const now = new Date();
    await history.listCheckResults(tx, { ...sender, id: newId() }, { from: now, until: now });
    const made = { ...locked!, rsaPrivateKey: Buffer.alloc(1), ed25519PrivateKey: Buffer.alloc(1) };
    await rotation.beginRotation(tx, locked!, { keys: made, records: [] });
    await rotation.cancelRotation(tx, locked!, []);
    await rotation.beginRotation(tx, locked!, { keys: made, records: [] });
    await rotation.switchKeys(tx, locked!);
    await domains.deleteDomain(tx, sender, added!.id);
  });
  await domains.findDomain(db, sender, stored!.id);
  await domains.findUnknownDomains(db, sender, [stored!.name, '*.one.test']);
  await domains.isVerifiedDomain(db, { ...sender, name: stored!.name });
  await domains.changeDomain(db, sender, { id: stored!.id, tls: 'opportunistic' });
  await domains.listDomainsToRecheck(db, { max: 10, perProjectMax: 4 });
  await domains.readDatabaseTime(db);
  await loadSigningKeys(db, sender.projectId, stored!.id);
}

/** Counts the waiting mail of the project. */
export async function countWaiting({ db, sender }: Stage): Promise<void> {
  await domains.countWaiting(db, sender, sender.domainId);
}

/** Statements about secret keys and the data that they encrypt. */
import type { Database } from '../../src/database/database.ts';
import { newId } from '../../src/database/ids.ts';
import * as receiptKeys from '../../src/emails/evidence/receipt-key-store.ts';
import {
  foreignKeyProblem,
  replaceCheck,
  resealCheck,
  readOrCreateSecretKey,
} from '../../src/secrets/key-check-store.ts';
import { SecretBox } from '../../src/secrets/secret-box.ts';
import {
  listFirstKeys,
  listNodeKeys,
  recordFirstKey,
  recordSecretKeys,
  resealAll,
} from '../../src/secrets/secret-store.ts';
import * as unusable from '../../src/secrets/unusable-store.ts';
import { createEndpoint, deleteEndpoint } from '../../src/webhooks/endpoint-store.ts';
import type { Stage } from './statements.ts';

export async function useSecretKeys({ db, sender }: Stage): Promise<void> {
  const [old, fresh] = ['o'.repeat(32), 'n'.repeat(32)];
  const id = newId();
  const secret = new SecretBox(old).seal('whsec', id);
  await createEndpoint(db, sender, { id, url: 'https://s.test', events: ['email.sent'], secret });
  await recordSecretKeys(db, { instance: newId(), keyIds: ['00000000'] });
  await recordFirstKey(db, '00000001');
  await listNodeKeys(db);
  await listFirstKeys(db);
  await resealAll(db, new SecretBox(`${fresh},${old}`));
  await useReceiptKeys(db);
  await useCheck(db);
  await useMarks(db, sender.projectId, id);
  await deleteEndpoint(db, sender, id);
}

async function useReceiptKeys(db: Database): Promise<void> {
  const id = newId();
  await receiptKeys.addReceiptKey(db, { id, publicKey: '', privateKey: Buffer.alloc(1) });
  await receiptKeys.listReceiptKeys(db);
  await receiptKeys.retireReceiptKey(db, id);
}

async function useMarks(db: Database, projectId: string, id: string): Promise<void> {
  const row = { kind: 'webhook', ownerId: projectId, id } as const;
  await unusable.markUnusable(db, row);
  await unusable.unmarkUnusable(db, row);
  await unusable.markAllUnusable(db, new SecretBox('w'.repeat(32)));
  await unusable.countUnusable(db);
  await unusable.listSecretsToRenew(db);
  await unusable.areAllDomainsUnusable(db);
  await unusable.isDomainUnusable(db, { projectId, domainId: id });
  await unusable.unmarkUsable(db, { opens: () => true });
}

async function useCheck(db: Database): Promise<void> {
  const right = new SecretBox('c'.repeat(32));
  await db.query(`update installation set secret_check = $1`, [right.seal('x', 'installation')]);
  await readOrCreateSecretKey(db, { dataDir: '/', configured: 'c'.repeat(32) });
  const wrong = 'w'.repeat(32);
  await foreignKeyProblem(db, { dataDir: '/', configured: wrong }, new SecretBox(wrong));
  await resealCheck(db, new SecretBox(`${'d'.repeat(32)},${'c'.repeat(32)}`));
  await replaceCheck(db, right);
  await db.query('update installation set secret_check = null');
}

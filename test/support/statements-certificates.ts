/** Statements about certificates that the service orders. */
import { newId } from '../../src/database/ids.ts';
import * as store from '../../src/certificates/certificate-store.ts';
import type { Stage } from './statements.ts';

export async function useCertificates({ db }: Stage): Promise<void> {
  const name = 'mail.a.test';
  const [id, directoryUrl, key] = [newId(), 'https://ca.test/', Buffer.from('sealed')];
  await store.addName(db, { name, id, directoryUrl });
  await store.listCertificates(db, [name]);
  await store.claimOrder(db, { name, waitsMs: [1, 2] });
  const attempt = { name, failures: 1 };
  await store.noteOrder(db, attempt, { orderUrl: 'https://ca.test/1', orderKey: key });
  await store.failOrder(db, attempt, { problem: 'p', remedy: 'r', waitMs: 1 });
  await store.returnOrder(db, attempt);
  const issued = { chain: 'pem', privateKey: key, renewAt: new Date(), restMs: 1 };
  await store.completeOrder(db, attempt, issued);
  await store.claimRenewalLook(db, { name, nextMs: 1 });
  const renewal = { renewAt: new Date(), restMs: 1, nextMs: 1 };
  await store.noteRenewal(db, { name, chain: 'pem' }, renewal);
  await store.findOrAddAccount(db, directoryUrl, { id, privateKey: key });
  await store.replaceAccount(db, directoryUrl, { id, privateKey: key });
  await store.addChallenge(db, { token: 't', keyAuthorization: 't.k' });
  await store.listChallenges(db);
  await store.removeChallenges(db, ['t']);
}

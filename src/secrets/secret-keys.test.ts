/**
 * Re-sealing of stored secrets under a new key, interrupted and with writers meanwhile.
 * test/journey/secret-rotation.test.ts rotates the key of a service.
 */
import assert from 'node:assert/strict';
import { createCipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { after, test } from 'node:test';
import { newSender } from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import type { Queryable } from '../database/database.ts';
import { newId } from '../database/ids.ts';
import { createMember } from '../accounts/members/member-store.ts';
import { SecretBox } from './secret-box.ts';
import { resealAll } from './secret-store.ts';
import { findTotp, prepareTotp } from '../accounts/sign-in/totp-store.ts';
import { createEndpoint, findSecrets, rotateSecret } from '../webhooks/endpoint-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const [OLD, NEW] = ['o'.repeat(40), 'n'.repeat(40)];

/** Seals in the form that older versions used, without the id of the key. */
function sealedLongAgo(plain: string, rowId: string): Buffer {
  const key = Buffer.from(hkdfSync('sha256', OLD, 'letterhaus', 'encryption at rest', 32));
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(rowId));
  const sealed = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
}

test('secrets sealed without a key name can be opened, also during a rotation', () => {
  const sealed = sealedLongAgo('a secret', 'row');
  for (const keys of [OLD, `${NEW},${OLD}`, `${OLD},${NEW}`]) {
    assert.equal(new SecretBox(keys).open(sealed, 'row'), 'a secret');
  }
  assert.throws(() => new SecretBox(NEW).open(sealed, 'row'), /no secret key decrypts/);
  assert.throws(() => new SecretBox(OLD).open(sealed, 'another row'));
});

test('a sealed secret opens only with its key, in any order of keys', () => {
  const sealed = new SecretBox(OLD).seal('a secret', 'row');
  assert.equal(new SecretBox(`${NEW},${OLD}`).open(sealed, 'row'), 'a secret');
  assert.throws(() => new SecretBox(NEW).open(sealed, 'row'));
  const box = new SecretBox(OLD);
  box.replaceKeys(`${NEW},${OLD}`);
  const anew = box.seal('a secret', 'row');
  assert.equal(new SecretBox(NEW).open(anew, 'row'), 'a secret');
  assert.deepEqual(box.derive('x'), new SecretBox(NEW).derive('x'));
  assert.deepEqual(box.deriveAll('x')[1], new SecretBox(OLD).derive('x'));
});

test('interrupted re-sealing continues when it is called again', async () => {
  const sender = await newSender(db);
  const old = new SecretBox(OLD);
  const ids: string[] = [];
  for (let n = 0; n < 12; n += 1) {
    const id = newId();
    const secret = n % 2 ? old.seal(`whsec ${n}`, id) : sealedLongAgo(`whsec ${n}`, id);
    await createEndpoint(db, sender, { id, url: 'https://x.test', events: null, secret });
    if (n === 7) {
      for (const text of ['whsec seven', 'whsec 7']) {
        await rotateSecret(db, sender, { id, secret: old.seal(text, id) });
      }
    }
    ids.push(id);
  }
  const secrets = new SecretBox(`${NEW},${OLD}`);
  let updates = 0;
  const breakingOff: Queryable = {
    query: (statement, values) => {
      const isUpdate = typeof statement === 'string' && /^\s*update/.test(statement);
      if (isUpdate && ++updates > 2) return Promise.reject(new Error('killed'));
      return db.query(statement, values);
    },
  };
  await assert.rejects(resealAll(breakingOff, secrets, 5), /killed/);
  const rest = await resealAll(db, secrets, 5);
  assert.ok(rest.sealed > 0 && rest.sealed < 14, String(rest.sealed));
  // The domain of newSender has no real key: it is counted, and stops nothing.
  assert.equal(rest.unreadable, 2);
  const onlyNew = new SecretBox(NEW);
  for (const [n, id] of ids.entries()) {
    const stored = await findSecrets(db, sender, id);
    assert.equal(onlyNew.open(stored!.secret, id), `whsec ${n}`);
    if (n !== 7) continue;
    assert.equal(onlyNew.open(stored!.previousSecret!, id), 'whsec seven');
    assert.equal(onlyNew.open(stored!.earlierSecret!, id), 'whsec 7');
  }
  assert.equal((await resealAll(db, secrets, 5)).sealed, 0);
});

test('second factors are sealed anew as well', async () => {
  const { projectId } = await newSender(db);
  const [row] = await db.query<{ organizationId: string }>(
    'select organization_id as "organizationId" from projects where id = $1',
    [projectId],
  );
  const who = { email: 'jo@acme.test', emailKey: 'jo@acme.test', name: 'Jo', password: 'x' };
  const member = await createMember(db, { ...who, ...row!, role: 'viewer' });
  const { id } = member!;
  await prepareTotp(db, id, new SecretBox(OLD).seal('a secret', id));
  await resealAll(db, new SecretBox(`${NEW},${OLD}`));
  const { secret } = (await findTotp(db, id))!;
  assert.equal(new SecretBox(NEW).open(secret!, id), 'a secret');
});

test('a secret that is replaced during re-sealing keeps its new value', async () => {
  const sender = await newSender(db);
  const id = newId();
  const old = new SecretBox(OLD);
  const secret = old.seal('before', id);
  await createEndpoint(db, sender, { id, url: 'https://x.test', events: null, secret });
  const secrets = new SecretBox(`${NEW},${OLD}`);
  let isReplaced = false;
  const racing: Queryable = {
    query: async (statement, values) => {
      const isUpdate = typeof statement === 'string' && /^\s*update webhook_e/.test(statement);
      if (isUpdate && !isReplaced) {
        isReplaced = true;
        await rotateSecret(db, sender, { id, secret: secrets.seal('after', id) });
      }
      return db.query(statement, values);
    },
  };
  await resealAll(racing, secrets);
  await resealAll(db, secrets);
  const stored = await findSecrets(db, sender, id);
  assert.equal(new SecretBox(NEW).open(stored!.secret, id), 'after');
  assert.equal(new SecretBox(NEW).open(stored!.previousSecret!, id), 'before');
});

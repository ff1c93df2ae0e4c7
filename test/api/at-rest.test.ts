/** A copy of the database discloses no secret without the secret key. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { startService } from '../support/service.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());

/** Every row of every table as text; bytes are in hex there. */
async function everything(): Promise<string> {
  const tables = await service.sql(
    `select oid::regclass::text as name from pg_class
      where relkind = 'r' and relnamespace = current_schema()::regnamespace`,
  );
  const rows = [];
  for (const { name } of tables)
    rows.push(...(await service.sql(`select stored::text as row from ${name} stored`)));
  return rows.map(({ row }) => row).join('\n');
}

const hex = (text: string | Buffer): string => Buffer.from(text).toString('hex');

test('the database contains no API key, private key or webhook secret in clear text', async () => {
  const { body: key } = await service.request('POST', '/v1/api-keys', {
    body: { name: 'Shop', permission: 'full_access' },
  });
  const { body: webhook } = await service.request('POST', '/v1/webhooks', {
    body: { url: 'https://hooks.acme.example/in' },
  });
  assert.match(webhook.signing_secret, /^whsec_/);
  await service.request('POST', '/v1/domains', { body: { name: 'rest.test' } });
  const secret = String(webhook.signing_secret).replace('whsec_', '');
  const text = await everything();
  assert.ok(text.includes('rest.test') && text.includes('hooks.acme.example'), 'the rows are here');
  for (const [what, found] of [
    ['a key', service.testKey],
    ['a key', key.key],
    ['the secret of a webhook', secret],
    ['the secret of a webhook', hex(Buffer.from(secret, 'base64'))],
    ['a private key', 'PRIVATE KEY'],
    ['a private key', hex('PRIVATE KEY')],
  ] as [string, string][]) {
    const isThere = text.includes(found) || text.includes(hex(found));
    assert.ok(!isThere, `${what} is in the database`);
  }
});

test('a sealed secret cannot be opened in another row', async () => {
  const { body: mine } = await service.request('POST', '/v1/domains', { body: { name: 'a.test' } });
  const { body: theirs } = await service.request('POST', '/v1/domains', {
    body: { name: 'b.test' },
  });
  await service.request('POST', `/v1/domains/${mine.id}/verify`);
  await service.request('POST', `/v1/domains/${theirs.id}/verify`);
  await service.sql(
    `update domains mine set rsa_private_key = theirs.rsa_private_key
       from domains theirs where mine.id = $1 and theirs.id = $2`,
    [mine.id, theirs.id],
  );
  const id = await service.send({ from: 'us@a.test' });
  const other = await service.send({ from: 'us@b.test' });
  await service.waitForStatus(other, 'delivered');
  // It cannot be signed, so it is deferred.
  await service.waitForStatus(id, 'deferred');
  const [recipient] = (await service.email(id)).recipients;
  assert.match(JSON.stringify(recipient), /cannot open its DKIM key/);
});

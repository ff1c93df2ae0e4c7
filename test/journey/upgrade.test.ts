/**
 * An upgrade of a database of the first schema, with mail in it: every row is intact afterwards, and waiting mail is
 * sent.
 */
import assert from 'node:assert/strict';
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { migrate } from '../../src/migration/migrate.ts';
import { MIGRATIONS_DIR, SCHEMA_KNOWN } from '../../src/migration/schema-version.ts';
import { temporaryFolder } from '../support/embedded.ts';
import { startFakeDns } from '../support/fake-dns.ts';
import { startFakeMx } from '../support/fake-mx.ts';
import { firstMigrations, makeFirstSchema, rowsOf } from '../support/first-schema.ts';
import { emptyDatabase } from '../support/postgres.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { startReceiver, verified } from '../support/webhook-receiver.ts';

/** A migration of the next version: a column, a table and an index more. */
const NEXT = `
  alter table emails add column grown text not null default 'as before';
  create table grown (email_id uuid primary key, note text);
  create index grown_by_note on grown (note);`;

test('the files of the first schema are unchanged since its release', () => {
  assert.deepEqual(firstMigrations(), [
    '0001.do.time.sql: 59905a2d5b592af9',
    '0002.do.accounts.sql: 054ab853caf94bf4',
    '0003.do.domains.sql: 446a5cffd2bb8828',
    '0004.do.emails.sql: 38b13f9571bc6232',
    '0005.do.queue.sql: c4f20238355b6f2d',
    '0006.do.transport-security.sql: 718dfe6def7fd85c',
    '0007.do.suppressions.sql: b196e8b99f105b1e',
    '0008.do.webhooks.sql: e136f1c0c0fabf7f',
    '0009.do.inbound.sql: 2619ef18c8e5eb70',
    '0010.do.reputation.sql: 59e7f02666ebbdb8',
    '0011.do.installation.sql: dd8c5e550fa27d53',
  ]);
});

test('a database of the first schema is upgraded with all rows, and its mail is sent', async () => {
  await using database = await emptyDatabase();
  const recorded = await makeFirstSchema(database.address);
  const before = await rowsOf(database.address);
  const empty = [...before].filter(([, rows]) => rows.length === 0).map(([name]) => name);
  assert.deepEqual(empty, [], 'every table has rows');

  const folder = temporaryFolder();
  cpSync(MIGRATIONS_DIR, folder, { recursive: true });
  writeFileSync(join(folder, `${SCHEMA_KNOWN + 1}.do.grown.sql`), NEXT);
  const options = { nowMs: Date.now(), acceptAnyDurability: true, folder };
  const { version } = await migrate(database.address, options);
  assert.equal(version, SCHEMA_KNOWN + 1);
  const after = await rowsOf(database.address);
  for (const [table, rows] of before) assertIntact(table, rows, after.get(table) ?? []);

  await using receiver = await startReceiver();
  await using mx = await startFakeMx({}, { address: '127.0.1.1' });
  const domains = ['ready.test', 'busy.test', 'slow.test'];
  const zone = domains.map((domain) => [domain, { MX: ['10 mx.test'] }] as const);
  await using dns = await startFakeDns({
    ...Object.fromEntries(zone),
    'mx.test': { A: ['127.0.1.1'] },
  });
  await using service = await startService({
    dns,
    database,
    env: {
      LETTERHAUS_SECRET_KEY: recorded.secretKey,
      LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
      LETTERHAUS_MX_PORT: String(mx.port),
      LETTERHAUS_HOSTNAME: 'out.letterhaus.example',
    },
  });
  await service.sql('update webhook_endpoints set url = $1', [receiver.url]);
  const { liveKey: key, emails } = recorded;

  const delivered = await service.email(emails.delivered, key);
  assert.equal(delivered.status, 'delivered');
  assert.equal(delivered.html, '<p>Grüße</p>');
  const again = await service.request('POST', '/v1/emails', {
    key,
    body: recorded.draft,
    headers: { 'idempotency-key': recorded.idempotencyKey },
  });
  assert.equal(again.body.id, emails.delivered, 'the same request has the same answer');
  assert.equal((await service.email(emails.bounced, key)).status, 'bounced');

  const draft = { from: 'Acme <hello@acme.example>', subject: 'Hi', text: 'Hi' };
  const body = { ...draft, to: 'no@ready.test' };
  const suppressed = await service.request('POST', '/v1/emails', { key, body });
  assert.equal(suppressed.body.error.code, 'suppressed');

  // A worker that died before the upgrade had claimed one of them.
  await service.clock.advance({ hours: 2 });
  for (const id of [emails.deferred, emails.interrupted]) {
    await service.waitForStatus(id, 'delivered', { key, timeoutMs: 60_000 });
  }
  const fresh = await service.send({ ...draft, to: 'new@ready.test' }, { key });
  await service.waitForStatus(fresh, 'delivered', { key });
  assert.ok(
    mx.messages.every(({ raw }) => /^DKIM-Signature: .*d=acme\.example/ms.test(raw.toString())),
  );

  const waiting = before.get('webhook_queue') as { event_id: string }[];
  await waitFor(() => waiting.every(({ event_id: id }) => receiver.ids().includes(id)), {
    what: 'the webhooks that waited before the upgrade',
    timeoutMs: 60_000,
  });
  for (const received of receiver.received) verified(recorded.signingSecret, received);
});

/** The rows are the same in the columns that both schemas have; a migration may require newer code. */
function assertIntact(table: string, before: readonly object[], after: readonly object[]): void {
  const [old = {}, present = {}] = [before[0], after[0]];
  const inBoth = (row: object): string =>
    JSON.stringify(
      Object.entries(row).filter(
        ([column]) => column in old && column in present && column !== 'schema_required',
      ),
    );
  const expected = before.map(inBoth).toSorted();
  assert.deepEqual(after.map(inBoth).toSorted(), expected, `the rows of ${table}`);
}

/** Scheduled backups of a running service. */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../support/embedded.ts';
import { letterhaus } from '../support/letterhaus.ts';
import { opening, SEALED } from '../support/sealing.ts';
import { type Service, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const OLD = [1, 2, 3].map((day) => `letterhaus-2026010${day}T000000Z.backup`);

test('a backup is made when it is due and checked, and then old ones are removed', async () => {
  const folder = join(temporaryFolder(), 'backups');
  await using service = await startService({
    env: {
      LETTERHAUS_BACKUP_TO: folder,
      LETTERHAUS_BACKUP_KEEP: '2',
      ...SEALED,
    },
  });
  // Its folder is missing: that is logged and counted.
  await service.logged(/cannot be used \(ENOENT\).*a backup failed/);
  await service.counted(/^letterhaus_backup_failures_total 1$/m);
  await service.counted(/^letterhaus_backup_last_success_timestamp_seconds 0$/m);

  mkdirSync(folder);
  for (const name of OLD) writeFileSync(join(folder, name), 'an old one');
  writeFileSync(join(folder, 'notes.txt'), 'not a backup');
  // A machine that lost its power left this behind.
  const unfinished = join(folder, `.${OLD[0]}.7.unfinished`);
  writeFileSync(unfinished, '');
  const hourAgo = new Date(Date.now() - 3600_000);
  utimesSync(unfinished, hourAgo, hourAgo);
  await service.restart();
  const isMade = () => metric(service, 'last_success_timestamp_seconds').then((s) => s > 1.78e9);
  await waitFor(isMade, { what: 'a good backup', timeoutMs: 180_000 });
  const names = readdirSync(folder).toSorted();
  const [kept, made, other] = names.filter((name) => name !== 'letterhaus.journal');
  assert.deepEqual([kept, other], [OLD[2], 'notes.txt']);
  const verified = await letterhaus(['backup', '--verify', join(folder, made!)], {});
  assert.equal(verified.code, 0, verified.stderr);

  // It is not due again after a restart.
  await service.restart();
  await waitFor(isMade, { what: 'the age of the backup' });
  assert.equal(readdirSync(folder).filter((name) => name.endsWith('.backup')).length, 2);
});

test('scheduled backups need a passphrase or a recipient', async () => {
  const folder = temporaryFolder();
  const { code, stderr } = await letterhaus(['start'], { LETTERHAUS_BACKUP_TO: folder });
  assert.equal(code, 2);
  assert.match(stderr, /set LETTERHAUS_BACKUP_PASSPHRASE or LETTERHAUS_BACKUP_RECIPIENT too/);
});

test('suppressions and idempotency keys since the backup outlive the machine', async () => {
  const folder = temporaryFolder();
  const lost = await startService({
    database: 'own',
    env: { LETTERHAUS_BACKUP_TO: folder, ...SEALED },
  });
  const backups = () => readdirSync(folder).filter((name) => name.endsWith('.backup'));
  const isMade = () => metric(lost, 'last_success_timestamp_seconds').then((s) => s > 0);
  await waitFor(isMade, { what: 'a good backup', timeoutMs: 180_000 });
  const headers = { 'idempotency-key': 'order-4711' };
  const id = await lost.send({}, { headers });
  const body = { address: 'gone@example.org' };
  const added = await lost.request('POST', '/v1/suppressions', { body });
  assert.equal(added.status, 201, added.text);
  const journal = join(folder, 'letterhaus.journal');
  const hasBoth = () =>
    existsSync(journal) &&
    /gone@example\.org[^]*order-4711|order-4711[^]*gone@/.test(readFileSync(journal, 'utf8'));
  await waitFor(hasBoth, { what: 'both in the journal' });
  await lost.killGroup9();
  const key = lost.testKey;
  await lost[Symbol.asyncDispose]();
  // Lost while it wrote a line.
  appendFileSync(journal, '{"table":"suppressions","at":"2026');

  const dataDir = join(temporaryFolder(), 'data');
  const home = { LETTERHAUS_DATA_DIR: dataDir };
  const file = join(folder, backups()[0]!);
  const restored = await letterhaus(['restore', ...opening(), file], home);
  assert.match(restored.stdout, /From the journal: 1 suppressions and 1 idempotency keys/);
  await using service = await startService({ database: 'own', dataDir });
  const found = await service.request('GET', '/v1/suppressions/gone@example.org', { key });
  assert.equal(found.status, 200, found.text);
  const draft = { from: 'Acme <hello@acme.test>', subject: 'Hello', html: '<p>Hello</p>' };
  const email = { ...draft, to: 'delivered@simulator.test' };
  const again = await service.request('POST', '/v1/emails', { key, headers, body: email });
  assert.deepEqual([again.status, again.body.id], [200, id]);
});

async function metric(service: Service, name: string): Promise<number> {
  const { text } = await service.metrics();
  return Number(new RegExp(`^letterhaus_backup_${name} (\\S+)$`, 'm').exec(text)?.[1]);
}

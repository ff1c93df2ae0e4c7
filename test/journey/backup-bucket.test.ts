/** Backups in a bucket: the service makes them, and another machine is restored from one and its journal. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../support/embedded.ts';
import { letterhaus } from '../support/letterhaus.ts';
import { ACCESS, startS3Server } from '../support/s3-server.ts';
import { opening, SEALED } from '../support/sealing.ts';
import { startService } from '../support/service.ts';
import { eventually, waitFor } from '../support/wait.ts';

const PLACE = 's3://backups/acme/';

test('an installation whose backups are in a bucket outlives its machine', async () => {
  await using store = await startS3Server();
  const names = (part: string): string[] =>
    [...store.objects.keys()].filter((key) => key.startsWith(`acme/letterhaus${part}`)).toSorted();
  const env = { ...store.env, ...SEALED };
  const old = 'acme/letterhaus-20260101T000000Z.backup';
  store.put(old, Buffer.from('an old one'));
  store.fault = ({ operation }) =>
    operation === 'UploadPart' ? { status: 507, code: 'XMinioStorageFull' } : null;
  const lost = await startService({
    database: 'own',
    env: { ...env, LETTERHAUS_BACKUP_TO: 's3://backups/acme', LETTERHAUS_BACKUP_KEEP: '1' },
  });
  await waitFor(() => /a backup failed/.test(lost.logs), {
    what: 'the failure in the log',
    timeoutMs: 60_000,
  });
  await lost.logged(/has no space for s3:\/\/backups\/acme\/letterhaus-.*delete something there/);
  assert.deepEqual([names('-'), store.uploads.size], [[old], 0]);
  await lost.logged(/The newest good backup in s3:\/\/backups\/acme\/ is \d+ days old/);
  await eventually(async () => {
    const { stdout } = await lost.cli('attention');
    assert.match(stdout, /^The newest backup is \d+ days old: s3:/);
    assert.match(stdout, /backup\.failed[^]*has no space for/);
  });

  store.fault = () => null;
  await lost.restart();
  // The old one is removed when a new one was read back.
  await waitFor(() => !names('-').includes(old), { what: 'a good backup', timeoutMs: 60_000 });
  const [scheduled = ''] = names('-');
  const headers = { 'idempotency-key': 'order-4711' };
  const id = await lost.send({}, { headers });
  const added = await lost.request('POST', '/v1/suppressions', {
    body: { address: 'gone@example.org' },
  });
  assert.equal(added.status, 201, added.text);
  const journal = (): string =>
    names('.journal/')
      .map((key) => store.objects.get(key)!.toString())
      .join('');
  await waitFor(() => /gone@example\.org/.test(journal()) && /order-4711/.test(journal()), {
    what: 'both in the journal',
  });
  await lost.killGroup9();
  const key = lost.testKey;
  assert.doesNotMatch(lost.logs, new RegExp(ACCESS.secretAccessKey));
  await lost[Symbol.asyncDispose]();

  // The place is named: it says which backup is the newest.
  const asked = await letterhaus(['backup', '--verify', PLACE], env);
  assert.equal(asked.code, 2);
  assert.match(asked.stderr, new RegExp(`The newest is s3://backups/${scheduled}\\.`));
  const file = `s3://backups/${scheduled}`;
  const verified = await letterhaus(['backup', '--verify', file], env);
  assert.match(verified.stdout, /complete and unchanged/);
  const dataDir = join(temporaryFolder(), 'data');
  const home = { ...env, LETTERHAUS_DATA_DIR: dataDir };
  const restored = await letterhaus(['restore', ...opening(), file], home);
  assert.equal(restored.code, 0, restored.stderr);
  assert.match(restored.stdout, /From the journal: 1 suppressions and 1 idempotency keys/);

  await using service = await startService({ database: 'own', dataDir, env });
  const found = await service.request('GET', '/v1/suppressions/gone@example.org', { key });
  assert.equal(found.status, 200, found.text);
  const draft = { from: 'Acme <hello@acme.test>', subject: 'Hello', html: '<p>Hello</p>' };
  const email = { ...draft, to: 'delivered@simulator.test' };
  const again = await service.request('POST', '/v1/emails', { key, headers, body: email });
  assert.deepEqual([again.status, again.body.id], [200, id]);

  // By hand: under a name, and under the time.
  const named = await service.cli('backup', `${PLACE}by-hand`);
  assert.match(named.stdout, /^s3:\/\/backups\/acme\/by-hand has \d+ emails/);
  const twice = await service.cli('backup', `${PLACE}by-hand`);
  assert.match(twice.stderr, /acme\/by-hand exists\. Choose another name\./);
  assert.equal((await service.cli('backup', PLACE)).code, 0);
  assert.equal(names('-').length, 2);
});

test('a bucket without credentials or with a wrong name is reported at the start', async () => {
  const start = (to: string) =>
    letterhaus(['start'], { ...SEALED, LETTERHAUS_BACKUP_TO: to, AWS_ACCESS_KEY_ID: 'AKIA' });
  const { code, stderr } = await start('s3://backups/acme');
  assert.equal(code, 2);
  assert.match(stderr, /LETTERHAUS_BACKUP_TO: a bucket needs AWS_ACCESS_KEY_ID and AWS_SECRET_/);
  assert.match((await start('s3://UPPER')).stderr, /"s3:\/\/UPPER" is not understood; write s3:/);
});

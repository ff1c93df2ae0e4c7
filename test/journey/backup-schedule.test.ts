/** Backups that the service makes by itself. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../support/embedded.ts';
import { letterhaus } from '../support/letterhaus.ts';
import { type Service, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const OLD = [1, 2, 3].map((day) => `letterhaus-2026010${day}T000000Z.backup`);

test('a backup is made when it is due and checked, and then old ones are removed', async () => {
  const folder = join(temporaryFolder(), 'backups');
  await using service = await startService({
    env: {
      LETTERHAUS_BACKUP_TO: folder,
      LETTERHAUS_BACKUP_KEEP: '2',
      LETTERHAUS_BACKUP_PASSPHRASE: 'correct horse battery staple',
    },
  });
  // Its folder is missing: that is logged and counted.
  await waitFor(() => /a backup failed.*/.test(service.logs), { what: 'the failure in the log' });
  assert.match(service.logs, /cannot be used \(ENOENT\)/);
  assert.equal(await metric(service, 'failures_total'), 1);
  assert.equal(await metric(service, 'last_success_timestamp_seconds'), 0);

  mkdirSync(folder);
  for (const name of OLD) writeFileSync(join(folder, name), 'an old one');
  writeFileSync(join(folder, 'notes.txt'), 'not a backup');
  // What a machine without power left behind.
  writeFileSync(join(folder, `.${OLD[0]}.unfinished`), '');
  await service.restart();
  const isMade = () => metric(service, 'last_success_timestamp_seconds').then((s) => s > 1.78e9);
  await waitFor(isMade, { what: 'a good backup', timeoutMs: 60_000 });
  const names = readdirSync(folder).toSorted();
  assert.equal(names.length, 3, names.join());
  const [kept, made, other] = names;
  assert.deepEqual([kept, other], [OLD[2], 'notes.txt']);
  const verified = await letterhaus(['backup', '--verify', join(folder, made!)], {});
  assert.equal(verified.code, 0, verified.stderr);

  // It is not due again after a restart.
  await service.restart();
  await waitFor(isMade, { what: 'the age of the backup' });
  assert.deepEqual(readdirSync(folder).toSorted(), names);
});

test('scheduled backups need a passphrase or a recipient', async () => {
  const folder = temporaryFolder();
  const { code, stderr } = await letterhaus(['start'], { LETTERHAUS_BACKUP_TO: folder });
  assert.equal(code, 2);
  assert.match(stderr, /set LETTERHAUS_BACKUP_PASSPHRASE or LETTERHAUS_BACKUP_RECIPIENT too/);
});

async function metric(service: Service, name: string): Promise<number> {
  const { text } = await service.metrics();
  return Number(new RegExp(`^letterhaus_backup_${name} (\\S+)$`, 'm').exec(text)?.[1]);
}

/** The commands of docs/upgrading.md work as pasted, in their order, with a next version that asks for a backup. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { temporaryFolder } from '../support/embedded.ts';
import { LAUNCHER } from '../support/letterhaus.ts';
import { nextVersion } from '../support/next-version.ts';
import { startService } from '../support/service.ts';

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/upgrading.md'), 'utf8');
const blocks = [...GUIDE.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, text]) => text!);

const NEXT = `-- Emails get a token.
-- Needs a backup first: it rewrites all emails.
alter table emails add column token uuid not null default gen_random_uuid();
update installation set schema_required = 9001;`;

test('the guide of upgrades leads from a look to the new version and back', async () => {
  const folder = temporaryFolder();
  const [etc, backups] = [join(folder, 'etc'), join(folder, 'backups')];
  for (const made of [etc, backups]) mkdirSync(made);
  writeFileSync(join(etc, 'passphrase'), 'correct horse battery staple\n');
  const next = nextVersion('9.0.0', { '9001.do.tokens.sql': NEXT });
  const service = await startService({ database: 'own' });
  const before = join(folder, 'before');
  const run = async (block: string): Promise<{ stdout: string; stderr: string }> => {
    const script = block
      .replaceAll('/opt/letterhaus-next/bin', next.bin)
      .replaceAll('/etc/letterhaus', etc)
      .replaceAll('/var/backups/letterhaus', backups)
      .replaceAll('/var/lib/letterhaus-before', before)
      .replaceAll('/var/lib/letterhaus', service.dataDir);
    const path = `${dirname(LAUNCHER)}:${dirname(process.execPath)}:${process.env['PATH']}`;
    const options = { env: { ...service.env, PATH: path } };
    return promisify(execFile)('sh', ['-eu', '-c', script], options);
  };
  assert.equal(blocks.length, 5);
  const [look = '', backup = '', migrate = '', lookAgain = '', back = ''] = blocks;

  await service.waitForStatus(await service.send(), 'delivered');
  const first = await run(look);
  assert.match(first.stdout, /makes a backup first: it rewrites all emails/);
  assert.match(first.stdout, /^! No backup is known/m);
  await run(backup);
  const second = await run(look);
  assert.match(second.stdout, /Nothing prevents the upgrade\./);
  await service.stop();
  assert.match((await run(migrate)).stderr, /the backup is complete and checked/);
  assert.match((await run(lookAgain)).stdout, /No migration runs: the schema is at 9001/);
  assert.match((await run(back)).stdout, /Restored 1 emails .*\n(?:.*\n)*.*on hold/);
  rmSync(before, { recursive: true });
  await service[Symbol.asyncDispose]();
});

/** The commands of docs/backup.md work as pasted, one after the other. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { temporaryFolder } from '../support/embedded.ts';
import { LAUNCHER } from '../support/letterhaus.ts';
import { startService } from '../support/service.ts';

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/backup.md'), 'utf8');
const blocks = [...GUIDE.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, text]) => text!);

test('the guide of backups leads from a backup to a restored installation', async () => {
  const folder = temporaryFolder();
  const [etc, backups] = [join(folder, 'etc'), join(folder, 'backups')];
  for (const made of [etc, backups]) mkdirSync(made);
  const bin = dirname(LAUNCHER);
  const run = async (block: string, env: NodeJS.ProcessEnv): Promise<string> => {
    const script = block
      .replaceAll('/etc/letterhaus', etc)
      .replaceAll('/var/backups/letterhaus', backups);
    const path = `${bin}:${dirname(process.execPath)}:${process.env['PATH']}`;
    const options = { env: { ...env, PATH: path } };
    return (await promisify(execFile)('sh', ['-eu', '-c', script], options)).stdout;
  };
  const [make = '', check = '', restore = '', ...release] = blocks;

  const service = await startService({ database: 'own' });
  await service.waitForStatus(await service.send(), 'delivered');
  assert.match(await run(make, service.env), /letterhaus-\d{8}T\d{6}Z\.backup has 1 emails, /);
  await service[Symbol.asyncDispose]();

  assert.match(await run(check, {}), /complete and unchanged: 1 emails/);
  const home = { LETTERHAUS_DATA_DIR: join(folder, 'data') };
  assert.match(await run(restore, home), /The installation is on hold/);
  assert.equal(release.length, 2);
  const restored = await startService({ database: 'own', dataDir: home.LETTERHAUS_DATA_DIR });
  assert.match(await run(release[0]!, home), /No mail waits\./);
  assert.match(await run(release[1]!, home), /Released/);
  await restored[Symbol.asyncDispose]();
  rmSync(home.LETTERHAUS_DATA_DIR, { recursive: true });
});

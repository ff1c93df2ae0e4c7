/**
 * `npm run deb-check`: makes the Debian package and installs it in a root folder with a fresh Debian. There it starts
 * the command of the unit as the user of the service, with a root that is read-only, sends an email, starts again,
 * installs the package once more over changed settings, and purges it. The settings and the data must stay. Where
 * lintian is on the path, it must find no error and no warning without a reason in deploy/deb/lintian-overrides.
 *
 * Exit code 0: passed, 1: failed, 75: this machine has no root, no namespaces, no dpkg-deb or no mirror of Debian, so
 * nothing was checked. It takes three minutes.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { appendFileSync, copyFileSync, existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { baseRoot, installation } from './image/build.ts';
import { checkContainer } from './image/container.ts';
import { createDebian, runInside, whyNoRootFolders } from './image/root-folder.ts';
import { makeDebianPackage } from './package/deb.ts';
import { makePackageFolder } from './package/folder.ts';

const SUITE = 'trixie';
const NOT_CHECKED = 75; // EX_TEMPFAIL of sysexits.h
const DATA = '/var/lib/letterhaus';
const HEALTHCHECK = [
  '/opt/letterhaus/node_modules/.bin/node',
  '/opt/letterhaus/bin/healthcheck.js',
];
const SETTINGS = 'etc/letterhaus/letterhaus.env';

const { values } = parseArgs({ options: { debian: { type: 'string' } } });
process.exitCode = await main(values.debian ?? null);

/** @param debian a root folder of debootstrap, instead of a new one */
async function main(debian: string | null): Promise<number> {
  const reason = whyNoRootFolders() ?? whyNoPackage();
  if (reason !== null) return notChecked(reason);
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-deb-'));
  try {
    const made = join(folder, 'letterhaus');
    await makePackageFolder(made);
    const file = makeDebianPackage(made, folder);
    const base = debian ?? join(folder, 'debian');
    if (debian === null && !createDebian(SUITE, base, join(folder, 'tools')))
      return notChecked('debootstrap cannot be had, or finds no mirror of Debian');
    const root = baseRoot(base, join(folder, 'root'));
    await checkInstalled(root, file, folder);
    lint(file);
    return 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function whyNoPackage(): string | null {
  const { error } = spawnSync('dpkg-deb', ['--version'], { stdio: 'ignore' });
  return error === undefined ? null : 'dpkg-deb is not on the path';
}

async function checkInstalled(root: string, file: string, folder: string): Promise<void> {
  const inside = installation(root);
  const shell = (command: string) => runInside(inside, ['sh', '-euc', command]);
  copyFileSync(file, join(root, 'var/cache/letterhaus.deb'));
  await shell('apt-get update && apt-get install -y /var/cache/letterhaus.deb');
  const user = accountIn(root, 'letterhaus');
  assert.equal(statSync(join(root, SETTINGS)).gid, user.gid);
  assert.equal(statSync(join(root, SETTINGS)).mode & 0o777, 0o640);
  await checkContainer(
    {
      root,
      user,
      workdir: '/opt/letterhaus',
      commands: { ...unitCommand(root), healthcheck: HEALTHCHECK },
      env: { ...inside.env, HOME: DATA, PORT: '3000', NODE_COMPILE_CACHE: `${DATA}/compiled` },
      volumes: [DATA],
    },
    join(folder, 'data'),
  );
  appendFileSync(join(root, SETTINGS), 'LETTERHAUS_HOSTNAME=mail.example.com\n');
  await shell('dpkg -i /var/cache/letterhaus.deb');
  assert.match(
    readFileSync(join(root, SETTINGS), 'utf8'),
    /^LETTERHAUS_HOSTNAME/m,
    'settings stay',
  );
  const purged = await shell('dpkg --purge letterhaus');
  assert.match(purged, /is kept in \/var\/lib\/letterhaus/);
  assert.ok(existsSync(join(root, DATA)), 'data stays');
  for (const path of ['opt/letterhaus', 'usr/bin/letterhaus', 'etc/letterhaus'])
    assert.ok(!existsSync(join(root, path)), `${path} is removed`);
}

function accountIn(root: string, name: string): { uid: number; gid: number } {
  const passwd = readFileSync(join(root, 'etc/passwd'), 'utf8');
  const [, uid, gid] = new RegExp(`^${name}:x:(\\d+):(\\d+):`, 'm').exec(passwd) ?? [];
  assert.ok(uid !== undefined && gid !== undefined, `the package creates ${name}`);
  return { uid: Number(uid), gid: Number(gid) };
}

/** The command that systemd would start. */
function unitCommand(root: string): { entrypoint: string[]; command: string[] } {
  const unit = readFileSync(join(root, 'usr/lib/systemd/system/letterhaus.service'), 'utf8');
  return { entrypoint: /^ExecStart=(.*)$/m.exec(unit)![1]!.split(' '), command: [] };
}

function lint(file: string): void {
  const { status, error, stdout } = spawnSync('lintian', ['--fail-on', 'error,warning', file], {
    encoding: 'utf8',
  });
  if (error !== undefined) process.stdout.write('lintian is not on the path: not run.\n');
  else assert.equal(status, 0, stdout);
}

function notChecked(reason: string): number {
  process.stderr.write(`The Debian package was not checked: ${reason}.\n`);
  return NOT_CHECKED;
}

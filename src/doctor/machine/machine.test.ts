/** Checks of the machine, on a healthy one and with one fault at a time. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startDoctorLab } from '../../../test/support/doctor-lab.ts';
import { letterhausHere, MAIN } from '../../../test/support/letterhaus.ts';
import type { Finding } from '../finding.ts';
import * as access from './access.ts';
import { DISK_SPACE, DURABLE_WRITES } from './disk.ts';
import { LOCAL_PORTS, MEMORY, OPEN_FILES } from './limits.ts';
import { judgeNode } from './node-version.ts';

const lab = await startDoctorLab();
after(() => lab[Symbol.asyncDispose]());

const GB = 1024 ** 3;
const KEY_FILE = join(lab.dataDir, 'secrets', 'secret-key');
mkdirSync(join(lab.dataDir, 'secrets'));
writeFileSync(KEY_FILE, 'k'.repeat(43), { mode: 0o600 });

function only(findings: readonly Finding[]): Finding {
  assert.equal(findings.length, 1, JSON.stringify(findings));
  return findings[0]!;
}

test('a healthy machine has no red or yellow finding', async () => {
  const { CONFIGURATION, DATA_DIRECTORY, SECRET_KEY, USER, LISTENERS, TEST_SETTINGS } = access;
  for (const check of [
    CONFIGURATION,
    DATA_DIRECTORY,
    SECRET_KEY,
    USER,
    LISTENERS,
    TEST_SETTINGS,
    DISK_SPACE,
  ]) {
    const { level, found } = only(await lab.run(check));
    assert.equal(level, 'green', `${check.id}: ${found}`);
  }
});

test('the figures of this machine are measured', async () => {
  assert.match(
    only(await lab.run(DURABLE_WRITES)).found,
    /^A durable write in .* takes \d+\.\d ms/,
  );
  assert.match(
    only(await lab.run(MEMORY)).found,
    /^The database and \d+ workers share \d+ MB of memory\.$/,
  );
  for (const check of [OPEN_FILES, LOCAL_PORTS]) {
    const { level, found } = only(await lab.run(check));
    assert.match(found, level === 'unknown' ? /does not show/ : /\d/);
  }
});

test('a low limit on open files is reported', async () => {
  const limited = 'ulimit -n 1024 && exec "$0" "$@"';
  const args = ['-c', limited, process.execPath, MAIN, 'doctor', '--only', 'open_files', '--json'];
  const { stdout } = await promisify(execFile)('sh', args, { env: lab.env });
  const { level, found, remedy } = only(JSON.parse(stdout).findings);
  assert.deepEqual([level, found], ['yellow', 'A process may have only 1024 files open.']);
  assert.match(remedy ?? '', /LimitNOFILE=/);
});

test('a slow disk is reported with the number of commits that it allows', async () => {
  let ms = 0;
  const world = { monotonicMs: () => (ms += 41) };
  const { level, found, meaning } = only(await lab.run(DURABLE_WRITES, { world }));
  assert.equal(level, 'yellow');
  assert.match(found, /takes 41\.0 ms/);
  assert.match(meaning ?? '', /about 24 commits a second/);
});

test('a full disk and one without room for files are reported', async () => {
  const readDisk = (freeBytes: number, freeFiles: number) => ({
    machine: { readDisk: () => Promise.resolve({ freeBytes, files: 1_000_000, freeFiles }) },
  });
  const full = only(await lab.run(DISK_SPACE, readDisk(GB / 2, 500_000)));
  assert.equal(full.level, 'red');
  assert.match(full.remedy ?? '', /^Free disk space/);
  const nearly = only(await lab.run(DISK_SPACE, readDisk(1.5 * GB, 500_000)));
  assert.equal(nearly.level, 'red');
  assert.match(nearly.meaning ?? '', /stops accepting mail when less than 1 GiB is free/);
  const soon = only(await lab.run(DISK_SPACE, readDisk(3 * GB, 500_000)));
  assert.equal(soon.level, 'yellow');
  const [space, files] = await lab.run(DISK_SPACE, readDisk(100 * GB, 12));
  assert.deepEqual([space?.level, files?.level], ['green', 'yellow']);
  assert.match(files?.found ?? '', /only 12 more files/);
});

test('a data directory or a secret key that others can read is red', async () => {
  chmodSync(lab.dataDir, 0o755);
  chmodSync(KEY_FILE, 0o640);
  const folder = only(await lab.run(access.DATA_DIRECTORY));
  const key = only(await lab.run(access.SECRET_KEY));
  chmodSync(lab.dataDir, 0o700);
  chmodSync(KEY_FILE, 0o600);
  assert.deepEqual([folder.level, folder.command], ['red', `chmod go-rw ${lab.dataDir}`]);
  assert.deepEqual([key.level, key.command], ['red', `chmod 600 ${KEY_FILE}`]);
});

test('a missing secret key is red once there is a database, and unknown before the first start', async () => {
  const config = { dataDir: join(lab.dataDir, 'elsewhere') };
  const before = only(await lab.run(access.SECRET_KEY, { config }));
  assert.equal(before.level, 'unknown');
  const db = { query: () => Promise.resolve([]) };
  const database = { kind: 'open', db, schema: 1, schemaKnown: 1 } as const;
  const lost = only(await lab.run(access.SECRET_KEY, { config, database }));
  assert.equal(lost.level, 'red');
  assert.match(lost.remedy ?? '', /back from a backup/);
});

test('workers of root, an API without TLS, open metrics and settings for tests are reported', async () => {
  const root = only(await lab.run(access.USER, { machine: { workersStayRoot: true } }));
  assert.deepEqual([root.level, /ordinary user/.test(root.remedy ?? '')], ['yellow', true]);
  const open = await lab.run(access.LISTENERS, {
    env: { HOST: '8.8.4.4', LETTERHAUS_METRICS_PORT: '10.0.0.5:9464' },
  });
  assert.deepEqual(
    open.map(({ level, subject }) => [level, subject]),
    [
      ['red', '8.8.4.4'],
      ['yellow', '10.0.0.5'],
    ],
  );
  const everywhere = { config: { host: '0.0.0.0', sources: [] } };
  const levelOn = async (machine: object) =>
    only(await lab.run(access.LISTENERS, { ...everywhere, machine })).level;
  assert.equal(await levelOn({ localIps: ['10.0.0.5'] }), 'yellow');
  assert.equal(await levelOn({ localIps: ['8.8.4.4'] }), 'red');
  assert.equal(await levelOn({ localIps: ['8.8.4.4'], hasApiCertificate: true }), 'green');
  const config = { acceptDatabaseDurability: true, sources: [] };
  const machine = { localIps: ['8.8.4.4'] };
  const settings = await lab.run(access.TEST_SETTINGS, { config, machine });
  assert.deepEqual(
    settings.map(({ level }) => level),
    ['red', 'yellow'],
  );
  assert.match(settings[0]?.remedy ?? '', /^Unset it/);
});

test('a Node whose support ends soon is yellow, afterwards red, and an unknown one is unknown', () => {
  const judge = (version: string, date: string) => judgeNode(version, Date.parse(date));
  assert.equal(judge('26.10.0', '2026-11-27').level, 'green');
  assert.equal(judge('26.10.0', '2029-03-01').level, 'yellow');
  assert.equal(judge('26.10.0', '2029-04-30T12:00:00Z').level, 'yellow', 'the last day');
  const ended = judge('26.10.0', '2029-05-01');
  assert.equal(ended.level, 'red');
  assert.match(ended.found, /^The support of Node 26 ended on 2029-04-30\.$/);
  assert.equal(judge('99.0.0', '2026-11-27').level, 'unknown');
});

const certificate = (name: string): string =>
  fileURLToPath(new URL(`../../../test/support/certs/${name}.pem`, import.meta.url));

/** Runs the command on the lab, which has no database yet. */
async function findCertificates(name: string): Promise<Finding[]> {
  const files = { LETTERHAUS_TLS_CERT: certificate(name), LETTERHAUS_TLS_KEY: certificate(name) };
  const env = { ...lab.env, ...files, LETTERHAUS_INBOUND_PORT: '2525' };
  const { stdout, stderr } = await letterhausHere(
    ['doctor', '--only', 'certificates', '--json'],
    env,
  );
  assert.equal(stderr, '');
  return JSON.parse(stdout).findings;
}

test('a certificate that has ended or has another name is reported with its file', async () => {
  assert.equal(only(await findCertificates('trusted')).level, 'green');
  const expired = only(await findCertificates('expired'));
  assert.equal(expired.level, 'red');
  assert.match(expired.found, /LETTERHAUS_TLS_CERT: .*expired\.pem ended on .*2021/);
  const other = only(await findCertificates('other-name'));
  assert.equal(other.level, 'red');
  assert.match(other.found, /is for other\.test, and clients connect to lab\.mx\.test/);
  assert.match(other.remedy ?? '', /LETTERHAUS_TLS_CERT/);
  const missing = only(await findCertificates('missing'));
  assert.match(missing.found, /missing\.pem does not exist/);
});

test('a variable that would end a start is red, and the other checks still run', async () => {
  const env = { ...lab.env, LETTERHAUS_MX_PORT: 'many', LETTERHAUS_HOSTNAM: 'x' };
  const args = ['doctor', '--only', 'configuration,data_directory'];
  const { code, stdout } = await letterhausHere(args, env);
  assert.equal(code, 1);
  assert.match(stdout, /^red +configuration +LETTERHAUS_MX_PORT: "many" is not understood/m);
  assert.match(stdout, /LETTERHAUS_HOSTNAM: there is no such variable; did you mean/);
  assert.match(stdout, /^1 red, 0 yellow, 0 unknown; 1 of 2 checks are green\.$/m);
  const nowhere = await letterhausHere(args, { ...lab.env, DATABASE_URL: 'mysql://x' });
  assert.equal(nowhere.code, 2);
});

test('wrong arguments are refused with the nearest check, and --list shows all', async () => {
  const typo = await letterhausHere(['doctor', '--only', 'reverse_dn'], lab.env);
  assert.equal(typo.code, 2);
  assert.match(typo.stderr, /There is no check "reverse_dn"; did you mean reverse_dns\?/);
  const list = await letterhausHere(['doctor', '--list', '--json'], lab.env);
  const ids = JSON.parse(list.stdout).data.map(({ id }: { id: string }) => id);
  assert.ok(ids.includes('outgoing_port_25') && ids.length > 40);
});

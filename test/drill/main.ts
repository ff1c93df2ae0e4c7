/**
 * `npm run drill`: loses a machine under load and restores it from its backup, on the embedded database and on external
 * servers (postgres.ts).
 *
 * Clients send while a backup is made, and go on after it. The drill then kills all processes, removes the data
 * directory, restores the backup elsewhere, and releases all mail except the mail in doubt. It passes when every email
 * that was accepted before the backup began was sent or is on hold in doubt, no recipient got a second copy, and the
 * keys work. It follows the guide docs/backup.md.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync, chmodSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FakeDns, startFakeDns } from '../support/fake-dns.ts';
import { type FakeMx, startFakeMx } from '../support/fake-mx.ts';
import { cleanEnv, letterhaus, type Env } from '../support/letterhaus.ts';
import { emptyDatabase } from '../support/postgres.ts';
import { type Service, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { type ExternalServer, externalServers } from './postgres.ts';

const ADDRESS = '127.0.1.1';
const CLIENTS = 8;
/** Minimum of emails accepted before the backup begins, and after it has ended. */
const EMAILS = process.argv.includes('--quick') ? 150 : 1_500;
/** Milliseconds that the mail server waits before each reply, so that some messages are under way at any moment. */
const THINKS_MS = 40;

/** External server; null: the embedded database. */
type Where = ExternalServer | null;
type Sent = { id: string; to: string; atMs: number };

async function drill(where: Where): Promise<string> {
  await using stage = await openStage();
  const { mx, folder, sealed } = stage;
  await using first = await databaseOn(where);
  const lost = await startService({ dns: stage.dns, env: stage.env, database: first ?? 'own' });
  await lost.addLiveDomain('acme.example');
  const key = await lost.liveKey();

  const load = new Load(lost, key);
  await waitFor(() => load.sent.length >= EMAILS, {
    what: 'mail before the backup',
    timeoutMs: 120_000,
  });
  const backupFromMs = performance.now();
  const file = join(folder, 'drill.backup');
  await command(['backup', ...sealed, file], lost.env);
  const backupS = seconds(backupFromMs);
  const { length } = load.sent;
  await waitFor(() => load.sent.length >= length + EMAILS, {
    what: 'mail after it',
    timeoutMs: 120_000,
  });
  await lost.killGroup9();
  await load.stop();
  await lost[Symbol.asyncDispose]();
  await command(['backup', '--verify', file], {});

  await using database = await databaseOn(where);
  const dataDir = join(folder, 'data');
  const restoreFromMs = performance.now();
  const home = { LETTERHAUS_DATA_DIR: dataDir, DATABASE_URL: database?.url };
  await command(['restore', ...sealed, file], home);
  const restoreS = seconds(restoreFromMs);
  const options = { dns: stage.dns, env: stage.env, dataDir };
  await using service = await startService({ ...options, database: database ?? 'own' });
  const [{ in_doubt: inDoubt = 0 } = {}] = (await service.cliJson('release', '--dry-run')).mail;
  await service.cliJson('release', '--except-in-doubt');
  await untilSent(service);

  const before = load.sent.filter(({ atMs }) => atMs < backupFromMs);
  const lostMail = await findLost(service, before, mx);
  const twice = [...copiesOf(mx)].filter(([, copies]) => copies > 1).map(([to]) => to);
  await requireKeys(service, key, mx);
  const counts = `${load.sent.length} accepted, ${before.length} of them before the backup`;
  const result = `${inDoubt} in doubt, ${lostMail.length} lost, ${twice.length} twice`;
  for (const one of [...lostMail, ...twice].slice(0, 12)) process.stderr.write(`  ${one}\n`);
  const isGood = lostMail.length === 0 && twice.length === 0;
  if (!isGood) process.exitCode = 1;
  return `drill ${where?.name ?? 'embedded'}: ${counts}; backup ${backupS} s, restore ${restoreS} s; ${result}: ${isGood ? 'PASS' : 'FAIL'}`;
}

function databaseOn(where: Where): ReturnType<typeof emptyDatabase> | null {
  return where && emptyDatabase(where.address);
}

type Stage = AsyncDisposable & {
  mx: FakeMx;
  dns: FakeDns;
  folder: string;
  env: Env;
  sealed: string[];
};

async function openStage(): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-drill-'));
  chmodSync(folder, 0o711); // root's database runs as another user, who has to pass
  const passphrase = join(folder, 'passphrase');
  writeFileSync(passphrase, 'correct horse battery staple\n');
  const phases = { data: { afterMs: THINKS_MS, reply: '250 2.0.0 OK' } };
  const mx = await startFakeMx({ phases }, { address: ADDRESS });
  const dns = await startFakeDns({
    'shop.test': { MX: ['10 mx.test'] },
    'mx.test': { A: [ADDRESS] },
  });
  return {
    mx,
    dns,
    folder,
    env: {
      LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
      LETTERHAUS_MX_PORT: String(mx.port),
      LETTERHAUS_HOSTNAME: 'out.letterhaus.example',
      LETTERHAUS_LIMIT_SENDING: '1000000/60',
    },
    sealed: ['--passphrase-file', passphrase],
    [Symbol.asyncDispose]: async () => {
      await mx[Symbol.asyncDispose]();
      await dns[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Clients that send until they are stopped or the machine is lost. Emails without a 202 do not count. */
class Load {
  readonly sent: Sent[] = [];
  readonly #clients: Promise<void>[];
  #isOver = false;
  #count = 0;

  constructor(service: Service, key: string) {
    this.#clients = Array.from({ length: CLIENTS }, () => this.#run(service, key));
  }

  async #run(service: Service, key: string): Promise<void> {
    while (!this.#isOver) {
      const to = `r${(this.#count += 1)}@shop.test`;
      const body = { from: 'Acme <hello@acme.example>', to, subject: 'Drill', text: 'Hello' };
      const response = await service.request('POST', '/v1/emails', { key, body }).catch(() => null);
      if (response?.status !== 202) return;
      this.sent.push({ id: response.body.id, to, atMs: performance.now() });
    }
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#clients);
  }
}

/** Waits until all mail that is not on hold has ended. */
async function untilSent(service: Service): Promise<void> {
  const waiting = async (): Promise<number> =>
    (await service.sql('select count(*)::int as count from queue where not held'))[0].count;
  await waitFor(async () => (await waiting()) === 0, {
    what: 'an empty queue',
    timeoutMs: 120_000,
  });
}

/** Returns emails that are missing, and emails that were not sent and are not on hold. */
async function findLost(service: Service, sent: readonly Sent[], mx: FakeMx): Promise<string[]> {
  const rows = await service.sql(
    `select id, exists (select from queue where email_id = emails.id and held) as on_hold
       from emails where id = any($1::uuid[])`,
    [sent.map(({ id }) => id)],
  );
  const isOnHoldById = new Map<string, boolean>(rows.map((row) => [row.id, row.on_hold]));
  const copies = copiesOf(mx);
  return sent
    .filter(
      ({ id, to }) => !isOnHoldById.has(id) || (isOnHoldById.get(id) === false && !copies.has(to)),
    )
    .map(({ id, to }) => `${id} to ${to} is lost`);
}

function copiesOf(mx: FakeMx): Map<string, number> {
  const copies = new Map<string, number>();
  for (const { recipients } of mx.messages) {
    for (const to of recipients) copies.set(to, (copies.get(to) ?? 0) + 1);
  }
  return copies;
}

async function requireKeys(service: Service, key: string, mx: FakeMx): Promise<void> {
  const draft = { from: 'Acme <hello@acme.example>', to: 'after@shop.test' };
  const id = await service.send(draft, { key });
  await service.waitForStatus(id, 'delivered', { key, timeoutMs: 60_000 });
  const message = mx.messages.find(({ recipients }) => recipients.includes('after@shop.test'));
  assert.match(String(message?.raw), /^DKIM-Signature: .*d=acme\.example/ms);
}

async function command(args: string[], env: Env): Promise<void> {
  const { code, stderr } = await letterhaus(args, cleanEnv(env));
  assert.equal(code, 0, `letterhaus ${args.join(' ')}: ${stderr}`);
}

function seconds(fromMs: number): string {
  return ((performance.now() - fromMs) / 1_000).toFixed(1);
}

const report = (line: string): boolean => process.stdout.write(`${line}\n`);
report(await drill(null));
for (const start of externalServers()) {
  await using server = await start();
  report(await drill(server));
}
process.exit();

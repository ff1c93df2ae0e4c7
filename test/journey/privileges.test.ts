/**
 * Who the processes are. As root: workers are a user of their own, also one that was started again,
 * and the ports below 1024, certificates that only root may read and code that only root may read
 * work all the same. As an ordinary user: workers are that user.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from 'node:tls';
import { choosePort, portTurns } from '../../src/net/choose-port.ts';
import { makeSelfSigned } from '../../src/net/tls/self-signed.ts';
import { AS_ROOT } from '../support/embedded.ts';
import { workersOf } from '../support/processes.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

/** Real, effective, saved and file system's user and group, and the other groups. */
function identityOf(pid: number): { users: number[]; groups: number[] } {
  if (process.platform !== 'linux') {
    const columns = ['ruid=', 'uid=', 'rgid=', 'gid='].flatMap((name) => ['-o', name]);
    const text = execFileSync('ps', [...columns, '-p', String(pid)], { encoding: 'utf8' });
    const [ruid, uid, rgid, gid] = text.trim().split(/\s+/).map(Number);
    return { users: [ruid!, uid!], groups: [rgid!, gid!] };
  }
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const numbers = (name: string) =>
    (new RegExp(`^${name}:(.*)$`, 'm').exec(status)?.[1]?.match(/\d+/g) ?? []).map(Number);
  const others = AS_ROOT ? numbers('Groups') : [];
  return { users: numbers('Uid'), groups: [...numbers('Gid'), ...others] };
}

test('workers of a service started as root do not run as root and work normally', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-tls-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const renew = (name: string): void => {
    const validity = { fromMs: Date.now() - 60_000, untilMs: Date.now() + 3_600_000 };
    const made = makeSelfSigned(name, validity);
    writeFileSync(cert, made.certificate, { mode: 0o600 });
    writeFileSync(key, made.privateKey, { mode: 0o600 });
  };
  renew('first.test');
  const port = AS_ROOT ? await privilegedPort() : 0;
  await using service = await startService({
    database: 'own',
    args: ['--workers', '2'],
    env: {
      LETTERHAUS_SUBMISSION_PORTS: `${port}/tls`,
      LETTERHAUS_SMTP_HOST: '127.0.0.1',
      LETTERHAUS_TLS_CERT: cert,
      LETTERHAUS_TLS_KEY: key,
    },
  });
  const shown = async (): Promise<unknown> => {
    const [chosen = 0] = service.readyLine.submission_ports ?? [];
    const socket = connect({ host: '127.0.0.1', port: chosen, rejectUnauthorized: false });
    await once(socket, 'secureConnect');
    const { subject } = socket.getPeerCertificate();
    socket.destroy();
    return subject.CN;
  };
  const areDropped = async (): Promise<number[]> => {
    const pids = await workersOf(service.pid);
    for (const pid of pids) {
      const { users, groups } = identityOf(pid);
      const isRight = (id: number) => (AS_ROOT ? id >= 60_706 && id < 61_184 : id !== 0);
      assert.ok(users.every(isRight) && groups.every(isRight), `${users.join()} ${groups.join()}`);
      assert.equal(new Set(users).size, 1);
    }
    return pids;
  };
  const [first] = await areDropped();
  assert.equal(await shown(), 'first.test');
  const id = await service.send({ to: 'delivered@simulator.test' });
  await service.waitForStatus(id, 'delivered');

  process.kill(first!, 'SIGKILL');
  const isReplaced = async () => {
    const pids = await workersOf(service.pid);
    return pids.length === 2 && !pids.includes(first!);
  };
  await waitFor(isReplaced, { what: 'a new worker' });
  renew('second.test');
  // A connection that the killed worker was given is reset.
  const isRenewed = async () => (await shown().catch(() => null)) === 'second.test';
  // A client may open 120 connections a minute without a log-in.
  await waitFor(isRenewed, { what: 'the new certificate', timeoutMs: 60_000, everyMs: 200 });
  const areAllDropped = () =>
    areDropped().then(
      (pids) => pids.length === 2,
      () => false,
    );
  await waitFor(areAllDropped, { what: 'the new worker to drop its rights' });
});

/** Another one in each process: two runs on one machine would meet between choosing and listening. */
async function privilegedPort(): Promise<number> {
  for (let port = 1_023 - (process.pid % 300); port > 600; port -= 1) {
    const wish = { host: '127.0.0.1', port, isPortConfigured: true };
    const chosen = await choosePort(wish, portTurns(process.pid));
    if ('port' in chosen) return chosen.port;
  }
  throw new Error('no port below 1024 is free');
}

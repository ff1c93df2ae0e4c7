/** pgBouncer in front of the leader, with the file of deploy/ha, and what Letterhaus makes of its modes. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { letterhaus } from '../support/letterhaus.ts';
import { liveEnv, type Peers, to } from '../support/scene.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import type { Cluster } from './cluster.ts';
import { fileOf } from './machine.ts';
import type { Programs } from './programs.ts';

const PORT = 6432;

type PoolerOptions = {
  folder: string;
  programs: Programs;
  peers: Peers;
  env: Record<string, string>;
};

/**
 * In session mode a node accepts and delivers through the pooler, with prepared statements and advisory locks. In the
 * other modes the start ends with the reason.
 */
export async function checkPooler(cluster: Cluster, options: PoolerOptions): Promise<void> {
  const { peers, env } = options;
  const leader = await cluster.leader();
  const url = new URL(cluster.url.replace(/@[^/]*/, `@${leader.address}:${PORT}`));
  {
    await using _pooler = await startPooler(cluster, options, 'session');
    await using node = await startService({
      dns: peers.dns,
      database: { url: url.href, address: { connectionString: cluster.url }, setReachable },
      env: liveEnv(peers, env),
      args: ['--workers', '1'],
    });
    const key = await node.liveKey();
    await node.addLiveDomain('pooler.example.org');
    const id = await node.send({ from: 'hello@pooler.example.org', to: to(0) }, { key });
    await node.waitForStatus(id, 'delivered', { key, timeoutMs: 60_000 });
    assert.ok((await countPrepared(url.href)) > 0, 'a session keeps its prepared statements');
    assert.equal(await node.stop(), 0);
  }
  for (const mode of ['transaction', 'statement']) {
    await using _pooler = await startPooler(cluster, options, mode);
    const variables = { ...liveEnv(peers, env), DATABASE_URL: url.href, PORT: '0' };
    const dataDir = { LETTERHAUS_DATA_DIR: join(options.folder, `data-${mode}`) };
    const { code, stderr } = await letterhaus(['start'], { ...variables, ...dataDir });
    assert.equal(code, 2, stderr);
    assert.match(stderr, /a pooler that gives each transaction another connection/);
  }
}

const setReachable = (): Promise<never> => Promise.reject(new Error('stop pgBouncer'));

/** Prepares a statement, takes an advisory lock, and looks for both in later transactions of the same session. */
async function countPrepared(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query({ name: 'one', text: 'select 1' });
    await client.query('select pg_advisory_lock(48)');
    await client.query({ name: 'one', text: 'select 1' });
    const { rows } = await client.query<{ count: number }>(
      `select count(*)::int as count from pg_prepared_statements
        where name = 'one' and exists (select from pg_locks
               where locktype = 'advisory' and objid = 48 and pid = pg_backend_pid())`,
    );
    return rows[0]?.count ?? 0;
  } finally {
    await client.end();
  }
}

async function startPooler(
  cluster: Cluster,
  { folder, programs }: PoolerOptions,
  mode: string,
): Promise<AsyncDisposable> {
  const { network, account } = cluster;
  const leader = await cluster.leader();
  const at = join(folder, `pgbouncer-${mode}`);
  mkdirSync(at);
  const number = Number(leader.name.slice(2));
  const text = fileOf('pgbouncer.ini', { number, network, folder: at, programs, account });
  const file = join(at, 'pgbouncer.ini');
  writeFileSync(file, text.replace('pool_mode = session', `pool_mode = ${mode}`));
  const [, password = ''] = /:([^:@/]+)@/.exec(cluster.url)!;
  writeFileSync(join(at, 'userlist.txt'), `"letterhaus" "${password}"\n`);
  if (account !== null) chownSync(at, account.uid, account.gid);
  const log = openSync(join(at, 'log'), 'a');
  const child: ChildProcess = spawn(programs.pgbouncer, [file], {
    env: programs.env,
    stdio: ['ignore', log, log],
    ...account,
  });
  await waitFor(() => isListening(leader.address), { what: 'pgBouncer to listen' });
  return {
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    },
  };
}

async function isListening(host: string): Promise<boolean> {
  const socket = connect(PORT, host);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/**
 * docs/several-machines.md, followed literally: the settings and the commands of both machines, with a folder for each
 * machine, on loopback. The test does what systemd, ssh and the load balancer do.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { choosePort, portTurns } from '../../src/net/choose-port.ts';
import { temporaryFolder } from '../support/embedded.ts';
import { LAUNCHER } from '../support/letterhaus.ts';
import { runLoad } from '../support/load.ts';
import { migratedDatabase } from '../support/postgres.ts';
import { FROM, liveEnv, newPeers, to, waitForArrivals } from '../support/scene.ts';
import { type Service, startService } from '../support/service.ts';
import { eventually } from '../support/wait.ts';

const PAGE = readFileSync(join(import.meta.dirname, '../../docs/several-machines.md'), 'utf8');
const blocksOf = (language: string): string[] =>
  [...PAGE.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(
    ([, text]) => text!,
  );

/** Placed around the commands: ssh and systemd are not part of the page's promise. */
const SHELL = `
scp() { cp "$1" "$2"; }
systemctl() { echo "$1" >> "$SYSTEMCTL_LOG"; }
git() { :; }
`;

/** @property at replaces the paths and the address of the machine in a text of the page */
type Machine = { folder: string; dataDir: string; envFile: string; at: (text: string) => string };

async function newMachine(
  folder: string,
  { url, address }: { url: string; address: string },
): Promise<Machine> {
  const dataDir = join(folder, 'state');
  const envFile = join(folder, 'letterhaus.env');
  const port = await freePort();
  const at = (text: string): string =>
    text
      .replaceAll('root@mail2.example.com:/root', dirname(folder))
      .replaceAll('/root', dirname(folder))
      .replaceAll('/var/lib/letterhaus', dataDir)
      .replaceAll('-o letterhaus -g letterhaus', '')
      .replaceAll(/postgres:\/\/letterhaus:password@\S+/g, url)
      .replaceAll(`${address}:3000`, `127.0.0.1:${port}`)
      .replaceAll(`HOST=${address}`, 'HOST=127.0.0.1')
      .replaceAll('PORT=3000', `PORT=${port}`)
      .replaceAll('10.0.0.10', '127.0.0.1');
  mkdirSync(folder);
  return { folder, dataDir, envFile, at };
}

const turns = portTurns(process.pid);

/** A port that the system gives to nobody else before the machine listens on it. */
async function freePort(): Promise<number> {
  const chosen = await choosePort({ host: '127.0.0.1', port: 0, isPortConfigured: true }, turns);
  assert.ok('port' in chosen);
  return chosen.port;
}

/** Counts the nodes that `letterhaus status` lists. */
function nodesIn(status: string): number {
  return status.match(/^node +\S+: 1 worker/gm)?.length ?? 0;
}

test('the page about several machines leads to a second node, an upgrade of both and back to one', async () => {
  await using peers = await newPeers();
  await using database = await migratedDatabase();
  const folder = temporaryFolder();
  const [ofFirst = '', ofSecond = ''] = blocksOf('ini');
  const [copy = '', install = '', start = '', upgrade = '', remove = ''] = blocksOf('sh');
  const at = (name: string, address: string) =>
    newMachine(join(folder, name), { url: database.url, address });
  const [mail1, mail2] = [await at('mail1', '10.0.0.21'), await at('mail2', '10.0.0.22')];
  for (const [machine, settings] of [
    [mail1, ofFirst],
    [mail2, ofSecond],
  ] as const)
    writeFileSync(machine.envFile, machine.at(settings), { mode: 0o600 });

  const run = async (block: string, machine: Machine): Promise<string> => {
    const script = machine.at(block).replaceAll('/opt/letterhaus/bin/letterhaus install', ':');
    const path = `${dirname(LAUNCHER)}:${dirname(process.execPath)}:${process.env['PATH']}`;
    const env = {
      PATH: path,
      LETTERHAUS_ENV_FILE: machine.envFile,
      LETTERHAUS_DNS_SERVERS: peers.dns.server,
      SYSTEMCTL_LOG: join(machine.folder, 'systemctl'),
    };
    return (await promisify(execFile)('sh', ['-eu', '-c', SHELL + script], { env })).stdout;
  };
  const startOn = ({ envFile, dataDir }: Machine): Promise<Service> =>
    startService({
      dns: peers.dns,
      database,
      dataDir,
      env: liveEnv(peers, {
        LETTERHAUS_ENV_FILE: envFile,
        HOST: undefined,
        PORT: undefined,
        DATABASE_URL: undefined,
        LETTERHAUS_DATA_DIR: undefined,
      }),
    });

  await using first = await startOn(mail1);
  await first.addLiveDomain('acme.example.org');
  const key = await first.liveKey();

  await run(copy, mail1);
  await run(install, mail2);
  assert.equal(statSync(join(mail2.dataDir, 'secrets/secret-key')).mode & 0o777, 0o600);
  assert.ok(!existsSync(join(folder, 'secret-key')), 'the copy on the way is removed');

  await using second = await startOn(mail2);
  const status = await run(start, mail2);
  assert.match(status, /"status":"ok"/);
  assert.equal(nodesIn(status), 2, status);
  assert.match(status, /^0 red, 0 yellow, /m);

  const send = (node: Service, count: number, from: number) =>
    runLoad(node, { key, count, from: FROM, to: (index) => to(from + index) });
  const accepted: string[] = [];
  const before = await Promise.all([send(first, 20, 0), send(second, 20, 100)]);
  for (const [node, other, machine] of [
    [second, first, mail2],
    [first, second, mail1],
  ] as const) {
    const whileAway = send(other, 40, machine === mail2 ? 200 : 300);
    await node.restart();
    await run(upgrade.replace('10.0.0.21', machine === mail1 ? '10.0.0.21' : '10.0.0.22'), machine);
    const load = await whileAway;
    assert.deepEqual(
      [load.refused.length, load.broken],
      [0, 0],
      'the other node accepts meanwhile',
    );
    accepted.push(...load.accepted);
  }
  accepted.push(...before.flatMap((load) => load.accepted));
  assert.equal(accepted.length, 120);

  await run(remove, mail1);
  assert.match(readFileSync(join(mail1.folder, 'systemctl'), 'utf8'), /stop\nstart\ndisable\n/);
  assert.equal(await first.stop(), 0);
  await waitForArrivals(peers.mx, accepted);
  await eventually(async () => {
    const listed = await run('letterhaus status', mail2);
    assert.equal(nodesIn(listed), 1, listed);
  });
  const id = await second.send({ from: FROM, to: to(400) }, { key });
  await second.waitForStatus(id, 'delivered', { key });
});

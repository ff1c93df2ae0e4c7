/** Shows which port the service takes, also when several start at the same time. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { choosePort, portTurns } from './choose-port.ts';

const host = '127.0.0.1';
const FIRST_ORDINARY_PORT = '/proc/sys/net/ipv4/ip_unprivileged_port_start';

const takenPort = () => listenOn(0);

async function listenOn(wanted: number): Promise<AsyncDisposable & { port: number }> {
  const server = createServer().listen({ host, port: wanted });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { port, [Symbol.asyncDispose]: async () => void (await once(server.close(), 'close')) };
}

test('if the default port is in use, the next free one is chosen', async () => {
  await using taken = await takenPort();
  const chosen = await choosePort(
    { host, port: taken.port, isPortConfigured: false },
    portTurns(1),
  );
  assert.ok('port' in chosen && chosen.port > taken.port);
});

test('a configured port that is in use is an error', async () => {
  await using taken = await takenPort();
  assert.deepEqual(
    await choosePort({ host, port: taken.port, isPortConfigured: true }, portTurns(1)),
    {
      problem: `PORT: port ${taken.port} is in use by another program; stop it or choose another port.`,
    },
  );
});

test('port 0 chooses a port outside the ephemeral range', async () => {
  const wish = { host, port: 0, isPortConfigured: true };
  const chosen = await choosePort(wish, portTurns(1));
  assert.ok('port' in chosen && chosen.port >= 20_000 && chosen.port < 32_000);
  await using taken = await listenOn(chosen.port);
  const next = await choosePort(wish, portTurns(1));
  assert.ok('port' in next && next.port !== taken.port);
});

test('services that start at the same time choose different ports', async () => {
  const wish = { host, port: 0, isPortConfigured: true };
  const pids = Array.from({ length: 30 }, (_, index) => 4_000_000 + index);
  const ports = pids.map(async (pid) => {
    const turns = portTurns(pid);
    return [await choosePort(wish, turns), await choosePort(wish, turns)];
  });
  const chosen = (await Promise.all(ports)).flat().map((found) => 'port' in found && found.port);
  assert.equal(new Set(chosen).size, 60);
});

test('an address of another machine is reported as a problem of HOST', async () => {
  const chosen = await choosePort(
    { host: '192.0.2.1', port: 0, isPortConfigured: true },
    portTurns(1),
  );
  assert.match('problem' in chosen ? chosen.problem : '', /^HOST: 192\.0\.2\.1 is not an address/);
});

test('a port that only root may use names the capability and the page', async () => {
  const isLinux = existsSync(FIRST_ORDINARY_PORT);
  const first = isLinux ? Number(readFileSync(FIRST_ORDINARY_PORT, 'utf8')) : 0;
  const asRoot = process.geteuid?.() === 0;
  if (asRoot) process.seteuid?.(65_534);
  const wish = { host, port: 1, isPortConfigured: true };
  const chosen = await choosePort(wish, portTurns(1)).finally(() => asRoot && process.seteuid?.(0));
  if (first <= 1) return assert.deepEqual(chosen, { port: 1 }, 'this machine has no such ports');
  assert.match(
    'problem' in chosen ? chosen.problem : '',
    /^PORT: this user may not listen on port 1\. .* CAP_NET_BIND_SERVICE, as docs\/system-user\.md shows/,
  );
});

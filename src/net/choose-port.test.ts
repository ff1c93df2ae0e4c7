import { test } from 'node:test';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { choosePort } from './choose-port.ts';

const host = '127.0.0.1';

async function takenPort(): Promise<AsyncDisposable & { port: number }> {
  const server = createServer().listen({ host, port: 0 });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { port, [Symbol.asyncDispose]: async () => void (await once(server.close(), 'close')) };
}

test('a default port that is taken gives way to the next free one', async () => {
  await using taken = await takenPort();
  const chosen = await choosePort({ host, port: taken.port, portAsked: false });
  assert.ok('port' in chosen && chosen.port > taken.port);
});

test('a port that was asked for and is taken is a problem', async () => {
  await using taken = await takenPort();
  assert.deepEqual(await choosePort({ host, port: taken.port, portAsked: true }), {
    problem: `PORT: port ${taken.port} is taken by another program; stop it or choose another port.`,
  });
});

test('port 0 picks one', async () => {
  const chosen = await choosePort({ host, port: 0, portAsked: true });
  assert.ok('port' in chosen && chosen.port > 0);
});

test('an address of another machine is a problem of HOST', async () => {
  const chosen = await choosePort({ host: '192.0.2.1', port: 0, portAsked: true });
  assert.match('problem' in chosen ? chosen.problem : '', /^HOST: 192\.0\.2\.1 is not an address/);
});

/** Clients that connect while the service stops. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());

/** Begins a request without its body. A stop waits for it, so the service still runs after it stopped listening. */
async function beginRequest() {
  const sending = request(`${service.url}/v1/emails`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${service.testKey}`,
      'content-type': 'application/json',
      'content-length': 2,
      expect: '100-continue',
    },
  });
  sending.flushHeaders();
  await once(sending, 'continue');
  return sending;
}

/**
 * Connects again and again, up to four at a time, until nobody listens.
 * @returns the connections that are still open
 */
function connectUntilRefused(port: number): { open: Set<Socket>; refused: Promise<unknown[]> } {
  const open = new Set<Socket>();
  const untilRefused = async (): Promise<void> => {
    for (;;) {
      const socket = connect({ host: '127.0.0.1', port });
      const isConnected = await once(socket, 'connect').catch(() => null);
      if (isConnected === null) return;
      open.add(socket);
      const closed = once(socket.resume(), 'close').catch(() => {});
      void closed.then(() => open.delete(socket));
      await closed;
    }
  };
  return { open, refused: Promise.all(Array.from({ length: 4 }, untilRefused)) };
}

test('a client that connects while the service stops is disconnected at once, not when the service ends', async () => {
  // The moment is short: a connection that a worker refuses because it has just stopped to listen.
  for (let round = 0; round < 3; round += 1) {
    const late = await beginRequest();
    const { open, refused } = connectUntilRefused(Number(new URL(service.url).port));
    const stopped = service.stop('SIGTERM');
    await refused;
    await waitFor(() => open.size === 0, { what: 'all connections to be closed' });
    // Still answered: the service has not ended.
    late.end('{}');
    const [response] = (await once(late, 'response')) as [IncomingMessage];
    assert.equal(response.resume().statusCode, 422);
    assert.equal(await stopped, 0);
    await service.restart();
  }
});

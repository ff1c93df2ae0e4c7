/**
 * Denial of service over HTTP, with and without a key: connections and memory that an attacker occupies must not block
 * other clients. Real sockets against a whole service with one worker.
 */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { MIB } from '../../src/lib/units.ts';

const service = await startService({ args: ['--workers', '1'] });
after(() => service[Symbol.asyncDispose]());

type Attacker = { socket: Socket; received: string; isClosed: boolean };

/** A client that writes this and nothing more, and waits. */
function attack(head: readonly string[], body = ''): Attacker {
  const socket = connect(Number(new URL(service.url).port), '127.0.0.1');
  const attacker: Attacker = { socket, received: '', isClosed: false };
  socket.setEncoding('latin1').on('data', (text: string) => (attacker.received += text));
  socket.on('error', () => {}).once('close', () => (attacker.isClosed = true));
  socket.write(`${head.join('\r\n')}\r\nHost: here\r\n\r\n${body}`);
  return attacker;
}

/** As many of them, connected, until the work is done. */
async function during(
  attackers: readonly Attacker[],
  { until, work }: { until: (one: Attacker) => boolean; work: () => Promise<void> },
): Promise<void> {
  try {
    await waitFor(() => attackers.every(until), {
      what: 'the attack to be on',
      timeoutMs: 120_000,
    });
    await work();
  } finally {
    for (const { socket } of attackers) socket.destroy();
  }
}

const isConnected = ({ socket, isClosed }: Attacker): boolean => isClosed || !socket.connecting;

/** Statuses of sends, each on a connection of its own. */
async function sendStatuses(count: number, key = service.testKey): Promise<Record<string, number>> {
  const body = { from: 'a@acme.test', to: 'delivered@simulator.test', subject: 'Hi', text: 'Hi' };
  const statuses: Record<string, number> = {};
  for (let sent = 0; sent < count; sent += 1) {
    const headers = { connection: 'close' };
    const { status } = await service.request('POST', '/v1/emails', { key, body, headers });
    statuses[status] = (statuses[status] ?? 0) + 1;
  }
  return statuses;
}

/** A connection of its own, because one that was idle may be closed just when it is used again. */
async function statusOfLarge(): Promise<number> {
  const text = 'x'.repeat(20 * MIB);
  const body = { from: 'a@acme.test', to: 'delivered@simulator.test', subject: 'Hi', text };
  const headers = { connection: 'close' };
  return (await service.request('POST', '/v1/emails', { body, headers })).status;
}

test('announced bodies without a key use no memory of valid requests', async () => {
  const attackers = Array.from({ length: 16 }, (_, index) =>
    attack([
      `GET ${index % 2 === 0 ? '/readyz' : '/openapi.json'} HTTP/1.1`,
      'Content-Length: 100663296',
    ]),
  );
  await during(attackers, {
    until: ({ received }) => received.startsWith('HTTP/1.1 200 '),
    work: async () => assert.deepEqual(await sendStatuses(20), { 202: 20 }),
  });
});

test('6,000 announced bodies at unsubscribe links do not block sending', async () => {
  const head = ['POST /u/x HTTP/1.1', 'Content-Type: text/plain', 'Content-Length: 16384'];
  const attackers = Array.from({ length: 6_150 }, () => attack(head));
  await during(attackers, {
    until: isConnected,
    work: async () => assert.deepEqual(await sendStatuses(20), { 202: 20 }),
  });
});

test('a forged unsubscribe link is refused before its body is read', async () => {
  const attacker = attack(['POST /u/x HTTP/1.1', 'Content-Length: 16384']);
  await during([attacker], {
    until: ({ received }) => received.startsWith('HTTP/1.1 404 '),
    work: async () => assert.match(attacker.received, /This link does not work/),
  });
});

test('announced bodies of one key use no memory of other projects', async () => {
  const { key } = await otherProjectsKey();
  const authorization = `Authorization: Bearer ${key}`;
  const json = 'Content-Type: application/json';
  const attackers = Array.from({ length: 16 }, () =>
    attack(
      ['POST /v1/emails HTTP/1.1', authorization, json, `Content-Length: ${45 * MIB}`],
      'x'.repeat(1_000),
    ),
  );
  await during(attackers, {
    until: isConnected,
    work: async () => {
      assert.deepEqual(await sendStatuses(20), { 202: 20 });
      assert.equal(await statusOfLarge(), 202);
      assert.ok(
        attackers.some(({ received }) => received === ''),
        'the attack is on',
      );
    },
  });
});

test('incomplete bodies of one key use at most half of the memory', async () => {
  const { key } = await otherProjectsKey();
  const authorization = `Authorization: Bearer ${key}`;
  const json = 'Content-Type: application/json';
  const length = `Content-Length: ${16 * MIB + 1}`;
  const almost = ' '.repeat(16 * MIB);
  const attackers = Array.from({ length: 8 }, () =>
    attack(['POST /v1/emails HTTP/1.1', authorization, json, length], almost),
  );
  const refused = () =>
    attackers.filter(({ received }) => received.startsWith('HTTP/1.1 503 ')).length;
  await during(attackers, {
    until: () => refused() >= 5,
    work: async () => {
      assert.deepEqual(await sendStatuses(5), { 202: 5 });
      assert.equal(await statusOfLarge(), 202);
    },
  });
});

test('500 clients that do not read responses cost little memory and do not block others', async () => {
  const [worker] = await service.workerPids();
  const refusedBefore = refusedOpenApi();
  const beforeMb = await residentMb(worker);
  const asks = 'GET /openapi.json HTTP/1.1\r\nHost: here\r\n\r\n'.repeat(20);
  const deaf = Array.from({ length: 500 }, () =>
    attack(['GET /openapi.json HTTP/1.1'], asks).socket.pause(),
  );
  try {
    await waitFor(() => deaf.every(({ connecting }) => !connecting), {
      what: 'all to connect',
      timeoutMs: 120_000,
    });
    assert.deepEqual(await sendStatuses(20), { 202: 20 });
    // Twenty sends later all have been asked for; the kernel has what it takes of them.
    const grownMb = (await residentMb(worker)) - beforeMb;
    assert.ok(grownMb < 150, `${Math.round(grownMb)} MB more`);
    // A refusal ends the connection. Not every request that the client has pipelined is refused.
    const refused = refusedOpenApi() - refusedBefore;
    assert.ok(refused <= deaf.length, `${refused} requests were refused`);
  } finally {
    for (const socket of deaf) socket.destroy();
  }
});

/** Returns the number of requests for the description of the API that the log has as refused. */
function refusedOpenApi(): number {
  return service.logs.split('"route":"/openapi.json","status":503').length - 1;
}

/** Returns the resident memory of a process, by /proc. */
async function residentMb(pid = 0): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
}

let other: Promise<{ key: string }> | null = null;

/** The key of a project of its own. */
function otherProjectsKey(): Promise<{ key: string }> {
  other ??= (async () => {
    const { id } = await service.cliJson('projects', 'create', 'Other');
    return service.cliJson('keys', 'create', '--environment', 'test', '--project', id);
  })();
  return other;
}

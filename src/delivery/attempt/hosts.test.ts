/**
 * Shows which mail server of a domain is tried next after which failure, with SMTP servers of the tests on several
 * loopback addresses.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type FakeMx, type MxBehaviour, startFakeMx } from '../../../test/support/fake-mx.ts';
import { connectionsTo, TEST_WORLD } from '../../../test/support/smtp-connections.ts';
import { TlsCounters } from '../route/tls-counters.ts';
import { TlsRules } from '../route/tls-rules.ts';
import type { SmtpConnections } from '../shaping/smtp-connections.ts';
import { tryHosts } from './hosts.ts';

const DESTINATION = 'receiver.test';

type SentMessage = { connections?: SmtpConnections; tls?: TlsRules; allowedHost?: string };

/** Starts mail servers on 127.0.0.1, 127.0.0.2 and so on, with one port. */
async function startHosts(...behaviours: MxBehaviour[]) {
  const servers: FakeMx[] = [];
  for (const [index, behaviour] of behaviours.entries()) {
    const options = { address: `127.0.0.${index + 1}`, port: servers[0]?.port ?? 0 };
    servers.push(await startFakeMx(behaviour, options));
  }
  const stop = () => Promise.all(servers.map((server) => server.stop()));
  return { servers, [Symbol.asyncDispose]: async () => void (await stop()) };
}

function newTlsRules({ port }: FakeMx): TlsRules {
  return new TlsRules({
    resolver: { tlsa: () => assert.fail('no TLSA records exist') },
    policies: null,
    counters: new TlsCounters(async () => {}),
    port,
    world: TEST_WORLD,
  });
}

/** Tries to send one message. `allowedHost`: the only host of an MTA-STS policy that is enforced. */
async function send(
  servers: readonly FakeMx[],
  {
    connections = connectionsTo(servers[0]!),
    tls = newTlsRules(servers[0]!),
    allowedHost,
  }: SentMessage = {},
) {
  const hosts = servers.map(({ address }, index) => {
    return { name: `mx${index + 1}.${DESTINATION}`, preference: 10 * index, addresses: [address] };
  });
  const found = { kind: 'hosts', provider: DESTINATION, hosts, dropped: [] } as const;
  const mx = allowedHost === undefined ? null : [allowedHost];
  const sts = mx && ({ mode: 'enforce', mx, maxAgeS: 86_400 } as const);
  const demand = 'opportunistic';
  const result = await tryHosts(found, connections, {
    ...(await tls.forAttempt(found, { destination: DESTINATION, demand, sts })),
    transaction: {
      envelopeFrom: 'hello@acme.com',
      recipient: `jo@${DESTINATION}`,
      message: Buffer.from('Subject: hello\r\n\r\nHello\r\n'),
      smtpUtf8: false,
      mayProceed: () => true,
    },
    withMessage: null,
    untilExpiryMs: 3600_000,
    progress: {
      startedMs: TEST_WORLD.monotonicMs(),
      server: { via: { mx: null, ip: null, tls: null, tls_policy: 'none' }, source: '' },
    },
    checkServer: async () => null,
    slot: undefined,
  });
  assert.ok(result.kind === 'replied' || result.kind === 'failed', result.kind);
  return result;
}

const connectionCounts = (servers: readonly FakeMx[]) => servers.map((mx) => mx.connections);

test('a host that refuses in its greeting is passed over for the next one', async () => {
  await using hosts = await startHosts({ phases: { greeting: '554 5.3.2 No service' } }, {});
  const result = await send(hosts.servers);
  assert.deepEqual([result.kind, result.via.mx], ['replied', 'mx2.receiver.test']);
  assert.equal(hosts.servers[1]!.messages.length, 1);
});

test('at most two hosts that refuse a session are tried', async () => {
  const busy = { phases: { greeting: '421 4.3.2 Too busy' } };
  await using hosts = await startHosts(busy, busy, {});
  const result = await send(hosts.servers);
  assert.equal(result.via.mx, 'mx2.receiver.test');
  assert.equal(hosts.servers[2]!.connections, 0);
});

test('a reply about the message is final', async () => {
  await using hosts = await startHosts({ phases: { rcpt: '450 4.2.0 Try again later' } }, {});
  const result = await send(hosts.servers);
  assert.partialDeepStrictEqual(result, { phase: 'rcpt', reply: { code: 450 } });
  assert.deepEqual(connectionCounts(hosts.servers), [1, 0]);
});

test('after the final dot no further host is tried', async () => {
  await using hosts = await startHosts({ phases: { data: { drop: 'rst' } } }, {});
  const result = await send(hosts.servers);
  assert.partialDeepStrictEqual(result, { kind: 'failed', phase: 'data', inDoubt: true });
  assert.deepEqual(connectionCounts(hosts.servers), [1, 0]);
});

test('a host outside of the enforced MTA-STS policy is never connected to', async () => {
  await using hosts = await startHosts({ startTls: 'offered' }, { startTls: 'offered' });
  const result = await send(hosts.servers, { allowedHost: 'mx2.receiver.test' });
  // Its certificate is not trusted, so the policy forbids the second host as well.
  assert.partialDeepStrictEqual(result, { kind: 'failed', cause: 'tls' });
  assert.equal(result.via.mx, 'mx2.receiver.test');
  assert.equal(hosts.servers[0]!.connections, 0);
});

test('a failed handshake is repeated with a small ClientHello, which is remembered', async () => {
  await using hosts = await startHosts({ startTls: 'narrow' });
  const [mx] = hosts.servers as [FakeMx];
  const tls = newTlsRules(mx);
  const first = await send([mx], { tls });
  assert.match(first.via.tls?.version ?? '', /^TLSv1\./);
  assert.equal(mx.connections, 2);
  const second = await send([mx], { tls });
  assert.match(second.via.tls?.version ?? '', /^TLSv1\./);
  assert.equal(mx.connections, 3);
});

test('a server that fails every handshake gets the message in plain text', async () => {
  await using hosts = await startHosts({ startTls: 'broken' });
  const result = await send(hosts.servers);
  assert.deepEqual([result.kind, result.via.tls], ['replied', null]);
  assert.equal(hosts.servers[0]!.connections, 3);
});

test('a message that a spent session refuses is sent on a new session', async () => {
  const sessionLimit = { messages: 1, reply: '554 5.7.0 One message per connection' };
  await using hosts = await startHosts({ sessionLimit });
  const [mx] = hosts.servers as [FakeMx];
  const connections = connectionsTo(mx);
  for (let count = 1; count <= 2; count += 1) {
    const result = await send([mx], { connections });
    assert.partialDeepStrictEqual(result, { phase: 'data', reply: { code: 250 } });
  }
  assert.deepEqual([mx.messages.length, mx.connections], [2, 2]);
});

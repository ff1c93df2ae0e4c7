/**
 * A state in which mail waits logs one warning, which says what to do, and one line when it is over. It stays
 * one however much mail it concerns and however many workers notice it. Each state is a real one.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startFakeMx } from '../support/fake-mx.ts';
import { type LogLine, logLines } from '../support/log-lines.ts';
import { proxiedDatabase } from '../support/postgres.ts';
import { FROM, liveEnv, newPeers, to } from '../support/scene.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

await using parts = new AsyncDisposableStack();
const folder = mkdtempSync(join(tmpdir(), 'letterhaus-states-'));
parts.defer(() => rmSync(folder, { recursive: true }));
const shaping = join(folder, 'shaping.json');
const suspension = { after_failures: 1, first_s: 1, longest_s: 1 };
writeFileSync(shaping, JSON.stringify({ suspension }));
const peers = parts.use(await newPeers());
const { dns, mx } = peers;
const database = parts.use(await proxiedDatabase());
const env = liveEnv(peers, { LETTERHAUS_LOG: 'info', LETTERHAUS_SHAPING: shaping });
const service = parts.use(await startService({ dns, database, env, args: ['--workers', '2'] }));
const all = parts.move();
after(() => all.disposeAsync());
await service.addLiveDomain('acme.example.org');
const key = await service.liveKey();

const send = (address: string) => service.send({ from: FROM, to: address }, { key });

/** The lines of a state, about one provider if `last` names it. Its last one has come when this returns. */
async function linesOf(event: string, last: Partial<LogLine>): Promise<LogLine[]> {
  const isOfState = (line: LogLine) =>
    line['event'] === event && (!('provider' in last) || line['provider'] === last['provider']);
  const found = () => logLines(service).filter(isOfState);
  const isLast = (line: LogLine) =>
    Object.entries(last).every(([name, value]) => line[name] === value);
  await waitFor(() => found().some(isLast), {
    what: `${event} ${JSON.stringify(last)}`,
    timeoutMs: 60_000,
  });
  return found();
}

const levels = (lines: readonly LogLine[]): string[] => lines.map(({ level }) => level);

test('a database that becomes unavailable, while mail is refused, logs one warning, and one line when it returns', async () => {
  await send(to(1));
  await database.proxy.refuse();
  const body = { from: FROM, to: to(2), subject: 'Hi', text: 'Hi' };
  for (let count = 0; count < 20; count += 1) {
    const { status } = await service.request('POST', '/v1/emails', { key, body });
    assert.equal(status, 503);
  }
  const [begun] = await linesOf('node.unready', { level: 'warn' });
  assert.deepEqual(
    [begun?.['reason'], begun?.['remedy'], begun?.msg],
    [
      'database_unavailable',
      'Check that it runs and that this machine reaches it.',
      'this node accepts no mail: the database does not answer',
    ],
  );
  await database.proxy.heal();
  const lines = await linesOf('node.unready', { state: 'cleared' });
  assert.deepEqual(levels(lines), ['warn', 'info'], JSON.stringify(lines));
});

test('DNS servers that answer nothing log one warning with their addresses, and one line when they answer', async () => {
  dns.setFailure('*', 'servfail');
  for (let count = 0; count < 8; count += 1) await send(`jo@unresolved${count}.example`);
  const [begun] = await linesOf('dns.unavailable', { level: 'warn' });
  assert.match(begun?.['remedy'], /LETTERHAUS_DNS_SERVERS/);
  assert.ok(begun?.['remedy'].includes(dns.server));
  const { code, stdout } = await service.cli('attention');
  assert.equal(code, 1);
  assert.match(stdout, /dns\.unavailable/);
  dns.setFailure('*', null);
  const lines = await linesOf('dns.unavailable', { state: 'cleared' });
  assert.deepEqual(levels(lines), ['warn', 'info'], JSON.stringify(lines));
});

test('a provider that does not answer logs one warning however much mail waits for it, and one line when it answers', async () => {
  const address = '127.0.2.77';
  dns.set('down.example', 'MX', ['10 mx.down.test']);
  dns.set('mx.down.test', 'A', [address]);
  // Others answer meanwhile, so that it is not our own network.
  const others = Array.from({ length: 3 }, (_, index) => send(to(index)));
  await Promise.all([...others, ...others.map((_, index) => send(`jo${index}@down.example`))]);
  const event = 'provider.suspended';
  const [begun] = await linesOf(event, { level: 'warn', provider: 'mx.down.test' });
  assert.match(begun?.['reason'], /mx\.down\.test \[127\.0\.2\.77\]: /);
  assert.match(begun?.['remedy'], /letterhaus queue/);
  await using _server = await startFakeMx({}, { address, port: mx.port });
  // An email that failed before waits longer than the suspension.
  await send('late@down.example');
  const lines = await linesOf(event, { state: 'cleared', provider: 'mx.down.test' });
  assert.deepEqual(levels(lines), ['warn', 'info'], JSON.stringify(lines));
});

test("a provider that asks for less mail logs one warning with its reply, without the recipient's address", async () => {
  const address = '127.0.2.78';
  const reply = '421 4.7.0 Too many connections for <jo0@busy.example>';
  await using server = await startFakeMx(
    { phases: { rcpt: { reply } } },
    { address, port: mx.port },
  );
  dns.set('busy.example', 'MX', ['10 mx.busy.test']);
  dns.set('mx.busy.test', 'A', [address]);
  for (let count = 0; count < 5; count += 1) await send('jo0@busy.example');
  const lines = await linesOf('provider.slowed', { provider: 'mx.busy.test' });
  assert.deepEqual(levels(lines), ['warn']);
  assert.match(
    lines[0]?.['reason'],
    /^(?:421 )?4\.7\.0 Too many connections for …$|Too many connections for …$/,
  );
  assert.match(lines[0]?.['remedy'], /LETTERHAUS_SHAPING/);
  assert.ok(server.connections > 0);
  assert.ok(!service.logs.includes('jo0@'));
});

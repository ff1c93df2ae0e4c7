/**
 * A tenant can let all its mail servers fail at once, as if our own uplink were down. That must not delay the mail of
 * other tenants. The service must not conclude that the uplink is down while another server answers.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-uplink-'));
after(() => rmSync(folder, { recursive: true }));
const shaping = join(folder, 'shaping.json');
/** The service soon concludes that the uplink is down, and retries so late that a delay shows. */
writeFileSync(shaping, JSON.stringify({ uplink: { no_answer_s: 1, retry_s: 300 } }));

const journey = await startJourney({ LETTERHAUS_SHAPING: shaping }, { args: ['--workers', '2'] });
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

const AT_ONCE_MS = 20_000;
const HANG_UP = { phases: { greeting: { drop: 'fin' as const } } };
const good = await journey.mailServer('good.example', {}, { provider: 'good.test' });

const logged = (text: string): number => service.logs.split(text).length - 1;
const begun = (): number => logged('no mail server anywhere answers this machine');
const ended = (): number => logged('a mail server answers again');

async function resetArrives(mx: { messages: readonly unknown[] }, domain: string): Promise<void> {
  const before = mx.messages.length;
  await journey.send({ to: `reset@${domain}` });
  const what = `the reset to ${domain}`;
  await waitFor(() => mx.messages.length > before, { what, timeoutMs: AT_ONCE_MS });
}

let names = 0;

/** Sends mail to four domains of the stranger. Each has a mail server that answered before and now hangs up. */
async function flood(): Promise<void> {
  const evil = Array.from({ length: 4 }, () => `evil${(names += 1)}`);
  for (const name of evil) {
    const mx = await journey.mailServer(`${name}.example`, {}, { provider: `${name}.test` });
    await resetArrives(mx, `${name}.example`);
    mx.set(HANG_UP);
  }
  const to = evil.flatMap((name) => [1, 2, 3, 4].map((n) => `jo${n}@${name}.example`));
  await Promise.all(to.map((recipient) => journey.send({ to: recipient })));
}

test('while other mail is answered, a stranger’s dead mail servers do not count as our uplink', async () => {
  await flood();
  const untilMs = performance.now() + 5_000;
  while (performance.now() < untilMs) {
    await resetArrives(good, 'good.example');
    assert.equal(begun(), 0);
  }
});

test('when nothing else is under way, a stranger’s dead servers delay neither a known nor a new receiver of others', async () => {
  for (const domain of ['good.example', 'new.example']) {
    const earlier = begun();
    await flood();
    const isDown = () => begun() > earlier && begun() > ended();
    await waitFor(isDown, { what: 'the uplink to count as down', timeoutMs: AT_ONCE_MS });
    const mx = domain === 'new.example' ? await journey.mailServer(domain) : good;
    const before = ended();
    await resetArrives(mx, domain);
    // The stranger's next failures may begin another outage, so the test counts ends.
    const hasEnded = () => ended() > before;
    await waitFor(hasEnded, { what: 'its reply to end that', timeoutMs: AT_ONCE_MS });
  }
});
